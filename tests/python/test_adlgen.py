#!/usr/bin/env python3
"""python/adlgen.py without a GPU: against the library, and a stand-in for the CUDA driver whose device memory is host
memory: test_adlgen.py ROOT (with ADLGEN_LIBRARY and ADLGEN_CUDA_LIBRARY set)."""
import array
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "python"))
import adlgen  # noqa: E402

HAS_DRIVER = bool(os.environ.get("ADLGEN_CUDA_LIBRARY"))
ADD = {"name": "add", "inputs": {"x": {"type": "f32", "shape": ["R", 40]}, "y": {"type": "f32", "shape": [40]}},
       "nodes": [{"op": "Add", "inputs": ["x", "y"], "outputs": ["z"]}], "outputs": ["z"]}

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Launch(ctypes.Structure):
    """As tests/unit/fake_driver.h."""
    _fields_ = [("words", ctypes.c_uint * 11), ("stream", ctypes.c_void_p), ("context", ctypes.c_void_p),
                ("first", ctypes.c_uint64)]


class Fake(ctypes.Structure):
    _fields_ = [("devices", ctypes.c_int), ("sm_count", ctypes.c_int), ("capability", ctypes.c_int), ("shared", ctypes.c_int),
                ("memory", ctypes.c_size_t), ("refuse", ctypes.c_int), ("launches", ctypes.c_uint),
                ("encodes", ctypes.c_uint), ("replaces", ctypes.c_uint), ("fills", ctypes.c_uint), ("pushes", ctypes.c_uint),
                ("allocations", ctypes.c_int), ("modules", ctypes.c_int), ("retained", ctypes.c_int),
                ("launched", Launch * 64)]


class Array:
    """A tensor that speaks DLPack as if its memory were a GPU's."""
    streams = []

    def __init__(self, *shape, code=2, bits=32, strides=None, device=(2, 0), versioned=True, read_only=False):
        self.shape, self.strides, self.device, self.code, self.bits = shape, strides, device, code, bits
        self.versioned, self.read_only = versioned, read_only
        n = 1
        for extent in shape:
            n *= extent
        raw = ctypes.create_string_buffer(n * bits // 8 + 512)
        self.address = (ctypes.addressof(raw) + 255) // 256 * 256
        self.raw = raw

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, **keywords):
        if not self.versioned and keywords:
            raise TypeError("max_version is not known here")
        Array.streams.append(stream)
        rank = len(self.shape)
        self.c_shape = (ctypes.c_int64 * rank)(*self.shape)
        self.c_strides = (ctypes.c_int64 * rank)(*self.strides) if self.strides else None
        tensor = adlgen._DLTensor(self.address, adlgen._DLDevice(*self.device), rank,
                                  adlgen._DLType(self.code, self.bits, 1), self.c_shape, self.c_strides, 0)
        if self.versioned:
            self.managed = adlgen._DLVersioned(1, 0, None, None, int(self.read_only), tensor)
            return new_capsule(ctypes.addressof(self.managed), b"dltensor_versioned", None)
        self.managed = adlgen._DLManaged(tensor, None, None)
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


