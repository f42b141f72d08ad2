/* The opcode lists at the end of docs/ir.md, printed from the tables. */
#pragma once

char *ir_opcode_document(void); /* markdown; g_free */
