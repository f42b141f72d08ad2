#!/usr/bin/env python3
"""Judges the simulator: plants single faults in good kernels and counts those that its checkers name.

    mutants.py ADLGEN [--per-class N | --all | --sample N] [--seed N] [--jobs N] [--class TEXT] [--kernel TEXT] [--json FILE] [--missed]

Every rule of classes.py is applied at every matching place of every kernel of kernels.py. Before counting, some are left
out as equivalent, by the rules of equivalent() and overwritten(): a place that the launch never reaches (found by putting
`trap` there), a dropped guard that was never false, a constant that another value can replace without effect, a barrier or
a wait behind which nothing touches shared memory, and a few more; and changes that the simulator's reader refuses.

caught: a fault names the changed instruction, one that depends on it through registers, or a partner (the opcodes listed
with the class: a fault in synchronisation shows where it was needed).
output only: no such fault, but the output differs from the good kernel's.  missed: neither.
Exit code 1 if less than 95 % are caught (with --sample: of the sample, rounded up by one)."""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from classes import CLASSES, SHARED  # noqa: E402
from kernels import all_kernels  # noqa: E402

Mutant = collections.namedtuple("Mutant", "kernel gpu name number changes partners")
GENERIC = re.compile(r"(ld|st|atom|red)\S*\.shared|ldmatrix|stmatrix|st\.async|cp\.async\.c|mbarrier\.arrive")
TIMEOUT = 20  # seconds of one run; the limit of instructions comes first


class Runner:
    def __init__(self, adlgen, schedules):
        self.adlgen, self.schedules = adlgen, schedules
        self.good = {}

    def run(self, kernel, gpu, text, schedules=None, limit=None):
        """(exit code, report, hash of the outputs)"""
        with tempfile.TemporaryDirectory() as folder:
            launch = json.loads(json.dumps(kernel.launch))
            for buffer in launch["buffers"].values():
                if "file" in buffer:
                    buffer["file"] = os.path.join(kernel.folder, buffer["file"])
            wanted = launch.get("outputs") or {}
            launch["outputs"] = {n: f"{n}.bin" for n in wanted or launch["buffers"]}
            for name in set(launch["outputs"]) - set(wanted):
                launch["buffers"][name].setdefault("written", "part")  # nobody has said that the launch writes it
            with open(os.path.join(folder, "k.ptx"), "w") as f:
                f.write(text)
            with open(os.path.join(folder, "k.launch.json"), "w") as f:
                json.dump(launch, f)
            command = [self.adlgen, "sim", "k.ptx", "--launch", "k.launch.json", "--json", "--strict", "--jobs", "1",
                       "--schedules", str(schedules or self.schedules), "--timeout", str(TIMEOUT)]
            if gpu:
                command += ["--gpu", gpu]
            if limit:
                command += ["--max-instructions", str(limit)]
            result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            digest = hashlib.sha256()
            for name in sorted(launch["outputs"]):
                path = os.path.join(folder, f"{name}.bin")
                if os.path.exists(path):
                    with open(path, "rb") as f:
                        digest.update(f.read())
            report = json.loads(result.stdout) if result.returncode in (0, 5) else {"error": result.stdout + result.stderr}
            return result.returncode, report, digest.hexdigest()

    def learn(self, kernel, gpu):
        """The good kernel must be clean; its outputs and its length are what mutants are held against."""
        code, report, digest = self.run(kernel, gpu, kernel.text)
        if code or report["faults"]:
            raise SystemExit(f"{kernel.name}: the good kernel is not clean: {json.dumps(report)[:2000]}")
        _, single, _ = self.run(kernel, gpu, kernel.text, 1)
        self.good[kernel.name] = (digest, single["instructions"])


def trapped(runner, mutant, instruction, guard):
    text = mutant.kernel.replaced([(instruction, f"{guard} trap;".strip())])
    code, report, _ = runner.run(mutant.kernel, mutant.gpu, text, 1)
    return code == 5 and any(f["kind"] == "trap" for f in report["faults"])


def negated(guard):
    return guard.replace("@!", "@") if "!" in guard else guard.replace("@", "@!")


