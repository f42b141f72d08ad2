"""Completion as a person types it: complete_typed.py BASH-SCRIPT. A bash in a terminal gets each line and a TAB; what it
shows then must be the completed line. bash puts backslashes where its rules want them, which no script alone shows."""
import os
import pty
import select
import sys
import time

SECONDS = 30
LINES = [("adlgen compile --set ping", "adlgen compile --set pingpong="),
         ("adlgen compile --set bm=64,swap", "adlgen compile --set bm=64,swapped="),
         ("adlgen compile --emit=ir,cub", "adlgen compile --emit=ir,cubin "),
         ("adlgen compile gr", "adlgen compile graph.json "),
         ("adlgen compile --out fol", "adlgen compile --out folder/")]


def wait_for(terminal, text):
    """What the terminal shows up to the text, or None if it does not in time."""
    shown, end = "", time.monotonic() + SECONDS
    while text not in shown:
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            return None
        shown += os.read(terminal, 4096).decode(errors="replace").replace("\a", "")
    return shown


def main():
    script = os.path.realpath(sys.argv[1])
    child, terminal = pty.fork()
    if not child:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**os.environ, "PS1": "> ", "TERM": "dumb", "HISTFILE": ""})
    os.write(terminal, f"stty cols 200; source {script}; echo re''ady\n".encode())
    failed = wait_for(terminal, "ready") is None
    for typed, wanted in LINES if not failed else ():
        os.write(terminal, typed.encode() + b"\t")
        if wait_for(terminal, wanted) is None:
            print(f"{typed}<TAB> does not become {wanted}")
            failed = True
            break
        os.write(terminal, b"\x15")  # takes the line back
    os.write(terminal, b"\x15exit\n")
    os.close(terminal)
    os.waitpid(child, 0)
    return failed


sys.exit(main())
