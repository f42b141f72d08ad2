#!/usr/bin/env python3
"""Rules of the house that a reader could check with grep: check.py ROOT [CHECK]...

Each check walks the files git knows and prints FILE:LINE: what is wrong. Exit status 1 if any does."""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1]).resolve()

# What each folder may include, as in the table of README.md: a folder stands for all below it, and the longest path
# that fits a file is its own. tests/ may use everything.
BELOW_FRONT = {"symbolic", "base"}
FRONT = {"generator/front"} | BELOW_FRONT
PROGRAM = {"generator/program"} | FRONT
FUSION = {"generator/fusion"} | PROGRAM
KERNEL = {"generator/kernel", "ir", "adl"} | FUSION
CHOOSE = {"generator/choose", "generator/options.h", "plan"} | KERNEL
COMPILE = {"generator/compile", "backends/backend.h"} | CHOOSE
EXECUTE = {"execute", "runtime", "simulator", "reference", "generator", "plan", "symbolic", "adl", "base"}
ALLOWED = {
    "base": {"base"},
    "adl": {"adl", "base"},
    "symbolic": {"symbolic", "base"},
    "plan": {"plan", "symbolic", "base"},
    "ir": {"ir", "adl", "base"},
    "backends": {"backends/backend.h", "backends/ptx", "ir", "adl", "base"},
    "backends/c": {"backends/c", "plan", "symbolic", "base"},
    "generator": {"generator", "ir", "base"},
    "generator/front": FRONT,
    "generator/program": PROGRAM,
    "generator/fusion": FUSION,
    "generator/kernel": KERNEL,
    "generator/choose": CHOOSE,
    "generator/compile": COMPILE,
    "reference": {"reference", "base"},
    "simulator": {"simulator", "adl", "base"},
    "runtime": {"runtime", "plan", "symbolic", "adl", "base"},
    "measure": {"measure", "runtime", "reference", "generator", "plan", "symbolic", "adl", "base", "include"},
    "execute": EXECUTE,
    "api": {"api", "include"} | EXECUTE,
    "catalog": {"catalog"} | EXECUTE,
    "cli": {"cli", "catalog", "measure", "backends/c", "backends/backend.h", "ir", "include"} | EXECUTE,
    "include": {"include"},
}

GPU_NAMES = re.compile(r"(?<![a-z0-9])(a100|a800|h100|h800|h200|h20|l40s?|b200|gb200|rtx ?\d+|hopper|ampere|lovelace|"
                       r"blackwell|volta|turing|sm_?\d\d+a?|compute_\d+)(?![a-z0-9])", re.IGNORECASE)
MNEMONICS = re.compile(r"\b(cp\.async|mma\.sync|wgmma|ldmatrix|stmatrix|mbarrier\.(init|inval|arrive|expect_tx|complete_tx|test_wait|try_wait)|setmaxnreg|bar\.sync|barrier\.sync|"
                       r"griddepcontrol|elect\.sync|shfl\.sync|redux\.sync|vote\.sync|prefetch\.tensormap|mapa|"
                       r"(ld|st|atom|red)\.(global|shared|param|local)|fma\.r[nz]|cvt\.r[nzmp]|cvta\.|setp\.|selp\.|"
                       r"mov\.[bus]\d+|mul\.(lo|wide|hi)|mad\.lo|ex2\.approx|lg2\.approx|rcp\.approx|fence\.proxy)")
MARKS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
PATHS = re.compile(r"(?<![\w.$}-])/(work|tmp|home|root|Users)/")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
MAX_LINES = 800


def tracked():
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                         capture_output=True, text=True).stdout
    return sorted(name for name in out.split("\0") if name and (root / name).is_file())


def lines(name):
    try:
        return (root / name).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        return []


def is_c(name):
    return name.endswith((".c", ".h", ".def"))


def outside_tests(name):
    return is_c(name) and not name.startswith(("tests/", "examples/", "generated/"))


def folder_of(name):
    """The longest entry of ALLOWED that the file lies in, or None."""
    parts = name.split("/")[:-1]
    for n in range(len(parts), 0, -1):
        if "/".join(parts[:n]) in ALLOWED:
            return "/".join(parts[:n])
    return None


MECHANISM = re.compile(r'"(group|warp|fma|tensor|async|plain|shared|matrix)"')
MECHANISM_ASKED = re.compile(r"ir_attribute_is\([^,]*, *ATTR_VIA")


