"""The CUDA driver through ctypes: as much of it as recording needs."""
import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

TYPES = {"u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9,
         "f32_ftz": 10, "tf32": 11, "tf32_ftz": 12, "b16": 1, "b32": 2, "b64": 4, "e4m3": 0, "e5m2": 0, "s8": 0}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


class CudaError(Exception):
    pass


class Driver:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = c_int()
        self.call("cuDeviceGet", byref(device), 0)
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, 128, device)
        version = c_int()
        self.call("cuDriverGetVersion", byref(version))
        self.name, self.version = name.value.decode(), version.value

    def call(self, function, *arguments):
        result = getattr(self.cuda, function)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(result, byref(text))
            raise CudaError(f"{function}: {result} {(text.value or b'?').decode()}")

    def load(self, image):
        module = c_void_p()
        self.call("cuModuleLoadData", byref(module), image)
        return module

    def unload(self, module):
        self.call("cuModuleUnload", module)

    def allocate(self, n):
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(max(n, 16)))
        return pointer

    def tensor_map(self, description, address):
        rank = len(description["dims"])
        array = lambda kind, values: (kind * len(values))(*values)
        buffer = ctypes.create_string_buffer(128 + 64)
        at = (ctypes.addressof(buffer) + 63) // 64 * 64
        self.call("cuTensorMapEncodeTiled", c_void_p(at), c_int(TYPES[description["type"] + ("_ftz" if description.get("ftz") else "")]), c_uint(rank),
                  c_void_p(address + description.get("offset", 0)), array(c_uint64, description["dims"]),
                  array(c_uint64, description["strides"] or [0]), array(c_uint, description["box"]),
                  array(c_uint, description.get("element_strides", [1] * rank)), c_int(0),
                  c_int(SWIZZLES[description.get("swizzle", 0)]), c_int(0),
                  c_int(description.get("oob", "zero") == "nan"))
        return ctypes.string_at(at, 128)

    def run(self, module, case):
        """Launches the case; gives its output buffers' bytes by name."""
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), module, case.entry.encode())
        if case.shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, c_int(8), c_int(case.shared))
        memory = {name: self.allocate(case.size(name)) for name in case.buffers}
        try:
            for name, data in case.buffers.items():
                if isinstance(data, int):
                    self.call("cuMemsetD8_v2", memory[name], 0, c_size_t(max(data, 16)))
                else:
                    self.call("cuMemcpyHtoD_v2", memory[name], data, c_size_t(len(data)))
            values = [self.argument(case, kind, value, memory) for kind, value in case.args]
            pointers = (c_void_p * (len(values) + 1))(*[ctypes.addressof(v) for v in values])
            self.call("cuLaunchKernel", function, *case.grid, *case.block, case.shared, None, pointers, None)
            self.call("cuCtxSynchronize")
            outputs = {}
            for name in {s.buffer for s in case.segments}:
                host = ctypes.create_string_buffer(case.size(name))
                self.call("cuMemcpyDtoH_v2", host, memory[name], c_size_t(case.size(name)))
                outputs[name] = host.raw
            return outputs
        finally:
            for pointer in memory.values():
                self.cuda.cuMemFree_v2(pointer)

    def argument(self, case, kind, value, memory):
        if kind == "buffer":
            return c_uint64(memory[value].value)
        if kind == "map":
            description = case.maps[value]
            data = self.tensor_map(description, memory[description["buffer"]].value)
            return ctypes.create_string_buffer(data, 128)
        return {"u32": c_uint, "s32": c_int, "u64": c_uint64}[kind](value)
