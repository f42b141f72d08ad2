"""adlgen from Python, without a build: ctypes over the C library (include/adlgen/adlgen.h).

    import adlgen, torch
    linear = adlgen.compile("linear.json", gpu="h100")     # a file, a text, or a dict
    y = linear(x, w, bias)                                  # CUDA tensors of any framework that speaks DLPack

Tensors are taken through __dlpack__; no framework is imported. Work is queued on the stream of the inputs' framework
(PyTorch's or CuPy's current one), or on `stream=`. Outputs and workspace are allocated by the inputs' framework, or given
by `out=` and `workspace=`. Errors of adlgen are adlgen.Error with code, place and hint. docs/python.md is a walk-through.

The library is looked for in ADLGEN_LIBRARY, beside this file, in a build folder of its tree, and on the system."""
import contextlib
import ctypes
import ctypes.util
import json
import os
import pathlib
import sys
import threading

__all__ = ["compile", "Kernel", "Error", "InputError", "UnsupportedError", "MissingToolError", "RunError", "gpus", "version"]

# ---- the C library ----


class _CError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char_p), ("file", ctypes.c_char_p),
                ("line", ctypes.c_uint), ("column", ctypes.c_uint), ("hint", ctypes.c_char_p)]


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("dims", ctypes.POINTER(ctypes.c_char_p)),
                ("sets", ctypes.POINTER(ctypes.c_char_p)), ("sm_budget", ctypes.c_uint), ("fast_math", ctypes.c_int),
                ("assemble", ctypes.c_int), ("ptxas", ctypes.c_char_p), ("jobs", ctypes.c_uint),
                ("cache_dir", ctypes.c_char_p), ("assembler", ctypes.c_int), ("device", ctypes.c_uint),
                ("tuned", ctypes.POINTER(ctypes.c_char_p)), ("no_tuned", ctypes.c_int), ("accumulate", ctypes.c_int),
                ("constants_of", ctypes.c_void_p)]


class _Tensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("type", ctypes.c_char_p),
                ("rank", ctypes.c_uint), ("align", ctypes.c_uint), ("shape", ctypes.c_longlong * 16),
                ("strides", ctypes.c_longlong * 16), ("bytes", ctypes.c_ulonglong)]


_ACCUMULATE = {None: 0, "exact": 1, "fast": 2}  # adlgen.h's ADLGEN_ACCUMULATE_*
_VOID, _TEXT, _ERROR = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_CError)
_OPTIONS, _DIMS = ctypes.POINTER(_Options), ctypes.POINTER(ctypes.c_longlong)
# name: result, parameters
_FUNCTIONS = {
    "adlgen_version": (_TEXT, []),
    "adlgen_error_clear": (None, [_ERROR]),
    "adlgen_gpu_load": (_VOID, [_TEXT, _ERROR]),
    "adlgen_gpu_free": (None, [_VOID]),
    "adlgen_gpu_name": (_TEXT, [_VOID]),
    "adlgen_gpu_names": (ctypes.POINTER(_TEXT), []),
    "adlgen_names_free": (None, [ctypes.POINTER(_TEXT)]),
    "adlgen_gpu_of_device": (_VOID, [ctypes.c_uint, _ERROR]),
    "adlgen_compile_text": (_VOID, [_TEXT, _TEXT, ctypes.c_size_t, _VOID, _OPTIONS, _ERROR]),
    "adlgen_result_free": (None, [_VOID]),
    "adlgen_result_kernel_count": (ctypes.c_size_t, [_VOID]),
    "adlgen_result_name": (_TEXT, [_VOID, ctypes.c_size_t]),
    "adlgen_result_ptx": (_TEXT, [_VOID, ctypes.c_size_t]),
    "adlgen_result_plan": (_TEXT, [_VOID]),
    "adlgen_result_explain": (_TEXT, [_VOID]),
    "adlgen_result_warnings": (_TEXT, [_VOID]),
    "adlgen_load": (_VOID, [_VOID, _OPTIONS, _ERROR]),
    "adlgen_jit_text": (_VOID, [_TEXT, _TEXT, ctypes.c_size_t, _VOID, _OPTIONS, _ERROR]),
    "adlgen_executable_free": (None, [_VOID]),
    "adlgen_executable_plan": (_TEXT, [_VOID]),
    "adlgen_executable_set_constant": (ctypes.c_int, [_VOID, _TEXT, _VOID, ctypes.c_size_t, _ERROR]),
    "adlgen_executable_warning_count": (ctypes.c_size_t, [_VOID]),
    "adlgen_executable_warning": (_TEXT, [_VOID, ctypes.c_size_t]),
    "adlgen_executable_load": (ctypes.c_int, [_VOID, _ERROR]),
    "adlgen_executable_dim_count": (ctypes.c_size_t, [_VOID]),
    "adlgen_executable_dim": (_TEXT, [_VOID, ctypes.c_size_t]),
    "adlgen_executable_tensor_count": (ctypes.c_size_t, [_VOID]),
    "adlgen_executable_tensor": (ctypes.c_int, [_VOID, ctypes.c_size_t, _DIMS, ctypes.POINTER(_Tensor), _ERROR]),
    "adlgen_executable_workspace": (ctypes.c_int, [_VOID, _DIMS, ctypes.POINTER(ctypes.c_size_t), _ERROR]),
    "adlgen_launch": (ctypes.c_int, [_VOID, _VOID, ctypes.POINTER(_VOID), _DIMS, _VOID, ctypes.c_size_t, _ERROR]),
}
_NAMES = ("libadlgen.so", "libadlgen.so.0")
_library, _library_lock = None, threading.Lock()


