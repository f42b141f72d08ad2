"""Many cases through `adlgen run --batch`, on several processes.

A case is a dict as a line of a batch (docs/cli.md). Those that compile the same kernels stay in one process, which so
compiles them once. A process that dies, hangs, or loses the GPU's context costs the case it was at; the rest of its
cases go on in another."""
import collections
import json
import queue
import subprocess
import tempfile
import threading
import time

CHUNK = 60  # cases a process


def key(case):
    return json.dumps([case["graph"], case["gpu"], case.get("set"), case.get("sms"), case.get("fixed") and case["dims"]],
                      sort_keys=True)


def chunks_of(cases):
    """Groups of cases that share kernels, packed into lists of about CHUNK."""
    groups = collections.OrderedDict()
    for case in cases:
        groups.setdefault(key(case), []).append(case)
    chunk = []
    for group in groups.values():
        for i in range(0, len(group), CHUNK):
            chunk += group[i:i + CHUNK]
            if len(chunk) >= CHUNK:
                yield chunk
                chunk = []
    if chunk:
        yield chunk


def explain(result):
    lines = [result["message"]] if result.get("message") else []
    lines += [f"fault {f['kind']}: {f['message']}" for f in result.get("faults", [])[:3] if f.get("severity") != "finding"]
    lines += [f"output {o['name']}: error {o['error']}, limit {o['limit']}, misplaced {o['misplaced']}, outliers {o['outliers']}"
              for o in result.get("outputs", []) if not o["ok"]]
    return "\n".join(lines) or "no reason given"


class Pool:
    """Runs chunks; results are (case, ok, why). Cases not begun at the deadline stay in `left`."""

    def __init__(self, context, wrap=None):
        self.context, self.wrap = context, wrap or []
        self.results, self.left, self.lock, self.work = [], [], threading.Lock(), queue.Queue()

    def add(self, case, ok, why):
        with self.lock:
            self.results.append((case, ok, why))
        self.context.log(case, ok, why)

    def command(self, path):
        return [*self.wrap, self.context.adlgen, "run", "--batch", path, "--on", self.context.on]

    def run_chunk(self, chunk):
        """Gives the cases that are still to be run."""
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for case in chunk:
                file.write(json.dumps({k: v for k, v in case.items() if not k.startswith("_")}) + "\n")
            file.flush()
            process = subprocess.Popen(self.command(file.name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, errors="replace")
            beat, done, end = [time.time()], [], threading.Event()

            def watch():
                while not end.wait(0.5):
                    if time.time() - beat[0] > self.context.timeout or time.time() > self.context.deadline:
                        process.kill()
            errors = []
            threads = [threading.Thread(target=watch, daemon=True),
                       threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)]
            for thread in threads:
                thread.start()
            lost = False
            for line in process.stdout:
                beat[0] = time.time()
                try:
                    result = json.loads(line)
                except json.JSONDecodeError:
                    continue
                case = chunk[len(done)]
                done.append(case)
                self.add(case, result["ok"], "" if result["ok"] else explain(result))
                lost = lost or result.get("context") == "lost"
            process.wait()
            end.set()
            threads[1].join(5)
        rest = chunk[len(done):]
        if rest and not lost and time.time() < self.context.deadline:
            tail = "".join(errors).strip()[-600:]
            why = "no answer in time" if process.returncode < 0 and not tail else f"exit {process.returncode}: {tail}"
            self.add(rest[0], False, why)
            rest = rest[1:]
        return rest

    def worker(self):
        while True:
            try:
                chunk = self.work.get_nowait()
            except queue.Empty:
                return
            while chunk and time.time() < self.context.deadline:
                chunk = self.run_chunk(chunk)
            with self.lock:
                self.left += chunk

    def run(self, cases):
        for chunk in chunks_of(cases):
            self.work.put(chunk)
        workers = [threading.Thread(target=self.worker) for _ in range(self.context.jobs)]
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join()
        return self.results


def run(context, cases):
    """(passed, failures, how many were not run); a failure is (label, why)."""
    pool = Pool(context)
    results = pool.run(cases)
    failures = [(case["label"], why) for case, ok, why in results if not ok]
    return len(results) - len(failures), failures, len(pool.left)
