#!/usr/bin/env python3
"""Every rule of a description has a witness: a changed value, and what must follow. witness.py ADLGEN [OPTION]...

witnesses.tsv says it, a witness a line, columns apart by tabs:

    rule      of `adlgen gpus rules`; each has one at least
    gpu       that the changed description extends
    graph     of this folder, of examples/ or a TILE text of tests/ir/kernels/, and options of `compile`; of `run` where results are compared; - for refusals
    change    PATH=VALUE & PATH=VALUE ...: the value of the rule, and what cannot stay as it is then
    beside    the same, changed in both descriptions that are compared, or -
    follows   ptx        another PTX text of a kernel, or other kernels
              plan       another plan.json: launch, guards, shared memory
              choice     other kernels or other guards
              clocks     other predicted clocks
              steady     the same, of ten times the value or a tenth, and no other choice: too little depends on it
              results    of a run on the simulator
              nothing    of these: what documents, and what is ignored
              refused CODE TEXT    by `gpus check`, or by `compile` where a graph is given: at a place of the changed file

What a rule does (its `effect`) must be what its witnesses show: EFFECTS below. Rules that are ignored are printed and
counted, with their reasons: nobody is to take them for more."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLLOWS = ("ptx", "plan", "choice", "clocks", "results", "steady", "nothing")
PARTS = FOLLOWS[:5] # of an outcome
# effect: the kinds of witnesses it needs, one of each group; and those that it may have besides.
EFFECTS = {
    "fixed": ([{"refused"}], set()),
    "drives": ([{"ptx", "plan", "choice"}], {"refused", "clocks", "results"}),
    "limits": ([{"ptx", "plan", "choice"}], {"refused"}),
    "prices": ([{"clocks"}, {"choice", "steady"}], {"refused", "ptx", "plan"}),
    "checks": ([{"refused"}], {"clocks"}),
    "simulates": ([{"results"}], set()),
    "documentation": ([{"nothing"}], set()),
    "ignored": ([{"nothing"}], set()),
}
MOST_DOCUMENTATION = 8

Witness = collections.namedtuple("Witness", "line rule gpu graph change beside follows code text")


def read_table(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != 6:
            sys.exit(f"{path}:{number}: {len(cells)} columns, not 6")
        kind, _, rest = cells[5].partition(" ")
        code, _, text = rest.partition(" ")
        if kind != "refused" and (kind not in FOLLOWS or rest) or kind == "refused" and not text:
            sys.exit(f"{path}:{number}: `{cells[5]}` is nothing that follows")
        yield Witness(number, *cells[:5], kind, code, text)


# ---- descriptions ----

def tree(changes):
    """{"limits": {"warp_size": "32"}} of "limits.warp_size=32 & ...", families and shapes in their places."""
    result = {}
    for change in changes.split(" & ") if changes != "-" else []:
        path, _, value = change.partition("=")
        node, words = result, path.split(".")
        for word in words[:-1]:
            node = node.setdefault(word, {})
        node[words[-1]] = value
    return result


def flow(node):
    return node if isinstance(node, str) else "{%s}" % ", ".join(f"{key}: {flow(value)}" for key, value in node.items())


def full_path(path, families):
    return "families." + path if path.split(".")[0] in families else path


def description(name, gpu, changes, families):
    lines = ["adl: 1", f"name: {name}", f"extends: {gpu}", 'source: "a witness"']
    parts = [change.partition("=") for text in changes if text != "-" for change in text.split(" & ")]
    whole = tree(" & ".join(f"{full_path(path, families)}={value}" for path, _, value in parts) or "-")
    return "\n".join(lines + [f"{key}: {flow(value)}" for key, value in whole.items()]) + "\n"


# ---- what comes out ----

class Outcome:
    """What one description gives for one graph: kernels, plan, clocks, or a refusal."""

    def __init__(self):
        self.ptx, self.plan, self.choice, self.clocks, self.results, self.fault = {}, None, None, [], None, None

    def of(self, kind):
        return getattr(self, kind)

    def everything(self):
        return self.ptx, self.plan, self.clocks, self.results


def variants(plan):
    launches = plan["launches"]
    return [[(v["kernel"], v.get("guard")) for v in launches[launch.get("like", i)]["variants"]]
            for i, launch in enumerate(launches)]


def read_outcome(folder, name, explained):
    outcome = Outcome()
    for file in sorted((folder / name).glob("*.ptx")):
        outcome.ptx[file.name] = file.read_text()
    if not (folder / name / "plan.json").exists(): # TILE text has none
        return outcome
    plan = json.loads((folder / name / "plan.json").read_text())
    del plan["gpu"]
    outcome.plan, outcome.choice = plan, variants(plan)
    section = re.search(rf"^{name}:\n((?:[ ].*\n|\n)*?(?:\S+\n(?:[ ].*\n|\n)+)*)", explained, re.MULTILINE)
    outcome.clocks = re.findall(r"(\d+) clocks", section.group(1) if section else "")
    return outcome


def command(adlgen, words, folder):
    environment = dict(os.environ, HOME=str(folder), XDG_DATA_HOME=str(folder), XDG_CACHE_HOME=str(folder))
    environment.pop("ADLGEN_DATA_DIR", None)
    return subprocess.run([adlgen, *words], capture_output=True, text=True, cwd=folder, env=environment, timeout=300)


def graph_words(graph):
    name, *options = graph.split()
    for place in (HERE, ROOT / "examples", ROOT / "tests/ir/kernels"):
        for suffix in (".json", ".yaml", ".tile.ir"):
            if (place / (name + suffix)).exists():
                return [str(place / (name + suffix)), *options]
    sys.exit(f"there is no graph {name}")


def compile_all(adlgen, folder, graph, names):
    """{name: Outcome} of several descriptions, in one process; one by one where one is refused."""
    out = folder / ("out-" + names[0])
    file, *options = graph_words(graph)
    words = ["compile", file, *options, "--gpu", ",".join(f"{name}.yaml" for name in names), "--out", str(out),
             "--emit", "ptx", "--no-cache"]
    words += [] if file.endswith(".ir") else ["--no-tuned", "--explain", "--jobs", "1"]
    done = command(adlgen, words, folder)
    if done.returncode == 0:
        return {name: read_outcome(out, name, done.stdout + "\n") for name in names}
    if len(names) > 1:
        return {name: compile_all(adlgen, folder, graph, [name])[name] for name in names}
    outcome = Outcome()
    outcome.fault = done.stderr
    return {names[0]: outcome}


def run_all(adlgen, folder, graph, names):
    result = {}
    for name in names:
        out = folder / ("run-" + name)
        done = command(adlgen, ["run", *graph_words(graph), "--gpu", f"{name}.yaml", "--on", "sim", "--no-tuned", "--out",
                                str(out)], folder)
        outcome = result[name] = Outcome()
        outcome.fault = done.stderr if done.returncode else None
        outcome.results = (out / "outputs.safetensors").read_bytes() if done.returncode == 0 else None
    return result


# ---- judging ----

def refusals(adlgen, folder, witnesses):
    """{line: errors} of `gpus check` on the descriptions of witnesses."""
    names = [f"w{w.line}.yaml" for w in witnesses]
    done = command(adlgen, ["gpus", "check", *names, "--json"], folder)
    return {w.line: file["errors"] for w, file in zip(witnesses, json.loads(done.stdout)["files"])} if names else {}


def refusal_fault(witness, errors):
    own = [e for e in errors if e["severity"] == "error" and e["file"] == f"w{witness.line}.yaml"]
    for error in own:
        if error["code"] == witness.code and witness.text in error["message"] + " " + (error["hint"] or ""):
            return None
    told = "; ".join(f"{e['file']}:{e['line']}: {e['message']} ({e['hint']}) [{e['code']}]" for e in errors) or "nothing"
    return f"is not refused by {witness.code} with `{witness.text}`, but: {told}"


def change_fault(witness, before, after):
    if before.fault or after.fault:
        return "does not compile: " + (before.fault or after.fault).strip()
    if witness.follows == "steady":
        moved = before.clocks != after.clocks
        return None if moved and before.choice == after.choice else "changes the choice" if moved else "changes no clocks"
    if witness.follows != "nothing":
        return None if before.of(witness.follows) != after.of(witness.follows) else f"changes no {witness.follows}"
    if before.everything() == after.everything():
        return None
    differing = [kind for kind in PARTS if before.of(kind) != after.of(kind)]
    return "is said to do nothing, but changes " + ", ".join(differing)


def compile_fault(witness, outcome):
    if outcome.fault is None:
        return "is accepted"
    told = outcome.fault.strip()
    return None if witness.text in told and f"[{witness.code}]" in told else f"is refused otherwise: {told}"


def judge_graph(adlgen, folder, graph, witnesses, baselines):
    """(witness, fault or None) of all that compile one graph."""
    names = [f"w{w.line}" for w in witnesses] + sorted({baselines[w.line] for w in witnesses})
    results = [w.follows == "results" for w in witnesses]
    outcomes = (run_all if any(results) else compile_all)(adlgen, folder, graph, names)
    for w in witnesses:
        after = outcomes[f"w{w.line}"]
        yield w, compile_fault(w, after) if w.follows == "refused" else change_fault(w, outcomes[baselines[w.line]], after)


def judge(adlgen, folder, witnesses, families, jobs):
    baselines, known = {}, {}
    for w in witnesses:
        (folder / f"w{w.line}.yaml").write_text(description(f"w{w.line}", w.gpu, [w.change, w.beside], families))
        name = known.setdefault((w.gpu, w.beside), f"base{w.line}")
        (folder / f"{name}.yaml").write_text(description(name, w.gpu, [w.beside], families))
        baselines[w.line] = name
    checked = [w for w in witnesses if w.follows == "refused" and w.graph == "-"]
    errors = refusals(adlgen, folder, checked)
    yield from ((w, refusal_fault(w, errors[w.line])) for w in checked)
    groups = collections.defaultdict(list)
    for w in witnesses:
        if w not in checked:
            groups[w.graph, w.follows == "results", w.gpu].append(w)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        work = [pool.submit(lambda k=key, g=group: list(judge_graph(adlgen, folder, k[0], g, baselines)))
                for key, group in groups.items()]
        for part in work:
            yield from part.result()


# ---- the table as a whole ----

def own_rule(witness, families):
    """The rule that the first change of a witness is of."""
    path = witness.change.split(" & ")[0].partition("=")[0]
    if path in families:
        return "families." + path
    return "shape." + path.split(".")[-1] if ".shapes." in path else path


def table_faults(rules, witnesses, families):
    kinds = collections.defaultdict(set)
    for w in witnesses:
        if w.rule not in rules:
            yield f"line {w.line}: there is no rule {w.rule}"
        elif own_rule(w, families) != w.rule:
            yield f"line {w.line}: its change is not of {w.rule}"
        kinds[w.rule].add(w.follows)
    for path, rule in rules.items():
        needed, besides = EFFECTS[rule["effect"]]
        if not kinds[path]:
            yield f"{path}: has no witness"
            continue
        for group in needed:
            if not group & kinds[path]:
                yield f"{path}: {rule['effect']}, but no witness shows {' or '.join(sorted(group))}"
        for kind in kinds[path] - besides - set().union(*needed):
            yield f"{path}: {rule['effect']}, but a witness shows {kind}"
    documentation = [path for path, rule in rules.items() if rule["effect"] == "documentation"]
    if len(documentation) > MOST_DOCUMENTATION:
        yield f"{len(documentation)} rules are documentation, at most {MOST_DOCUMENTATION} may be: {', '.join(documentation)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adlgen")
    parser.add_argument("--rule", help="witnesses of one rule, or of those that begin so, alone")
    parser.add_argument("--every", type=int, default=1, help="every so manieth witness alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    adlgen = os.path.abspath(options.adlgen)
    listed = json.loads(subprocess.run([adlgen, "gpus", "rules", "--json"], check=True, capture_output=True).stdout)["rules"]
    rules = {rule["path"]: rule for rule in listed}
    families = {path.split(".")[1] for path in rules if path.startswith("families.")}
    witnesses = list(read_table(HERE / "witnesses.tsv"))
    faults = list(table_faults(rules, witnesses, families))
    chosen = [w for w in witnesses if not options.rule or w.rule.startswith(options.rule)][::options.every]
    with tempfile.TemporaryDirectory() as folder:
        for w, fault in judge(adlgen, pathlib.Path(folder), chosen, families, options.jobs):
            if fault:
                faults.append(f"witnesses.tsv:{w.line}: {w.rule}, {w.change.split(' & ')[0]} on {w.gpu}: {fault}")
    ignored = [f"{path} ({rule['what']})" for path, rule in rules.items() if rule["effect"] == "ignored"]
    print(f"ignored, {len(ignored)}: " + "; ".join(ignored))
    steady = [w.rule for w in witnesses if w.follows == "steady"]
    print(f"priced, but too little to move a choice, {len(steady)}: " + ", ".join(steady))
    print("\n".join(faults))
    print(f"{len(rules)} rules, {len(chosen)} of {len(witnesses)} witnesses tried, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