class Error(Exception):
    """A fault that adlgen reports: `code` (the exit code of the command line), `message`, `file`, `line`, `column`, `hint`."""

    def __init__(self, code, message, file=None, line=0, column=0, hint=None):
        self.code, self.message, self.file, self.line, self.column, self.hint = code, message, file, line, column, hint
        place = ":".join(str(part) for part in (file, line or None, column or None) if part is not None)
        super().__init__((f"{place}: " if place else "") + message + (f"\nhint: {hint}" if hint else ""))


class InputError(Error, ValueError):
    """What was named, written or passed is wrong."""


class UnsupportedError(Error):
    """Valid, but not supported."""


class MissingToolError(Error, OSError):
    """The library, the assembler, the driver or a GPU is missing."""

    def __str__(self):  # OSError has its own idea of its arguments
        return Exception.__str__(self)


class RunError(Error, RuntimeError):
    """The driver refused a kernel or a launch."""


_ERRORS = {1: InputError, 2: InputError, 3: UnsupportedError, 4: MissingToolError, 5: RunError}


def _candidates():
    named = os.environ.get("ADLGEN_LIBRARY")
    if named:
        return [named]
    here = pathlib.Path(__file__).resolve().parent
    folders = [here, here.parent / "lib", here.parent / "build" / "cli"]
    return [str(folder / name) for folder in folders for name in _NAMES] + ["libadlgen.so.0", "libadlgen.so"]


def _load_library():
    global _library
    with _library_lock:
        if _library:
            return _library
        tried = []
        for path in _candidates():
            if "/" in path and not os.path.exists(path):
                tried.append(path)
                continue
            try:
                library = ctypes.CDLL(path)
            except OSError as error:
                tried.append(f"{path} ({error})")
                continue
            for name, (result, parameters) in _FUNCTIONS.items():
                function = getattr(library, name, None)
                if function is None:
                    raise MissingToolError(4, f"{path} has no {name}: it is older than this module")
                function.restype, function.argtypes = result, parameters
            _library = library
            return _library
        raise MissingToolError(4, "the library libadlgen.so was not found; looked for " + ", ".join(tried),
                               hint="ADLGEN_LIBRARY names its file")


def _raise(error):
    """The C error as an exception; frees it."""
    def text(value):
        return value.decode("utf-8", "replace") if value else None
    kind = _ERRORS.get(error.code, Error)
    exception = kind(error.code, text(error.message) or "unknown error", text(error.file), error.line, error.column,
                     text(error.hint))
    _load_library().adlgen_error_clear(ctypes.byref(error))
    raise exception