def check_mechanisms(files):
    """Passes ask a row of ir/mechanisms.def for a property, never for its name."""
    for name in files:
        if not name.startswith("ir/") or not name.endswith(".c"):
            continue
        for number, line in enumerate(lines(name), 1):
            if MECHANISM_ASKED.search(line) or (name.startswith("ir/passes/") and MECHANISM.search(line)):
                yield name, number, "knows a mechanism by name: ask ir_mechanism_of() for a property"


def check_includes(files):
    for name in files:
        folder = folder_of(name)
        if not is_c(name) or not folder:
            continue
        for number, line in enumerate(lines(name), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+/[^"]+)"', line)
            target = match.group(1).replace("adlgen/", "include/adlgen/", 1) if match else None
            if not target or target.startswith(tuple(f"{entry}/" for entry in ALLOWED)) is False:
                continue
            if not any(target == allowed or target.startswith(allowed + "/") for allowed in ALLOWED[folder]):
                yield name, number, f"{folder}/ may not use {target}"


def check_names(files):
    for name in filter(outside_tests, files):
        for number, line in enumerate(lines(name), 1):
            match = GPU_NAMES.search(line)
            if match:
                yield name, number, f"names a GPU, an architecture or a compute capability: {match.group()}"


def check_mnemonics(files):
    for name in filter(outside_tests, files):
        if name.startswith(("backends/ptx/", "simulator/")):
            continue
        for number, line in enumerate(lines(name), 1):
            for string in STRING.findall(line):
                match = MNEMONICS.search(string)
                if match:
                    yield name, number, f"holds a PTX mnemonic: {match.group()}"


def check_length(files):
    for name in files:
        if is_c(name) or name.endswith((".py", ".sh")):
            n = len(lines(name)) - 1
            if n > MAX_LINES:
                yield name, n, f"is longer than {MAX_LINES} lines"


def check_heads(files):
    for name in files:
        if re.match(r"ir/passes/[^/]+\.c$", name) and any(re.match(r"bool pass_\w+\(", line) for line in lines(name)):
            head = [line[3:].split(" ")[0] for line in lines(name)[:25] if line.startswith(" * ")]
            for word in ("needs", "gives", "breaks"):
                if word not in head:
                    yield name, 1, f"opens without a line that says what the pass {word}"


def check_marks(files):
    for name in files:
        if name == "tests/structure/check.py":
            continue
        for number, line in enumerate(lines(name), 1):
            if MARKS.search(line):
                yield name, number, "has a mark of unfinished work"


def check_paths(files):
    for name in files:
        if name == "tests/structure/check.py":
            continue
        for number, line in enumerate(lines(name), 1):
            if PATHS.search(line):
                yield name, number, "names a path of one machine"


# A family's own files, by its binding: who else asks which family an operator is of, or reads what it bound, knows too much.
BINDINGS = {
    "gemm": (re.compile(r"\b(gemm_of|FusedGemm|gemm_copy|gemm_transposed)\b"),
             re.compile(r"generator/(program/|kernel/gemm[_.]|choose/(gemm|gemv|tuned_gemm|judge_gemm|direct|dots|copies|propose)[_.])")),
    "row": (re.compile(r"\b(row_of|FusedRow|RowKind)\b"),
            re.compile(r"generator/(program/|kernel/row|choose/(row|judge_row))")),
}
SEE_FAMILIES = ("generator/", "measure/", "execute/", "api/", "catalog/", "cli/")  # that include generator/
FAMILY = r"(?:family(?:_at\([^()]*\))?|families\[[^\]]*\])"
FAMILY_ASKED = re.compile(rf"{FAMILY}(?:\s*(?:->|\.)\s*(?:name|index))?\s*[!=]=|[!=]=\s*[\w.>()-]*\b{FAMILY}\b(?!\()|"
                          rf"switch \([^()]*{FAMILY}|(?:strcmp|g_str_equal|g_strcmp0|strstr)\([^;]*{FAMILY}\s*(?:->|\.)\s*name|"
                          r"\bFAMILY_NUMBER_")


def check_families(files):
    """Outside of families' own files an operator's program, its binding or its family is asked for a property, never which
    family it is."""
    for name in files:
        if not is_c(name) or not name.startswith(SEE_FAMILIES) or name.startswith("generator/program/"):
            continue
        for number, line in enumerate(lines(name), 1):
            if FAMILY_ASKED.search(line):
                yield name, number, "asks which family an operator is of: ask its program or its family (generator/program/family.h)"
            for family, (words, own) in BINDINGS.items():
                match = words.search(line)
                if match and not own.match(name):
                    yield name, number, f"reads the binding of family {family}: {match.group()}"


NUMBERS = re.compile(r"(?<![\w.])(0x[0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?)[uUlLfF]*(?![\w.])")
NOT_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
DEFINED = re.compile(r"^#define (\w+)(?:\\\n|.)*$", re.MULTILINE)
LISTED = re.compile(r"\b(\w+)(?:\[\w*\])+ =\s*\{")
COUNTED_IN = ("generator/choose/", "generator/fusion/", "generator/kernel/", "ir/passes/")
SMALL = 4  # a pair, the ranks and sides of things, bytes of a word


def is_small(text):
    """A whole number up to SMALL, or a half."""
    if re.fullmatch(r"0x[0-9a-fA-F]+|\d+", text):
        return int(text, 0) <= SMALL
    return float(text) in (0.0, 0.5, 1.0, 2.0)


def end_of_braces(text, at):
    """Behind the brace that closes the one in front of `at`."""
    depth = 1
    while depth and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def named_numbers():
    """What tests/structure/numbers.txt allows: {(file, name or number): its line}."""
    allowed = {}
    for number, line in enumerate(lines("tests/structure/numbers.txt") if (root / "tests/structure/numbers.txt").exists() else [], 1):
        if line and not line.startswith("#"):
            file, words, reason = line.split("\t")
            for word in words.split():
                allowed[file, word] = number
    return allowed


def check_numbers(files):
    """Numbers that were fitted or that hardware has stand in YAML (adl/): others say in numbers.txt what they are."""
    allowed = named_numbers()
    used = set()
    for name in files:
        if not name.startswith(COUNTED_IN) or not name.endswith((".c", ".h")):
            continue
        text = NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), "\n".join(lines(name)))
        spans = [(match.start(), match.end(), match.group(1)) for match in DEFINED.finditer(text)]
        spans += [(match.start(), end_of_braces(text, match.end()), match.group(1)) for match in LISTED.finditer(text)]
        for match in NUMBERS.finditer(text):
            if is_small(match.group(1)):
                continue
            owner = next((who for start, end, who in spans if start <= match.start() < end), match.group(1))
            used.add((name, owner))
            if (name, owner) not in allowed:
                yield name, text.count("\n", 0, match.start()) + 1, (
                    f"{match.group()}: a fitted number or one of hardware belongs into adl/ (docs/adl.md, \"The cost model\"); "
                    "what an algorithm or an encoding is made of, into tests/structure/numbers.txt with its reason")
    for key in sorted(set(allowed) - used):
        yield "tests/structure/numbers.txt", allowed[key], f"{key[0]} has no {key[1]} any more"


