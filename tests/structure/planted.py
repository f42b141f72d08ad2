#!/usr/bin/env python3
"""Does check.py find what was planted? planted.py CHECK

A tree of a few files for each check. For `numbers` one with numbers that no list names, in every way that C spells them, and
one with numbers that its list names, that are small, or that are no numbers at all; for `families` one that asks in every way
which family an operator is of, and one of the family's own; for `synchronisation` passes that name it and do not say so; for `model` a constant that nobody asks for. The check must report the first, an entry that is out of date,
and nothing else."""
import pathlib
import subprocess
import sys
import tempfile

NUMBERS = {
    "generator/choose/planted.c": """#define MOST_ROWS 4096
#define WIDE      (2 * 0x80)
static const unsigned sides[][2] = {{1, 2}, {3, 48}};
bool pays(double clocks) { return clocks * 1.05 < 1e3 && sides[0][1] == 17u; }
""",
    "generator/choose/listed.c": """/* 1000 of them in a comment, "4711" in a text */
#define NAMED 100
static const unsigned table[] = {5,
                                 6};
const char *text = "4711"; char letter = '\\x41';
int small = 4, half = 0.5 * 2, v128 = x64[3];
""",
    "ir/lower/elsewhere.c": "int outside_of_the_folders = 12345;\n",
    "tests/structure/numbers.txt": "# comment\ngenerator/choose/listed.c\tNAMED table GONE\twhy\n",
}
NUMBERS_WANTED = [("generator/choose/planted.c", 1, "4096"), ("generator/choose/planted.c", 2, "0x80"), ("generator/choose/planted.c", 3, "48"),
          ("generator/choose/planted.c", 4, "1.05"), ("generator/choose/planted.c", 4, "1e3"), ("generator/choose/planted.c", 4, "17u"),
          ("tests/structure/numbers.txt", 2, "generator/choose/listed.c has no GONE any more")]

FAMILIES = {
    "generator/fusion/planted.c": """#include "generator/program/family.h"
bool a(const FusedOperator *op) { return op->family->index == 1; }
bool b(const FusedOperator *op) { return op->family == family_at(0); }
bool c(const FusedOperator *op) { return !strcmp(op->family->name, "gemm"); }
int d(const FusedOperator *op) { switch (op->family->index) { default: return 0; } }
bool e(const FusedOperator *op) { return gemm_has_several(gemm_of(op)); }
bool f(const Family *family) { return family_at(0) == family; }
const char *g(const FusedOperator *op) { return op->family->name; }
bool h(const FusedOperator *op) { return op->family->measured && table[op->family->index](op); }
""",
    "generator/choose/gemm_own.c": "bool pair(const FusedOperator *op) { return gemm_has_several(gemm_of(op)); }\n",
    "generator/choose/row.c": "bool pair(const FusedOperator *op) { return gemm_has_several(gemm_of(op)); }\n",
}
ASKS = "asks which family an operator is of"
FAMILIES_WANTED = [("generator/fusion/planted.c", line, ASKS) for line in (2, 3, 4, 5, 7)] + [
    ("generator/fusion/planted.c", 6, "reads the binding of family gemm: gemm_of"),
    ("generator/choose/row.c", 1, "reads the binding of family gemm: gemm_of")]

BYTES = {
    "ir/planted.c": "/* number_bytes(type) in a comment */\nunsigned f(NumberType t) { return 3 * number_bytes(t); }\n",
    "ir/grown.c": "unsigned f(NumberType t) { return number_bytes(t); }\nunsigned g(NumberType t) { return number_bytes(t); }\n",
    "ir/listed.c": "unsigned f(NumberType t) { return number_bytes(t); }\nunsigned g(NumberType t) { return number_bytes_of(t, 2); }\n",
    "ir/fewer.c": "unsigned f(NumberType t) { return number_bytes(t); }\n",
    "base/number.c": "unsigned number_bytes(NumberType t) { return 1; }\n",
    "tests/structure/element_bytes.txt": "# comment\nir/grown.c\t1\twhy\nir/listed.c\t1\twhy\nir/fewer.c\t2\twhy\nir/gone.c\t1\twhy\n",
}
BYTES_WANTED = [("ir/planted.c", 2, "asks 1 times"), ("ir/grown.c", 2, "asks 2 times"),
                ("tests/structure/element_bytes.txt", 4, "ir/fewer.c asks 1 times, not 2"),
                ("tests/structure/element_bytes.txt", 5, "ir/gone.c asks no more")]