def _call(name, *arguments):
    """A function whose last parameter is an error, and that gives NULL or a code on failure."""
    function, error = getattr(_load_library(), name), _CError()
    result = function(*arguments, ctypes.byref(error))
    failed = result != 0 if function.restype is ctypes.c_int else not result
    if failed:
        _raise(error)
    return result


@contextlib.contextmanager
def _description(gpu, device=0):
    """A GPU's description by its name; None: the one for a device."""
    description = _call("adlgen_gpu_load", gpu.encode()) if gpu else _call("adlgen_gpu_of_device", device)
    try:
        yield description
    finally:
        _load_library().adlgen_gpu_free(description)


def _texts(items):
    items = [item.encode() for item in items]
    return (ctypes.c_char_p * (len(items) + 1))(*items, None)


def version():
    """Version of the library."""
    return _load_library().adlgen_version().decode()


def gpus():
    """Names of the GPUs that are described."""
    library = _load_library()
    names, found, i = library.adlgen_gpu_names(), [], 0
    while names[i]:
        found.append(names[i].decode())
        i += 1
    library.adlgen_names_free(names)
    return found


# ---- DLPack ----


class _DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DLType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", _VOID), ("device", _DLDevice), ("ndim", ctypes.c_int32), ("dtype", _DLType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _DLManaged(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", _VOID), ("deleter", _VOID)]


class _DLVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", _VOID), ("deleter", _VOID),
                ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_CUDA = 2  # kDLCUDA
_READ_ONLY = 1
# adlgen's types as (code, bits) of DLPack; formats that a framework cannot export may come as unsigned bytes.
_TYPES = {"f64": [(2, 64)], "f32": [(2, 32)], "tf32": [(2, 32)], "f16": [(2, 16)], "bf16": [(4, 16)],
          "e4m3": [(10, 8), (1, 8)], "e5m2": [(12, 8), (1, 8)], "s8": [(0, 8)], "u8": [(1, 8)], "s16": [(0, 16)],
          "s32": [(0, 32)], "s64": [(0, 64)], "bool": [(6, 8), (1, 8)]}

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = _TEXT, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = _VOID, [ctypes.py_object, _TEXT]


class _View:
    """A tensor as DLPack shows it: address, shape, strides in elements, type, device. Holds the capsule, whose destructor
    gives the memory back to its owner."""

    def __init__(self, what, tensor, stream):
        if not hasattr(tensor, "__dlpack__") or not hasattr(tensor, "__dlpack_device__"):
            raise InputError(1, f"{what} is a {type(tensor).__name__}, not a tensor that speaks DLPack")
        kind, self.device = (int(part) for part in tensor.__dlpack_device__())
        if kind != _CUDA:
            raise InputError(1, f"{what} is not in the memory of a GPU (DLPack device type {kind})")
        self.capsule = self._export(tensor, stream)
        name = _capsule_name(self.capsule)
        pointer = _capsule_pointer(self.capsule, name)
        versioned = name == b"dltensor_versioned"
        managed = ctypes.cast(pointer, ctypes.POINTER(_DLVersioned if versioned else _DLManaged)).contents
        self.read_only = versioned and bool(managed.flags & _READ_ONLY)
        t = managed.tensor
        self.address = (t.data or 0) + t.byte_offset
        self.shape = tuple(t.shape[i] for i in range(t.ndim))
        self.type = (t.dtype.code, t.dtype.bits)
        if t.strides:
            self.strides = tuple(t.strides[i] for i in range(t.ndim))
        else:
            self.strides = _row_major(self.shape)

    @staticmethod
    def _export(tensor, stream):
        # 0 is ambiguous in DLPack; the legacy default stream is 1.
        try:
            return tensor.__dlpack__(stream=stream or 1, max_version=(1, 0))
        except TypeError:
            return tensor.__dlpack__(stream=stream or 1)