class Compiling(unittest.TestCase):
    def test_dict_text_and_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "add.json"
            path.write_text(json.dumps(ADD))
            plans = [adlgen.compile(graph, gpu="a100").plan for graph in (ADD, json.dumps(ADD), path, str(path))]
        self.assertTrue(all(plan == plans[0] for plan in plans))

    def test_what_a_kernel_says(self):
        kernel = adlgen.compile(ADD, gpu="a100", dims={"R": 7})
        self.assertEqual((kernel.gpu, kernel.inputs, kernel.outputs), ("a100", ["x", "y"], ["z"]))
        self.assertTrue(all(".visible .entry" in ptx for ptx in kernel.kernels().values()))
        self.assertEqual(kernel.plan["tensors"][0]["shape"], [7, 40])
        self.assertIn("template elementwise", kernel.explain)
        self.assertEqual(kernel.unused, "")
        self.assertEqual(repr(kernel), "<adlgen kernel add for a100: x, y -> z>")

    def test_sets(self):
        graph = (ROOT / "examples" / "linear.json").read_text()
        narrow = adlgen.compile(graph, gpu="h100", sets={"bn": 64, "bm": 64})
        self.assertTrue(all("64x64x" in name for name in narrow.kernels()), list(narrow.kernels()))

    def test_accumulation(self):
        graph = {"name": "p", "inputs": {"a": {"type": "e4m3", "shape": [64, 256]},
                                         "b": {"type": "e4m3", "shape": [256, 64], "strides": [1, 256]}},
                 "nodes": [{"op": "MatMul", "inputs": ["a", "b"], "outputs": ["d"]}], "outputs": ["d"]}
        exact, also, fast = (adlgen.compile(graph, gpu="h100", accumulate=way).kernels() for way in (None, "exact", "fast"))
        self.assertEqual(exact, also)
        self.assertNotEqual(exact, fast)
        with self.assertRaises(adlgen.InputError) as wrong:
            adlgen.compile(graph, gpu="h100", accumulate="slow")
        self.assertEqual(str(wrong.exception), 'accumulate is "exact" or "fast", not \'slow\'')

    def test_budget_of_sms(self):
        kernel = adlgen.compile(ADD, gpu="h100", sms=7)
        self.assertEqual(kernel.plan["gpu"]["sms"], 7)
        self.assertNotIn("sms", adlgen.compile(ADD, gpu="h100").plan["gpu"])
        for variant in kernel.plan["launches"][0]["variants"]:
            self.assertRegex(str(variant["grid"][0]), r"min\(7, ")

    def test_measured_choices(self):
        graph = {"name": "p", "inputs": {"a": {"type": "bf16", "shape": [64, 512]}, "b": {"type": "bf16", "shape": [512, 256]}},
                 "nodes": [{"op": "MatMul", "inputs": ["a", "b"], "outputs": ["d"]}], "outputs": ["d"]}
        entry = {"product": "bf16 mk x bf16 kn + f32 -> bf16", "sms": 132, "batches": 1, "n": 256, "k": 512, "m": 64,
                 "from": 33, "to": 64, "parameters": {"bm": 128, "bn": 128}, "us": 1, "first_us": 1}
        choices = {"version": 1, "gpu": "h100", "sms": 132, "generation": 1, "entries": [entry]}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "choices.json"
            path.write_text(json.dumps(choices))
            taken = "".join(adlgen.compile(graph, gpu="h100", tuned=[path]).kernels())
            path.write_text("[]")
            with self.assertRaises(adlgen.InputError) as wrong:
                adlgen.compile(graph, gpu="h100", tuned=[path])
        self.assertIn("128x128x64", taken)
        self.assertEqual((wrong.exception.line, wrong.exception.column), (1, 1))
        self.assertNotIn("128x128x64", "".join(adlgen.compile(graph, gpu="h100", tuned=False).kernels()))

    def test_gpus_and_version(self):
        self.assertIn("h100", adlgen.gpus())
        self.assertRegex(adlgen.version(), r"^\d+\.\d+\.\d+$")


class Case(unittest.TestCase):
    def refused(self, kind, text, call):
        with self.assertRaises(kind) as caught:
            call()
        self.assertEqual(str(caught.exception), text)


class Mistakes(Case):
    def test_unknown_operator_has_place_and_hint(self):
        graph = "name: bad\ninputs: {x: {type: f32, shape: [4]}}\nnodes: [{op: Sofmax, inputs: [x], outputs: [y]}]\noutputs: [y]\n"
        with self.assertRaises(adlgen.InputError) as caught:
            adlgen.compile(graph, gpu="h100")
        error = caught.exception
        self.assertEqual((error.code, error.file, error.line, error.column), (1, "<text>", 3, 14))
        self.assertEqual(error.hint, "did you mean `Softmax`?")
        self.assertTrue(str(error).startswith("<text>:3:14: "), str(error))

    def test_names(self):
        with self.assertRaises(adlgen.InputError) as caught:
            adlgen.compile(ADD, gpu="h1000")
        self.assertIn("h1000", caught.exception.message)
        self.refused(adlgen.InputError, "cannot read none.json: No such file or directory",
                     lambda: adlgen.compile("none.json", gpu="h100"))

    def test_library(self):
        program = "import adlgen\ntry:\n  adlgen.version()\nexcept adlgen.MissingToolError as e:\n  print(e)"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "ADLGEN_LIBRARY": "/nowhere/libadlgen.so"}
        result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        self.assertEqual(result.stdout, "the library libadlgen.so was not found; looked for /nowhere/libadlgen.so\n"
                         "hint: ADLGEN_LIBRARY names its file\n")