def overwritten(runner, mutant):
    """Does another value in place of the dropped one change nothing?"""
    instruction, new = mutant.changes[0]
    kind = re.fullmatch(r"mov\.[bufs](16|32|64)|setp\.\S+", instruction.op)
    if mutant.name != "register not set" or not kind or "|" in instruction.operands()[0]:
        return False
    value = {"16": "0x42f6", "32": "0x42f6e979", "64": "0x405edd2f1a9fbe77"}.get(kind[1])
    to = instruction.operands()[0]
    others = [f"mov.b{kind[1]} {to}, {value};"] if value else [f"setp.{c}.u32 {to}, 0, 0;" for c in ("eq", "ne")]
    digest, length = runner.good[mutant.kernel.name]
    for other in others:
        text = mutant.kernel.replaced([(instruction, other)])
        code, _, found = runner.run(mutant.kernel, mutant.gpu, text, 1, 2 * length)
        if code != 0 or found != digest:
            return False
    return True


def compares(runner, mutant, text):
    """Is this comparison ever true?"""
    instruction = mutant.changes[0][0]
    probe = mutant.kernel.replaced([(instruction, f"{text} @{instruction.operands()[0]} trap;")])
    code, report, _ = runner.run(mutant.kernel, mutant.gpu, probe, 1, 20 * runner.good[mutant.kernel.name][1])
    return code == 5 and any(f["kind"] == "trap" for f in report["faults"])


def since_barrier(kernel, instruction):
    """What stands between a label or a barrier and this barrier, last first."""
    out = []
    for i in kernel.instructions[:instruction.index][::-1]:
        if re.match(r"(bar|barrier)\.", i.op):
            break
        out.append(i)
        if kernel.labels_at(i.index):
            break
    return out


def up_to_barrier(kernel, instruction):
    """What stands between the barrier before and this one, in the order of the text."""
    out = []
    for i in kernel.instructions[:instruction.index][::-1]:
        if re.match(r"(bar|barrier)\.", i.op):
            break
        out.append(i)
    return out


def has_left(runner, mutant):
    """Has the lane that the mutant leaves out ended before it gets there?"""
    instruction, new = mutant.changes[0]
    if mutant.name not in ("branch around a barrier", "warp mask"):
        return False
    if not any(i.guard and i.op in ("exit", "ret", "bra") for i in mutant.kernel.instructions[:instruction.index]):
        return False
    lane = 31 if "0x7fffffff" in new else 0
    probe = (f"{{ .reg .pred gone_p; .reg .b32 gone_r; mov.u32 gone_r, %laneid; setp.eq.u32 gone_p, gone_r, {lane}; @gone_p trap; }} "
             + instruction.text())
    text = mutant.kernel.replaced([(instruction, probe)])
    code, _, _ = runner.run(mutant.kernel, mutant.gpu, text, 1)
    return code == 0


def next_of(kernel, instruction, pattern):
    """The first instruction behind this one, in the order of the text, that matches."""
    expression = re.compile(pattern)
    return next((i for i in kernel.instructions[instruction.index + 1:] if expression.match(i.op)), None)