OPCODE_ROW = re.compile(r'^OP\((\w+), "[^"]*", (\w+), -?\d+, "[^"]*", "(\w*)"', re.M)
ORDERS = re.compile(r'OP_FENCE\b[^;]*"(?:schedule|order)"')  # the assembler's work, no agents


def synchronisation_opcodes():
    """Those of ir/opcodes.def that synchronise and are legal at STAGED but not at TILE, which says what is wanted and not how."""
    rows = OPCODE_ROW.findall("\n".join(lines("ir/opcodes.def")))
    return [name for name, levels, effects in rows if "S" in effects and levels in ("S", "SH")]


def check_synchronisation(files):
    """Who waits for whom is derived once, behind the passes that move things: synchronisation.txt lists the files of ir/passes
    that name an opcode of it, with the opcodes. So their number can only fall: no entry is added without a reason, and one that
    is out of date fails."""
    listed = "tests/structure/synchronisation.txt"
    named = re.compile(r"\bOP_(" + "|".join(synchronisation_opcodes()) + r")\b")
    emits = re.compile(r"\b(?:ir_)?emit\w*\([^;]*?" + named.pattern + "[^;]*;")
    allowed = {}
    for number, line in enumerate(lines(listed) if (root / listed).exists() else [], 1):
        if line and not line.startswith("#"):
            file, kind, opcodes, _ = line.split("\t")
            allowed[file] = (number, kind, set(opcodes.split()))
    seen = set()
    for name in files:
        if not name.startswith("ir/passes/") or not name.endswith(".c"):
            continue
        raw = "\n".join(lines(name))
        text = NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), raw)
        found = {}
        for match in named.finditer(text):
            found.setdefault(match.group(1), text.count("\n", 0, match.start()) + 1)
        if not found:
            continue
        seen.add(name)
        if name not in allowed:
            opcode, number = next(iter(found.items()))
            yield name, number, f"OP_{opcode}: synchronisation is derived behind the passes; a pass that names it says why in {listed}"
            continue
        entry, kind, opcodes = allowed[name]
        for opcode in sorted(set(found) - opcodes):
            yield name, found[opcode], f"OP_{opcode}, which {listed} does not say"
        for opcode in sorted(opcodes - set(found)):
            yield listed, entry, f"{name} names OP_{opcode} no more"
        made = list(emits.finditer(text))
        writes = [match for match in made if not ORDERS.search(raw[match.start():match.end()])]
        if writes and kind != "writes":
            yield name, text.count("\n", 0, writes[0].start()) + 1, f"writes synchronisation, which {listed} does not say"
        elif (not writes and kind == "writes") or (not made and kind == "orders"):
            yield listed, entry, f"{name} {kind} no synchronisation any more"
    for name in sorted(set(allowed) - seen):
        yield listed, allowed[name][0], f"{name} names no synchronisation any more"


