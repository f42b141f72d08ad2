#!/usr/bin/env python3
"""Runs PTX kernels with their launch files (docs/simulator.md) on a GPU and records or compares what they write.

    record.py FOLDER                 runs FOLDER/*.launch.json, prints a line a kernel
    record.py FOLDER --write FILE    writes {"device", "driver", "kernels": {name: {output: sha256}}}
    record.py FOLDER --expect FILE   compares with such a file; exit code 1 if anything differs

Needs the CUDA driver (libcuda.so.1), which assembles the PTX, and nothing else. A cubin beside the PTX is taken
instead. Each kernel runs five times on fresh memory and must give the same bytes each time."""
import argparse
import ctypes
import glob
import hashlib
import json
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from launch import SIZES, Launch  # noqa: E402

MAP_TYPES = {"u8": 0, "s8": 0, "e4m3": 0, "e5m2": 0, "u16": 1, "s16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6,
             "f32": 7, "f64": 8, "bf16": 9, "tf32": 11}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
SHARED_LIMIT_ATTRIBUTE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)), ("n", ctypes.c_uint)]


class Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'').decode()} ({code})")

    def name(self):
        text = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", text, 128, self.device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return text.value.decode(), f"{version.value // 1000}.{version.value % 1000 // 10}"

    def module(self, ptx):
        cubin = ptx[:-len(".ptx")] + ".cubin"
        with open(cubin if os.path.exists(cubin) else ptx, "rb") as f:
            image = f.read() + b"\0"
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def function(self, module, entry):
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        return function


class Memory:
    """The buffers of one run on the device."""

    def __init__(self, driver, launch):
        self.driver, self.address, self.base = driver, {}, []
        for name, buffer in launch.buffers.items():
            pointer = ctypes.c_uint64()
            driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(buffer.bytes + buffer.offset + 256))
            self.base.append(pointer)
            self.address[name] = pointer.value + buffer.offset
        for name, buffer in launch.buffers.items():
            data = bytearray(buffer.data)
            for position, text in enumerate(buffer.addresses):
                value = self.held(driver, launch, text)
                at = text.get("at", position * len(value))
                data[at:at + len(value)] = value
            buffer.data = bytes(data)
            driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address[name]), buffer.data,
                        ctypes.c_size_t(buffer.bytes))

    def held(self, driver, launch, text):
        """What a buffer holds of the launch: an address or a tensor map."""
        if "tensormap" in text:
            map_text = launch.maps[text["tensormap"]]
            return tensor_map(driver, map_text, self.address[map_text["buffer"]])
        return struct.pack("<Q", self.address[text["buffer"]] + text.get("offset", 0))

    def read(self, name, size):
        out = ctypes.create_string_buffer(size)
        self.driver.call("cuMemcpyDtoH_v2", out, ctypes.c_uint64(self.address[name]), ctypes.c_size_t(size))
        return out.raw

    def free(self):
        for pointer in self.base:
            self.driver.call("cuMemFree_v2", pointer)


def tensor_map(driver, text, address):
    """128 bytes, aligned to 64, as cuTensorMapEncodeTiled makes them."""
    rank = len(text["dims"])
    room = ctypes.create_string_buffer(192)
    at = (ctypes.addressof(room) + 63) // 64 * 64
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    strides = text["strides"] or [0]
    driver.call("cuTensorMapEncodeTiled", ctypes.c_void_p(at), MAP_TYPES[text["type"]], rank,
                u64(address + text.get("offset", 0)), (u64 * rank)(*text["dims"]), (u64 * len(strides))(*strides),
                (u32 * rank)(*text["box"]), (u32 * rank)(*text.get("element_strides", [1] * rank)), 0,
                SWIZZLES[text.get("swizzle") or 0], 0, int(text.get("oob") == "nan"))
    return ctypes.string_at(at, 128)


def argument_bytes(driver, launch, memory, argument):
    (kind, value), = argument.items()
    if kind == "buffer":
        return struct.pack("<Q", memory.address[value])
    if kind == "tensormap":
        text = launch.maps[value]
        return tensor_map(driver, text, memory.address[text["buffer"]])
    if kind == "bytes":
        return bytes(value)
    if kind == "f32":
        return struct.pack("<f", value)
    return (value & (1 << 8 * SIZES[kind]) - 1).to_bytes(SIZES[kind], "little")


def start(driver, function, launch, step, memory):
    values = [argument_bytes(driver, launch, memory, a) for a in step.args]
    rooms = [ctypes.create_string_buffer(v, len(v)) for v in values]
    pointers = (ctypes.c_void_p * len(rooms))(*[ctypes.addressof(r) for r in rooms])
    attributes = (LaunchAttribute * 2)()
    n = 0
    if step.cluster != [1, 1, 1]:
        attributes[n].id = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attributes[n].value[0:3] = step.cluster
        n += 1
    if step.overlaps:
        attributes[n].id = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attributes[n].value[0] = 1
        n += 1
    config = LaunchConfig((ctypes.c_uint * 3)(*step.grid), (ctypes.c_uint * 3)(*step.block), step.shared, None,
                          attributes, n)
    driver.call("cuFuncSetAttribute", function, SHARED_LIMIT_ATTRIBUTE, step.shared)
    driver.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)


def run(driver, functions, launch):
    """Bytes of every output."""
    memory = Memory(driver, launch)
    for function, step in zip(functions, launch.steps):
        start(driver, function, launch, step, memory)
    driver.call("cuCtxSynchronize")
    outputs = {n: memory.read(n, launch.buffers[n].bytes) for n in launch.outputs}
    memory.free()
    return outputs


def record(driver, folder, out):
    results = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.launch.json"))):
        name = os.path.basename(path)[:-len(".launch.json")]
        launch = Launch(path)
        module = driver.module(os.path.join(folder, name + ".ptx"))
        functions = [driver.function(module, step.entry or name) for step in launch.steps]
        runs = [run(driver, functions, launch) for _ in range(5)]
        if any(r != runs[0] for r in runs):
            raise RuntimeError(f"{name}: the outputs differ from run to run")
        results[name] = {n: hashlib.sha256(b).hexdigest() for n, b in runs[0].items()}
        for n, b in runs[0].items():
            if out:
                with open(os.path.join(out, f"{name}.{n}.bin"), "wb") as f:
                    f.write(b)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--expect", metavar="FILE")
    parser.add_argument("--outputs", metavar="DIR", help="where the outputs themselves go")
    arguments = parser.parse_args()
    driver = Driver()
    results = record(driver, arguments.folder, arguments.outputs)
    device, version = driver.name()
    if arguments.write:
        with open(arguments.write, "w") as f:
            json.dump({"device": device, "driver": version, "kernels": results}, f, indent=1)
            f.write("\n")
    expected = {}
    if arguments.expect:
        with open(arguments.expect) as f:
            expected = json.load(f)["kernels"]
    bad = 0
    for name, outputs in results.items():
        state = "recorded" if not arguments.expect else "equal" if expected.get(name) == outputs else "DIFFERENT"
        bad += state == "DIFFERENT"
        print(f"{name:20} {state}")
    print(f"{device}, driver {version}: {len(results) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
