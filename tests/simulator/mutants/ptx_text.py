"""PTX text as a list of instructions with their places, so that one can be replaced without moving a line."""
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Instruction:
    index: int
    line: int  # of the opcode, 1-based
    last: int  # of the semicolon
    start: int  # of guard or opcode in the text
    end: int  # behind the semicolon
    guard: str  # "@%p1", "@!%p1" or ""
    op: str
    args: str

    @property
    def lines(self):
        return set(range(self.line, self.last + 1))

    def text(self, guard=None, op=None, args=None):
        words = (self.guard if guard is None else guard, self.op if op is None else op, self.args if args is None else args)
        return " ".join(w for w in words if w) + ";"

    def operands(self):
        """Split at commas outside of brackets."""
        out, depth, at = [], 0, 0
        for i, c in enumerate(self.args):
            depth += (c in "[{(") - (c in "]})")
            if c == "," and not depth:
                out.append(self.args[at:i].strip())
                at = i + 1
        return out + [self.args[at:].strip()] if self.args else []


class Kernel:
    def __init__(self, name, text, launch, folder):
        self.name, self.text, self.launch, self.folder = name, text, launch, folder
        self.instructions, self.labels = instructions(text)

    def find(self, pattern):
        expression = re.compile(pattern)
        return [i for i in self.instructions if expression.match(i.op)]

    def labels_at(self, index):
        return [name for name, at in self.labels.items() if at == index]

    def behind(self, index):
        """Indices of the instructions that may run after the one at index."""
        seen, open_ = set(), [index + 1]
        while open_:
            i = open_.pop()
            if i in seen or i >= len(self.instructions):
                continue
            seen.add(i)
            here = self.instructions[i]
            if here.op.split(".")[0] == "bra" and here.args in self.labels:
                open_.append(self.labels[here.args])
            if here.guard or here.op.split(".")[0] not in ("bra", "ret", "exit"):
                open_.append(i + 1)
        return seen

    def flow(self, instruction):
        """Lines of the instructions that depend through registers on what this one writes."""
        if not instruction.args or instruction.op.startswith(("st", "bra", "bar", "red", "ret")):
            return set()
        registers, lines = set(re.findall(r"%\w+", instruction.operands()[0])), set()
        while True:
            before = len(registers), len(lines)
            for i in self.instructions:
                used = set(re.findall(r"%\w+", i.guard + " " + i.args))
                if used & registers:
                    lines |= i.lines
                    if i.args and not i.op.startswith(("st", "bra", "bar", "red", "ret", "cp")):
                        registers |= set(re.findall(r"%\w+", i.operands()[0]))
            if (len(registers), len(lines)) == before:
                return lines

    def replaced(self, changes):
        """The text with each (instruction, new text) done; every other instruction keeps its line."""
        text = self.text
        for instruction, new in sorted(changes, key=lambda c: -c[0].start):
            lines = text.count("\n", instruction.start, instruction.end)
            text = text[:instruction.start] + new + "\n" * (lines - new.count("\n")) + text[instruction.end:]
        return text


def instructions(text):
    """The instructions of the first function and its labels (name -> index of what follows)."""
    blank = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    at, found, labels = re.search(r"^\s*\{", blank, flags=re.M).end(), [], {}
    for m in re.finditer(r"[^;]*;", blank[at:]):
        piece, begin = m[0], at + m.start()
        head = re.match(r"(\s*([\w$]+:|\{|\})(?![\w:]))*\s*", piece)
        for label in re.findall(r"([\w$]+):", head[0]):
            labels[label] = len(found)
        skip = head.end()
        words = re.match(r"(@!?%\w+)?\s*([a-z][\w.:]*)\s*(.*);$", piece[skip:], flags=re.S)
        if not words:
            continue
        opcode = begin + skip + words.start(2)
        found.append(Instruction(len(found), text.count("\n", 0, opcode) + 1, text.count("\n", 0, at + m.end()) + 1,
                                 begin + skip, at + m.end(), words[1] or "", words[2], " ".join(words[3].split())))
    return found, labels
