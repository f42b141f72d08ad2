/* The PTX back end: a THREAD module as PTX text that a person can read.
 *
 * Every instruction is a row of rows.def; a row is taken by opcode, operand types and mode attributes, if the
 * GPU's description lists the instruction family it needs. Structured control becomes labels and branches,
 * register arrays become consecutive registers. The text depends on nothing but the module and the GPU.
 * Thread-safe. */
#pragma once
#include "adl/gpu.h"
#include "ir/ir.h"

/* PTX of every kernel of the module; g_free. ERROR_UNSUPPORTED "no-instruction" names an op and its types
 * that no row fits, "missing-family" an instruction family that the GPU lacks, "old-assembler" a PTX version
 * above the GPU's. */
char *ptx_emit(const IrModule *module, const Gpu *gpu, GError **error);

/* Checks rows.def itself: every THREAD opcode has a row, signatures, attributes and placeholders are
 * well-formed. NULL, or a message (g_free) that names the first bad row. */
char *ptx_check_rows(void);