def equivalent(runner, mutant):
    """The rule by which a mutant is no fault, or None."""
    instruction, new = mutant.changes[0]
    kernel = mutant.kernel
    if not trapped(runner, mutant, instruction, instruction.guard):
        return "never reached"
    unguarded = instruction.guard and new and not new.startswith(("@", "{"))
    if unguarded and not trapped(runner, mutant, instruction, negated(instruction.guard)):
        return "guard never false"
    if overwritten(runner, mutant):
        return "value never used"
    if has_left(runner, mutant):
        return "the lane has ended before"
    if mutant.name == "copy missing" and instruction.op.startswith("cp.async.c"):
        zeros = instruction.text(args=", ".join((instruction.operands() + ["0"])[:3] + ["0"]))
        code, _, found = runner.run(kernel, mutant.gpu, kernel.replaced([(instruction, zeros)]), 1)
        if code == 0 and found == runner.good[kernel.name][0]:
            return "value never used"
    if instruction.op.startswith("elect"):
        guarded = next_of(kernel, instruction, r"ld|st|red|atom|cp|mbarrier|ret")
        if guarded and guarded.op.startswith("cp.async.bulk.wait"):
            return "only waits are guarded"
    if mutant.name == "bulk store not waited for":
        commits = kernel.find(r"cp\.async\.bulk\.commit")
        if not any(instruction.index in kernel.behind(i.index) for i in commits):
            return "no group is open there"
    if mutant.name == "mbarrier fence dropped" and not kernel.find(r"cp\.async\.bulk\S*mbarrier"):
        return "only instructions of the generic proxy signal the mbarrier"
    if mutant.name == "slot count" and not any(compares(runner, mutant, i) for i in (instruction.text(), new)):
        return "never true, before or after"
    access = re.compile(SHARED)
    behind = [kernel.instructions[i] for i in kernel.behind(instruction.index)]
    if mutant.name in ("block barrier dropped", "cp.async not waited for", "cp.async group not closed"):
        if not any(access.match(i.op) and not i.op.startswith(("cp.async.wait", "cp.async.commit")) for i in behind):
            return "no access to shared memory behind it"
    if mutant.name == "block barrier dropped":
        after = kernel.instructions[instruction.index + 1:]
        for way in (kernel.instructions[:instruction.index][::-1], after):
            for i in way:
                if re.match(r"(bar|barrier)(\.cta)?\.sync", i.op):
                    return "another barrier without an access between"
                if re.match(r"ld|st|red|atom|cp|mbarrier|wgmma|bra|ret|setmaxnreg", i.op):
                    break
        touches = re.compile(SHARED + r"|(st|red|atom|cp|mbarrier)\.")
        if not any(instruction.index in kernel.behind(i.index) for i in kernel.instructions if touches.match(i.op)):
            return "nothing before it touches shared memory or writes: there is nothing to order"
        before = since_barrier(kernel, instruction)
        if any(i.op.startswith("wgmma.wait") for i in before) and not any(GENERIC.match(i.op) for i in before):
            return "between the barriers only products, which the warpgroup has waited for"
    if mutant.name == "warp barrier dropped":
        following = next_of(kernel, instruction, r"ld|st|red|atom|cp|mbarrier|shfl|match|vote|bar|ret")
        if following and re.match(r"shfl|match|vote|bar", following.op):
            return "what follows waits for the lanes itself"
        if not any(GENERIC.match(i.op) for i in up_to_barrier(kernel, instruction)):
            return "no access to shared memory since the barrier before"
    if mutant.name == "cp.async group not closed":
        following = next_of(kernel, instruction, r"cp\.async\.(commit|wait)")
        wait = next_of(kernel, instruction, r"cp\.async\.wait")
        if following and ".commit" in following.op and wait and wait.args in ("", "0"):
            return "the next group holds its copies and is waited for as well"
    return None


def named_lines(kernel, report):
    """(line, kind) of what the faults name; a poll that goes on for ever is named by its branch."""
    polls = {}
    for i in kernel.instructions[1:]:
        before = kernel.instructions[i.index - 1]
        if i.op.startswith("bra") and re.match(r"mbarrier\.(try|test)_wait", before.op):
            polls[i.line] = before.line
    for f in report["faults"]:
        if f["kind"] == "limit":
            continue
        lines = [f["line"]] + ([f["other"]["line"]] if "other" in f else [])
        lines += [int(n) for n in re.findall(r"at line (\d+)", f["message"])]
        for line in lines:
            yield line, f["kind"]
            if line in polls:
                yield polls[line], f["kind"]


def judge(runner, mutant):
    rule = equivalent(runner, mutant)
    if rule:
        return mutant, "equivalent", rule
    kernel = mutant.kernel
    digest, length = runner.good[kernel.name]
    code, report, found = runner.run(kernel, mutant.gpu, kernel.replaced(mutant.changes), limit=20 * length + 100000)
    if "error" in report:
        return mutant, "equivalent", "refused: " + report["error"].strip()[:200]
    lines = set().union(*[i.lines | kernel.flow(i) for i, _ in mutant.changes])
    partner = re.compile(mutant.partners) if mutant.partners else None
    for line, kind in named_lines(kernel, report):
        partners = [i for i in kernel.instructions if line in i.lines and partner and partner.match(i.op)]
        if line in lines or partners:
            return mutant, "caught", kind
    others = ", ".join(f"{f['kind']} at {f['line']}" for f in report["faults"])
    return mutant, "output only" if found != digest else "missed", others