class _TorchView:
    """What _View says, read off a plain PyTorch tensor without an exchange: a call takes a fraction of the time. Right only
    on the tensor's current stream, for with another one DLPack orders the two."""

    __slots__ = ("address", "shape", "strides", "type", "device", "read_only")
    _types = {}

    def __init__(self, tensor):
        self.address, self.shape, self.strides = tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
        self.type, self.device, self.read_only = self._types[tensor.dtype], tensor.device.index, False

    @classmethod
    def takes(cls, tensor):
        torch = sys.modules.get("torch")
        if torch is None or type(tensor) is not torch.Tensor:
            return False
        if not cls._types:
            names = {"float64": (2, 64), "float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16), "float8_e4m3fn": (10, 8),
                     "float8_e5m2": (12, 8), "int8": (0, 8), "uint8": (1, 8), "int16": (0, 16), "int32": (0, 32),
                     "int64": (0, 64), "bool": (6, 8)}
            cls._types.update({getattr(torch, name): kind for name, kind in names.items() if hasattr(torch, name)})
        return (tensor.is_cuda and tensor.layout is torch.strided and tensor.dtype in cls._types and not tensor.requires_grad
                and not tensor.is_conj() and not tensor.is_neg())


def _view(what, tensor, stream, current):
    """current: `stream` is the one on which the tensor's framework works."""
    return _TorchView(tensor) if current and _TorchView.takes(tensor) else _View(what, tensor, stream)