@unittest.skipUnless(HAS_DRIVER, "needs the stand-in driver")
class Calling(Case):
    def setUp(self):
        self.kernel = adlgen.compile(ADD, gpu="h100", cache_dir="")
        try:
            self.kernel.warnings()
        except adlgen.MissingToolError as error:
            self.skipTest(error.message)
        Array.streams.clear()
        self.fake = Fake.in_dll(ctypes.CDLL(os.environ["ADLGEN_CUDA_LIBRARY"]), "fake")

    def last_launch(self):
        return self.fake.launched[(self.fake.launches - 1) % 64]

    def test_queues_on_the_stream_and_gives_out(self):
        z = Array(5, 40)
        for versioned in (True, False):
            x, y = Array(5, 40, versioned=versioned), Array(40, versioned=versioned)
            before = self.fake.launches
            self.assertIs(self.kernel(x, y, out=z), z)
            self.assertEqual(self.fake.launches, before + 1)
            self.assertEqual(self.last_launch().first, x.address)
        self.assertEqual(set(Array.streams), {1})

    def test_constants(self):
        graph = {"name": "scaled", "inputs": {"X": {"type": "f32", "shape": [4]}},
                 "constants": {"s": {"type": "f32", "shape": [4], "data": [1, 2, 3, 4]}},
                 "nodes": [{"op": "Mul", "inputs": ["X", "s"], "outputs": ["Y"]}], "outputs": ["Y"]}
        first = adlgen.compile(graph, gpu="h100", cache_dir="")
        before = self.fake.allocations
        first.warnings()
        self.assertEqual(self.fake.allocations, before + 1)
        second = adlgen.compile(graph, gpu="h100", cache_dir="", constants_of=first)
        second.warnings()
        self.assertEqual(self.fake.allocations, before + 1)
        second.set_constant("s", array.array("f", [5, 6, 7, 8]))
        self.refused(adlgen.InputError, "constant s has 16 bytes, not 3", lambda: second.set_constant("s", b"abc"))
        self.refused(adlgen.InputError, "scaled has no constant t on the GPU\nhint: what is known while a graph is compiled is part "
                     "of its kernels", lambda: second.set_constant("t", b""))

    def test_shapes(self):
        cases = [
            ("3 inputs were given; wanted are x, y", [Array(5, 40), Array(40), Array(40)], Array(5, 40)),
            ("x has 1 dimensions; 2 are wanted: ['R', 40]", [Array(40), Array(40)], Array(5, 40)),
            ("y has the shape [41]; [40] is wanted", [Array(5, 40), Array(41)], Array(5, 40)),
            ("z has the shape [4, 40]; [5, 40] is wanted", [Array(5, 40), Array(40)], Array(4, 40)),
            ("x is to be f32, not DLPack's type 4 of 16 bits", [Array(5, 40, code=4, bits=16), Array(40)], Array(5, 40)),
            ("x has the strides [1, 5]; [40, 1] are wanted\nhint: the description's `strides` say how a tensor lies; "
             ".contiguous() makes a row-major copy", [Array(5, 40, strides=(1, 5)), Array(40)], Array(5, 40)),
            ("y is not in the memory of a GPU (DLPack device type 1)", [Array(5, 40), Array(40, device=(1, 0))], Array(5, 40)),
            ("x is a int, not a tensor that speaks DLPack", [5, Array(40)], Array(5, 40)),
            ("z is read-only", [Array(5, 40), Array(40)], Array(5, 40, read_only=True)),
            ("y is on GPU 1, other tensors on GPU 0", [Array(5, 40), Array(40, device=(2, 1))], Array(5, 40)),
        ]
        for text, inputs, out in cases:
            with self.subTest(text):
                self.refused(adlgen.InputError, text, lambda: self.kernel(*inputs, out=out))

    def test_cannot_allocate_for_unknown_frameworks(self):
        self.refused(adlgen.InputError, "adlgen cannot allocate z (f32 [5, 40]) with __main__\nhint: out=, or workspace= for "
                     "the workspace, passes memory of your own", lambda: self.kernel(Array(5, 40), Array(40)))

    def test_streams(self):
        class Stream:
            cuda_stream = 4660

        class Protocol:
            def __cuda_stream__(self):
                return 0, 22136
        for stream, handle in ((None, 1), (0, 1), (7, 7), (Stream(), 4660), (Protocol(), 22136)):
            Array.streams.clear()
            self.kernel(Array(5, 40), Array(40), out=Array(5, 40), stream=stream)
            self.assertEqual(set(Array.streams), {handle})
            self.assertEqual(self.last_launch().stream, handle if stream else None)

    def test_refused_launch(self):
        self.fake.refuse = 719
        try:
            with self.assertRaises(adlgen.RunError) as caught:
                self.kernel(Array(5, 40), Array(40), out=Array(5, 40))
        finally:
            self.fake.refuse = 0
        self.assertEqual(caught.exception.code, 5)
        self.assertIn("unspecified launch failure", caught.exception.message)

    def test_from_the_cache(self):
        """Without a name the GPU's own description is taken, and what the cache has is not compiled."""
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                kernel = adlgen.compile(ADD, cache_dir=folder)
                self.assertIsNone(kernel._result)
                named = adlgen.compile(ADD, gpu=kernel.gpu, cache_dir="")
                self.assertEqual(kernel.plan, named.plan)
                before = self.fake.launches
                kernel(Array(5, 40), Array(40), out=Array(5, 40))
                self.assertEqual(self.fake.launches, before + 1)
                kernel.load()
            self.assertEqual(kernel.explain, named.explain)
            self.assertEqual(kernel.kernels(), named.kernels())
            del kernel  # it writes to the folder

    def test_frees(self):
        before = self.fake.modules
        kernel = adlgen.compile(ADD, gpu="h100", cache_dir="")
        kernel(Array(5, 40), Array(40), out=Array(5, 40))
        self.assertGreater(self.fake.modules, before)
        del kernel
        self.assertEqual(self.fake.modules, before)

    def test_dimensions(self):
        graph = {"name": "g", "inputs": {"x": {"type": "f32", "shape": ["2*R", 8]}}, "outputs": ["y"],
                 "dims": {"R": {"min": 1}},
                 "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}]}
        kernel = adlgen.compile(graph, gpu="h100", cache_dir="")
        x, y = Array(6, 8), Array(6, 8)
        self.assertIs(kernel(x, out=y, dims={"R": 3}), y)
        self.refused(adlgen.InputError, "x has the shape [6, 8]; [8, 8] is wanted", lambda: kernel(x, out=y, dims={"R": 4}))
        self.refused(adlgen.InputError, "dimension R has no value\nhint: dims={'R': VALUE} gives it one",
                     lambda: kernel(x, out=y))
        same = {"name": "s", "inputs": {"x": {"type": "f32", "shape": ["R"]}, "y": {"type": "f32", "shape": ["R"]}},
                "nodes": [{"op": "Add", "inputs": ["x", "y"], "outputs": ["z"]}], "outputs": ["z"]}
        self.refused(adlgen.InputError, "R is 5 and, in y, 6",
                     lambda: adlgen.compile(same, gpu="h100", cache_dir="")(Array(5), Array(6), out=Array(5)))

    def test_threads(self):
        faults = []

        def work():
            try:
                for rows in range(1, 40):
                    self.kernel(Array(rows, 40), Array(40), out=Array(rows, 40))
            except Exception as error:  # noqa: BLE001
                faults.append(error)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])


unittest.main()
