"""The bench's mini suite: every result is checked, and the times are printed."""
import json
import subprocess
import tempfile
import time

TITLE = "bench, mini suite"


def run(context):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        out = context.results or file.name
        words = [context.adlgen, "bench", "--suite", "mini", "--gpu", (context.gpus or ["h100"])[0], "--against",
                 "cublaslt", "--out", out, "--time-limit", str(max(5, int(context.deadline - time.time()) - 20))]
        result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        print("\n".join("  " + line for line in result.stdout.splitlines()))
        try:
            report = json.load(open(out))
        except (OSError, json.JSONDecodeError):
            return 0, [("bench", (result.stderr or result.stdout).strip()[-600:])], 0
    failures = [(f"bench {c['name']} {f['candidate']}", f["message"]) for c in report["cases"] for f in c["failures"]]
    checked = sum(1 for c in report["cases"] for x in c.get("candidates", []) if x.get("check", {}).get("ok"))
    return checked, failures, report["skipped"]