SYNCHRONISATION = {
    "ir/opcodes.def": 'OP(SYNC, "sync", SH, 0, "", "S", "id", "", "", "")\nOP(FENCE, "fence", SH, 0, "n:a|b", "S", "", "", "", "")\n'
                      'OP(COMMIT, "commit", SH, 0, "", "S", "", "", "", "")\nOP(COMBINE, "combine", TS, 1, "e", "S", "", "", "", "")\n',
    "ir/passes/planted.c": "/* OP_SYNC in a comment */\nvoid f(IrBuilder *builder) { ir_emit(builder, OP_SYNC, 0); }\n",
    "ir/passes/asks.c": "bool g(const IrOp *op) { return op->code == OP_FENCE || op->code == OP_COMBINE; }\n",
    "ir/passes/more.c": "bool g(const IrOp *op) { return op->code == OP_FENCE ||\n op->code == OP_SYNC; }\n",
    "ir/passes/orders.c": "void i(IrBuilder *b)\n{\n  ir_emit(b, OP_FENCE, 1, ir_name(m, \"schedule\"));\n}\n",
    "ir/passes/fences.c": "void i(IrBuilder *b)\n{\n  ir_emit(b, OP_FENCE, 1, ir_name(m, \"products\"));\n}\n",
    "ir/passes/grown.c": "bool h(const IrOp *op) { return op->code == OP_FENCE; }\nvoid i(IrBuilder *b)\n{\n  ir_emit(b,\n          OP_COMMIT, 0);\n}\n",
    "ir/passes/fewer.c": "bool h(const IrOp *op) { return op->code == OP_FENCE; }\n",
    "tests/structure/synchronisation.txt": "# comment\nir/passes/asks.c\tasks\tFENCE\twhy\nir/passes/grown.c\tasks\tFENCE COMMIT\twhy\n"
                                           "ir/passes/fewer.c\twrites\tFENCE SYNC\twhy\nir/passes/gone.c\tmoves\tSYNC\twhy\n"
                                           "ir/passes/more.c\tasks\tFENCE\twhy\nir/passes/orders.c\torders\tFENCE\twhy\n"
                                           "ir/passes/fences.c\torders\tFENCE\twhy\n",
}
LISTED = "tests/structure/synchronisation.txt"
SYNCHRONISATION_WANTED = [
    ("ir/passes/grown.c", 4, "writes synchronisation"), ("ir/passes/planted.c", 2, "OP_SYNC"),
    ("ir/passes/more.c", 2, "OP_SYNC, which"), ("ir/passes/fences.c", 3, "writes synchronisation"),
    (LISTED, 4, "ir/passes/fewer.c names OP_SYNC no more"), (LISTED, 4, "ir/passes/fewer.c writes no"),
    (LISTED, 5, "ir/passes/gone.c names no")]


MODEL = {
    "adl/model.def": 'MODEL(COUNT, by_c, "rows")\nMODEL(COUNT, by_text, "rows")\nMODEL(COUNT, unused, "rows")\n',
    "generator/choose/asks.c": "int f(const Gpu *gpu) { return gpu->model->by_c; }\n",
    "templates/asks.ir": "try {\n  rows = model.by_text\n}\n",
    "docs/adl.md": "model.unused\n",
}
MODEL_WANTED = [("adl/model.def", 3, "nobody asks for unused")]

ARENAS = {
    "generator/kernel/planted.c": "int f(Program *program) { return arena(program->arena); }\nint g(const FusedOperator *op) { return arena(op->program->arena); }\n"
                                  "int h(KernelBuild *build) { return arena(build->expressions); }\n",
    "generator/program/made.c": "int f(Program *program) { return arena(program->arena); }\n",
}
ARENAS_WANTED = [("generator/kernel/planted.c", 1, "allocates"), ("generator/kernel/planted.c", 2, "allocates")]


def check(name, files, faults):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for file, text in files.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text)
        subprocess.run(["git", "init", "-q", root], check=True)
        run = subprocess.run([sys.executable, sys.argv[1], root, name], capture_output=True, text=True)
        found = sorted(line for line in run.stdout.splitlines())
        wanted = sorted(f"{file}:{line}: {what}" for file, line, what in faults)
        same = len(found) == len(wanted) and all(line.startswith(start) for line, start in zip(found, wanted))
        if run.returncode != 1 or not same:
            sys.exit(f"check.py {name} ended with {run.returncode} and found\n{run.stdout}{run.stderr}wanted\n" + "\n".join(wanted))


check("numbers", NUMBERS, NUMBERS_WANTED)
check("bytes", BYTES, BYTES_WANTED)
check("families", FAMILIES, FAMILIES_WANTED)
check("synchronisation", SYNCHRONISATION, SYNCHRONISATION_WANTED)
check("model", MODEL, MODEL_WANTED)
check("arenas", ARENAS, ARENAS_WANTED)