ELEMENT_BYTES = re.compile(r"\bnumber_bytes\(")
PACKED_BEYOND = ("base/", "tests/")  # where types are defined and tried
LISTED_BYTES = "tests/structure/element_bytes.txt"


def check_bytes(files):
    """A packed type's element has no bytes of its own: sizes are asked of so many elements (number_bytes_of, number_elements) and
    widths by number_has_bytes. element_bytes.txt lists the files that still ask for one element's, and how often."""
    allowed = {}
    for number, line in enumerate(lines(LISTED_BYTES) if (root / LISTED_BYTES).exists() else [], 1):
        if line and not line.startswith("#"):
            file, count, reason = line.split("\t")
            allowed[file] = int(count), number
    for name in files:
        if not is_c(name) or name.startswith(PACKED_BEYOND):
            continue
        text = NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), "\n".join(lines(name)))
        found = [text.count("\n", 0, m.start()) + 1 for m in ELEMENT_BYTES.finditer(text)]
        count, at = allowed.pop(name, (0, 0))
        if len(found) > count:
            yield name, found[-1], (f"asks {len(found)} times for the bytes of one element, {LISTED_BYTES} says {count}: number_bytes_of, "
                                    "number_elements and number_has_bytes hold for packed types too")
        elif len(found) < count:
            yield LISTED_BYTES, at, f"{name} asks {len(found)} times, not {count}"
    for name, (count, at) in allowed.items():
        yield LISTED_BYTES, at, f"{name} asks no more"


MODEL_ROW = re.compile(r"^MODEL\(\w+, (\w+),")


SHARED_ARENA = re.compile(r"\bprogram->arena\b")


def check_arenas(files):
    """An operator's kernels are written side by side: what they allocate comes from the arena of each, not from the program that they share."""
    for name in files:
        if not name.startswith("generator/kernel/") or not is_c(name):
            continue
        for number, line in enumerate(lines(name), 1):
            if SHARED_ARENA.search(line):
                yield name, number, "allocates in the arena of a program that several threads read: take the kernel's"


def check_model(files):
    """Each constant of the cost model is asked for, by C (model->NAME) or by what a template tries (model.NAME)."""
    asked = set()
    for name in files:
        if name.startswith(("generator/", "ir/", "measure/", "backends/")) and is_c(name) or name.startswith("templates/"):
            asked.update(re.findall(r"(?:->|\bmodel\.)(\w+)", (root / name).read_text(encoding="utf-8")))
    for number, line in enumerate(lines("adl/model.def"), 1):
        row = MODEL_ROW.match(line)
        if row and row.group(1) not in asked:
            yield "adl/model.def", number, f"nobody asks for {row.group(1)}"


CHECKS = {name[len("check_"):]: check for name, check in list(globals().items()) if name.startswith("check_")}

faults = 0
files = tracked()
for wanted in sys.argv[2:] or CHECKS:
    for name, number, what in CHECKS[wanted](files):
        print(f"{name}:{number}: {what}")
        faults += 1
sys.exit(faults > 0)