def _row_major(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _framework(tensor):
    return type(tensor).__module__.partition(".")[0]


def _stream_of(stream, tensor, device):
    """A stream's handle: given as a number or an object, or the current one of the tensor's framework."""
    if stream is None:
        name = _framework(tensor)
        if name == "torch":
            return sys.modules["torch"].cuda.current_stream(device).cuda_stream
        if name == "cupy":
            return sys.modules["cupy"].cuda.get_current_stream().ptr
        return 0
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    return int(stream)


def _allocate(like, name, shape, strides, kind, device):
    """A tensor of the framework of `like`."""
    framework = _framework(like)
    if framework == "torch":
        torch = sys.modules["torch"]
        types = {"f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16",
                 "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "s8": "int8", "u8": "uint8", "s16": "int16",
                 "s32": "int32", "s64": "int64", "bool": "bool"}
        return torch.empty_strided(shape, strides, dtype=getattr(torch, types[kind]), device=f"cuda:{device}")
    if framework == "cupy" and strides == _row_major(shape):
        types = {"f64": "f8", "f32": "f4", "tf32": "f4", "f16": "f2", "s8": "i1", "u8": "u1", "s16": "i2", "s32": "i4",
                 "s64": "i8", "bool": "?"}
        if kind in types:
            cupy = sys.modules["cupy"]
            with cupy.cuda.Device(device):
                return cupy.empty(shape, dtype=types[kind])
    raise InputError(1, f"adlgen cannot allocate {name} ({kind} {list(shape)}) with {framework}",
                     hint="out=, or workspace= for the workspace, passes memory of your own")


# ---- kernels ----


class _Executable:
    """The graph's kernels on one GPU."""

    def __init__(self, kernel, device):
        library = _load_library()
        options, self.keep = kernel._options(device)
        other = kernel._given["constants_of"]
        if other is not None:
            options.constants_of = other._load(device).handle
        if kernel._result:
            self.handle = _call("adlgen_load", kernel._result, ctypes.byref(options))
        else:  # what the cache has need not be compiled
            with _description(kernel.gpu) as description:
                self.handle = _call("adlgen_jit_text", *kernel._source, description, ctypes.byref(options))
        self.warnings = [library.adlgen_executable_warning(self.handle, i).decode()
                         for i in range(library.adlgen_executable_warning_count(self.handle))]
        self.dims = [library.adlgen_executable_dim(self.handle, i).decode()
                     for i in range(library.adlgen_executable_dim_count(self.handle))]
        self.n_tensors = library.adlgen_executable_tensor_count(self.handle)
        self.shapes = {}  # values of dims -> what describe() gives

    def describe(self, values):
        """Tensors and bytes of workspace for these dimensions."""
        known = self.shapes.get(values)
        if known:
            return known
        dims = (ctypes.c_longlong * (len(values) + 1))(*values)
        tensors = []
        for i in range(self.n_tensors):
            tensor = _Tensor(size=ctypes.sizeof(_Tensor))
            _call("adlgen_executable_tensor", self.handle, i, dims, ctypes.byref(tensor))
            rank = tensor.rank
            tensors.append((tensor.name.decode(), tensor.kind, tensor.type.decode(), tuple(tensor.shape[:rank]),
                            tuple(tensor.strides[:rank])))
        size = ctypes.c_size_t()
        _call("adlgen_executable_workspace", self.handle, dims, ctypes.byref(size))
        if len(self.shapes) > 1000:  # shapes without end must not hold memory without end
            self.shapes.clear()
        self.shapes[values] = tensors, size.value, dims
        return self.shapes[values]

    def __del__(self):
        if getattr(self, "handle", None) and _library:
            _library.adlgen_executable_free(self.handle)


class Kernel:
    """A compiled graph. Calling it with the inputs, in the order of the description, queues it and gives its output (a tuple
    if there are several). May be called from several threads.

    gpu: name of the description; plan: the plan as a dict; explain: which kernels were chosen and why; unused: what
    the description says to no effect; inputs, outputs: names; warnings(device): what loading had to say; load(device): waits until nothing is left to assemble."""

    def __init__(self, name, text, gpu, options):
        library = _load_library()
        self._given, self._loaded, self._lock, self._result = options, {}, threading.RLock(), None
        self._source = name.encode(), text, len(text)
        with _description(gpu, options["device"] or 0) as description:
            self.gpu = library.adlgen_gpu_name(description).decode()
        if gpu:  # there need not be one in this machine
            plan = library.adlgen_result_plan(self._compiled())
        else:
            plan = library.adlgen_executable_plan(self._load(options["device"] or 0).handle)
        self.plan = json.loads(plan)
        self.inputs = [t["name"] for t in self.plan["tensors"] if t["kind"] == "input"]
        self.outputs = [t["name"] for t in self.plan["tensors"] if t["kind"] == "output"]
        self._shared = {t["name"]: t["in_place"] for t in self.plan["tensors"] if "in_place" in t}
        self._symbols = {s["name"] for s in self.plan["symbols"]}
        self._shapes = {t["name"]: t["shape"] for t in self.plan["tensors"]}

    def __del__(self):
        self._loaded = {}
        if getattr(self, "_result", None) and _library:
            _library.adlgen_result_free(self._result)

    def __repr__(self):
        return f"<adlgen kernel {self.plan['name']} for {self.gpu}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def _compiled(self):
        """The compiler's result, which a kernel from the cache has not until somebody asks for it."""
        with self._lock:
            if not self._result:
                options, self._keep = self._options(None)
                with _description(self.gpu) as description:
                    self._result = _call("adlgen_compile_text", *self._source, description, ctypes.byref(options))
            return self._result

    @property
    def explain(self):
        return (_load_library().adlgen_result_explain(self._compiled()) or b"").decode()

    @property
    def unused(self):
        """What the description says to no effect, each with its place; "" if there is nothing."""
        return (_load_library().adlgen_result_warnings(self._compiled()) or b"").decode()

    def kernels(self):
        """PTX of each kernel by its name."""
        library, result = _load_library(), self._compiled()
        return {library.adlgen_result_name(result, i).decode(): library.adlgen_result_ptx(result, i).decode()
                for i in range(library.adlgen_result_kernel_count(result))}

    def warnings(self, device=0):
        return self._load(device).warnings

    def set_constant(self, name, data, device=0):
        """Other values for a constant of the graph on a GPU, which kernels that share it see too: anything with the buffer protocol (a
        NumPy array, bytes), row-major, of the constant's size. Calls that are queued must have ended."""
        buffer = memoryview(data)
        if not buffer.c_contiguous:
            raise InputError(1, f"the values of {name} do not lie row-major")
        data = buffer.cast("B").tobytes() if buffer.nbytes else b""
        _call("adlgen_executable_set_constant", self._load(device).handle, name.encode(), data, len(data))

    def load(self, device=0):
        """Loads every kernel on a GPU, and waits for those that are still being assembled: no later call waits."""
        _call("adlgen_executable_load", self._load(device).handle)

    def _options(self, device):
        given = self._given
        dims, sets = _texts(f"{k}={v}" for k, v in given["dims"].items()), _texts(f"{k}={v}" for k, v in given["sets"].items())
        cache, ptxas, tuned = given["cache_dir"], given["ptxas"], given["tuned"]
        files = None if tuned is None or tuned is False else _texts(os.fspath(file) for file in tuned)
        options = _Options(size=ctypes.sizeof(_Options), dims=dims, sets=sets, sm_budget=given["sms"],
                           fast_math=int(given["fast_math"]), ptxas=ptxas.encode() if ptxas else None,
                           cache_dir=None if cache is None else os.fspath(cache).encode(),
                           device=0 if device is None else device + 1, tuned=files, no_tuned=int(tuned is False),
                           accumulate=_ACCUMULATE[given["accumulate"]])
        return options, (dims, sets, files)

    def _load(self, device):
        with self._lock:
            if device not in self._loaded:
                self._loaded[device] = _Executable(self, device)
            return self._loaded[device]

    def _bind(self, views, given):
        """Values of the open dimensions, from the inputs' shapes where a dimension stands alone."""
        values = dict(given or {})
        for name, view in zip(self.inputs, views):
            shape = self._shapes[name]
            if len(shape) != len(view.shape):
                raise InputError(1, f"{name} has {len(view.shape)} dimensions; {len(shape)} are wanted: {shape}")
            for extent, wanted in zip(view.shape, shape):
                if isinstance(wanted, str) and wanted in self._symbols and values.setdefault(wanted, extent) != extent:
                    raise InputError(1, f"{wanted} is {values[wanted]} and, in {name}, {extent}")
        return values

    @staticmethod
    def _check(name, view, kind, shape, strides, device):
        if view.device != device:
            raise InputError(1, f"{name} is on GPU {view.device}, other tensors on GPU {device}")
        if view.type not in _TYPES.get(kind, []):
            raise InputError(1, f"{name} is to be {kind}, not DLPack's type {view.type[0]} of {view.type[1]} bits")
        if view.shape != shape:
            raise InputError(1, f"{name} has the shape {list(view.shape)}; {list(shape)} is wanted")
        dense = 0 in shape or all(a == b or n == 1 for a, b, n in zip(view.strides, strides, shape))
        if not dense:
            raise InputError(1, f"{name} has the strides {list(view.strides)}; {list(strides)} are wanted",
                             hint="the description's `strides` say how a tensor lies; .contiguous() makes a row-major copy")

    def __call__(self, *tensors, out=None, stream=None, workspace=None, dims=None):
        """tensors: the inputs. out: a tensor, or a sequence of them. stream: a number or a stream object. workspace: a
        tensor of at least the bytes needed. dims: values of dimensions that no input shows by itself."""
        if len(tensors) != len(self.inputs):
            raise InputError(1, f"{len(tensors)} inputs were given; wanted are {', '.join(self.inputs)}")
        if not tensors:
            raise InputError(1, "a graph without inputs cannot be called")
        if not hasattr(tensors[0], "__dlpack_device__"):
            _View(self.inputs[0], tensors[0], 0)
        kind, device = (int(part) for part in tensors[0].__dlpack_device__())
        handle, current = 0, stream is None and _framework(tensors[0]) == "torch"
        if kind == _CUDA:
            handle = _stream_of(stream, tensors[0], device)
        views = [_view(name, tensor, handle, current) for name, tensor in zip(self.inputs, tensors)]
        executable = self._load(device)
        bound = self._bind(views, dims)
        missing = [name for name in executable.dims if name not in bound]
        if missing:
            raise InputError(1, f"dimension {missing[0]} has no value", hint=f"dims={{'{missing[0]}': VALUE}} gives it one")
        described, size, c_dims = executable.describe(tuple(int(bound[name]) for name in executable.dims))
        results, views = self._take_outputs(out, views, described, tensors, device, handle, current)
        addresses = self._addresses(views, described, device)
        scratch, keep = self._workspace(workspace, size, tensors[0], device, handle)
        _call("adlgen_launch", executable.handle, handle or None, addresses, c_dims, scratch, size)
        del keep
        return results[0] if len(results) == 1 else tuple(results)

    def _take_outputs(self, out, views, described, given, device, stream, current):
        wanted, like = [t for t in described if t[1] == 2], given[0]
        if out is None:  # what lies in an input's memory is that input
            inputs = dict(zip(self.inputs, given))
            results = [inputs[self._shared[name]] if name in self._shared else _allocate(like, name, shape, strides, kind, device)
                       for name, _, kind, shape, strides in wanted]
        else:
            results = list(out) if isinstance(out, (tuple, list)) else [out]
            if len(results) != len(wanted):
                raise InputError(1, f"{len(results)} outputs were given; wanted are {', '.join(self.outputs)}")
        views = views + [_view(t[0], result, stream, current) for t, result in zip(wanted, results)]
        for (name, *_), view in zip(wanted, views[len(self.inputs):]):
            if view.read_only:
                raise InputError(1, f"{name} is read-only")
        return results, views

    def _addresses(self, views, described, device):
        addresses, views = (ctypes.c_void_p * (len(described) + 1))(), iter(views)
        for i, (name, what, kind, shape, strides) in enumerate(described):
            if what == 1:  # constants: the library's own copy
                continue
            view = next(views)
            self._check(name, view, kind, shape, strides, device)
            addresses[i] = view.address
        return addresses

    @staticmethod
    def _workspace(workspace, size, like, device, stream):
        if not size:
            return None, None
        if workspace is None:
            workspace = _allocate(like, "the workspace", (size + 256,), (1,), "u8", device)
        view = _View("the workspace", workspace, stream)
        given = view.type[1] // 8
        for extent in view.shape:
            given *= extent
        address = (view.address + 255) // 256 * 256
        if given - (address - view.address) < size:
            raise InputError(1, f"the workspace has {given} bytes; {size} are needed from an address aligned to 256")
        return address, (workspace, view)


def compile(graph, gpu=None, *, dims=None, sets=None, sms=0, fast_math=False, device=None, cache_dir=None, ptxas=None,
            tuned=None, accumulate=None, constants_of=None):
    """Compiles a graph: a dict, a file's name, or a text (JSON or YAML) with a line break or a brace in it.

    gpu: name or file of a description; None: the one nearest to GPU `device` of this machine. dims: symbols that are
    compiled in. sets: template parameters to force. sms: SMs that kernels may use at most. cache_dir: folder of
    machine code, "" for none. tuned: files of measured choices besides those that adlgen finds; False: none at all.
    accumulate: sums of products of 8-bit floats, "exact" or "fast", where the graph does not say; None: exact, or fast with
    fast_math. constants_of: another kernel, whose constants of one name, type and shape are on the GPU once for both, as those of a
    model's prefill and decode. Needs no GPU if `gpu` is given; kernels are loaded when they are first called on a GPU."""
    if accumulate not in _ACCUMULATE:
        raise InputError(1, f"accumulate is \"exact\" or \"fast\", not {accumulate!r}")
    if isinstance(graph, dict):
        name, text = f"<{graph.get('name', 'graph')}>", json.dumps(graph).encode()
    elif isinstance(graph, str) and ("\n" in graph or "{" in graph):
        name, text = "<text>", graph.encode()
    else:
        name = os.fspath(graph)
        try:
            text = pathlib.Path(name).read_bytes()
        except OSError as error:
            raise InputError(1, f"cannot read {name}: {error.strerror}") from None
    options = {"dims": dims or {}, "sets": sets or {}, "sms": sms, "fast_math": fast_math, "device": device,
               "cache_dir": cache_dir, "ptxas": ptxas, "tuned": tuned, "accumulate": accumulate, "constants_of": constants_of}
    return Kernel(name, text, gpu, options)
