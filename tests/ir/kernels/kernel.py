"""What the tests of this folder share: a kernel in TILE text through all passes and on the simulator."""
import json
import pathlib
import re
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
CODES = {"bf16": "H", "f16": "H", "s32": "i", "f32": "f", "e4m3": "B", "e5m2": "B", "s8": "b", "u8": "B"}


def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def number(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def e4m3(bits):
    sign, exponent, mantissa = -1.0 if bits & 128 else 1.0, bits >> 3 & 15, bits & 7
    return sign * (mantissa / 8 * 2 ** -6 if exponent == 0 else (1 + mantissa / 8) * 2 ** (exponent - 7))


def close(bits, wanted):
    return abs(number(bits) - wanted) <= 2 ** -8 * abs(wanted) + 1e-4


def with_facts(text, slots):
    """Tensors start at multiples of 16 bytes, and so do their rows; channels of so many slots (0: as they are)."""
    text = re.sub(r"(tensor<\w+>\[[^\[\]]*\])(?! align)", r"\1 align 16", text)
    text = re.sub(r"\b([MNK]): s32", r"\1: s32 multiple 16", text)
    return re.sub(r"slots \d+", f"slots {slots}", text) if slots else text


def call(*words):
    run = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


class Kernel:
    """NAME.tile.ir, or the file of a path, for a GPU. Its STAGED form has to hold each of the words."""

    def __init__(self, adlgen, name, entry, gpu, words, folder, sms, after="split_roles"):
        self.adlgen, self.gpu, self.folder = adlgen, gpu, pathlib.Path(folder)
        text = name if isinstance(name, pathlib.Path) else HERE / f"{name}.tile.ir"
        report = call(adlgen, "compile", text, "--gpu", gpu, "--emit", "ptx", "--sms", sms, "--out", folder, "--print-after", after, "--json")
        self.shared = json.loads(report)["gpus"][0]["kernels"][0]["shared"]
        self.ptx = self.folder / gpu / f"{entry}.ptx"
        self.template = json.loads(call(adlgen, "sim", self.ptx, "--print-launch"))
        staged = next((self.folder / gpu).glob(f"*{after}.ir")).read_text()
        found = re.findall(r"map @map_(\w+) of (\w+) box \[([^\]]*)\](?: swizzle (\d+))?", staged)
        self.boxes = {name: ([int(n) for n in box.split(",")][::-1], int(swizzle or 0)) for name, _, box, swizzle in found}
        self.mapped = {name: tensor for name, tensor, _, _ in found} # a tensor may have several maps
        for word in words:
            if word not in staged:
                sys.exit(f"{gpu}: no `{word}` in the STAGED form")

    def run(self, blocks, shared, buffers, dims, maps, *outputs):
        """buffers: name -> (type, values); maps: name of a buffer -> extents and box, innermost first, and the swizzle where
        it is not as wide as the box; or all of it as a launch file has it, strides in bytes. Gives the output, or a list of several. A box of one row is not swizzled."""
        launch = dict(self.template, grid=[blocks, 1, 1], shared=shared, tensormaps={},
                      outputs={name: f"{name}.out" for name in outputs})
        launch["buffers"] = {}
        for name, (kind, values) in buffers.items():
            launch["buffers"][name] = {"type": kind, "shape": [len(values)], "file": f"{name}.bin"}
            (self.folder / f"{name}.bin").write_bytes(struct.pack(f"<{len(values)}{CODES[kind]}", *values))
        launch["args"] = [{"buffer": name} for name in buffers] + [{"s32": n} for n in dims]
        for argument in self.template["args"]:
            if "tensormap" not in argument:
                continue
            name = argument["tensormap"].rsplit("map_", 1)[1]
            tensor = self.mapped.get(name, name)
            kind = buffers[tensor][0]
            launch["args"].append({"tensormap": name})
            if isinstance(maps[name], dict):
                launch["tensormaps"][name] = {"buffer": tensor, "type": kind, "oob": "zero", **maps[name]}
                continue
            extents, box, *swizzle = maps[name]
            bytes_each = struct.calcsize(CODES[kind])
            strides = [bytes_each]
            for extent in extents[:-1]:
                strides.append(strides[-1] * extent)
            launch["tensormaps"][name] = {"buffer": tensor, "type": kind, "dims": extents, "strides": strides[1:], "box": box,
                                          "swizzle": swizzle[0] if swizzle else bytes_each * box[0] if box[1] > 1 else 0,
                                          "oob": "zero"}
        (self.folder / "launch.json").write_text(json.dumps(launch))
        call(self.adlgen, "sim", self.ptx, "--launch", self.folder / "launch.json", "--gpu", self.gpu, "--strict")
        results = [struct.unpack(f"<{len(buffers[name][1])}{CODES[buffers[name][0]]}",
                                 (self.folder / f"{name}.out").read_bytes()) for name in outputs]
        return results[0] if len(results) == 1 else results