def collect(runner, kernels, wanted):
    mutants = collections.defaultdict(list)
    for kernel, gpu in kernels:
        runner.learn(kernel, gpu)
        for name, (_, rule) in CLASSES.items():
            if wanted and wanted not in name:
                continue
            for number, (changes, partners) in enumerate(rule(kernel)):
                mutants[name].append(Mutant(kernel, gpu, name, number, changes, partners))
    return mutants


def choose(mutants, options):
    """Per class in an order drawn by the seed; --sample goes around the classes."""
    drawn = random.Random(options.seed)
    for name in sorted(mutants):
        drawn.shuffle(mutants[name])
    if options.all:
        return [m for name in mutants for m in mutants[name]]
    if not options.sample:
        return [m for name in mutants for m in mutants[name][:options.per_class]]
    out, depth = [], 0
    while len(out) < options.sample and any(len(m) > depth for m in mutants.values()):
        out += [m[depth] for m in mutants.values() if len(m) > depth]
        depth += 1
    return out[:options.sample]


def table(mutants, results):
    rows = [["class", "sites", "tried", "equivalent", "mutants", "caught", "output only", "missed"]]
    total = collections.Counter()
    for name in mutants:
        count = collections.Counter(state for m, state, _ in results if m.name == name)
        tried = sum(count.values())
        real = tried - count["equivalent"]
        rows.append([name, len(mutants[name]), tried, count["equivalent"], real, count["caught"], count["output only"],
                     count["missed"]])
        total.update(count)
    real = sum(total.values()) - total["equivalent"]
    rows.append(["all", sum(len(m) for m in mutants.values()), sum(total.values()), total["equivalent"], real, total["caught"],
                 total["output only"], total["missed"]])
    widths = [max(len(str(r[c])) for r in rows) for c in range(len(rows[0]))]
    for row in rows:
        cells = [str(v).ljust(w) if c == 0 else str(v).rjust(w) for c, (v, w) in enumerate(zip(row, widths))]
        print("| " + " | ".join(cells) + " |")
        if row is rows[0]:
            print("|" + "|".join("-" * (w + 2) if c == 0 else "-" * (w + 1) + ":" for c, w in enumerate(widths)) + "|")
    return real, total["caught"]


def describe(mutant, state, why):
    instruction, new = mutant.changes[0]
    return {"class": mutant.name, "kernel": mutant.kernel.name, "line": instruction.line, "from": instruction.text(),
            "to": new, "state": state, "why": why}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adlgen")
    parser.add_argument("--per-class", type=int, default=24, metavar="N", help="so many of each class (default: 24)")
    parser.add_argument("--all", action="store_true", help="every site")
    parser.add_argument("--sample", type=int, metavar="N", help="so many in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--class", dest="wanted", help="classes whose name contains this")
    parser.add_argument("--kernel", default="", help="kernels whose name contains this")
    parser.add_argument("--json", metavar="FILE", help="a list of every mutant tried")
    parser.add_argument("--missed", action="store_true", help="lists those not caught")
    options = parser.parse_args()
    runner = Runner(os.path.abspath(options.adlgen), options.schedules)
    with tempfile.TemporaryDirectory() as scratch:
        mutants = collect(runner, all_kernels(runner.adlgen, scratch, options.kernel), options.wanted)
        chosen = choose(mutants, options)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda m: judge(runner, m), chosen))
    real, caught = table(mutants, results)
    if options.json:
        with open(options.json, "w") as f:
            json.dump([describe(*r) for r in results], f, indent=1)
    if options.missed:
        for r in results:
            if r[1] in ("output only", "missed"):
                print(json.dumps(describe(*r)))
    print(f"{caught} of {real} mutants caught ({100 * caught / max(real, 1):.1f} %), "
          f"{len([m for m in mutants.values() if m])} classes")
    slack = 1 if options.sample else 0
    return 0 if caught + slack >= 0.95 * real else 1


if __name__ == "__main__":
    sys.exit(main())
