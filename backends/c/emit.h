/* --emit c: a plan as one C source and header with the cubins inside, that needs only the CUDA driver. */
#pragma once
#include "plan/plan.h"

/* A name as a C identifier: other characters become '_', keywords and leading digits get one too; g_free. */
char *emit_c_identifier(const char *name);
/* Of all that is visible outside and of the files' names: graph and GPU, so that one program may link the C for
 * several GPUs; g_free. */
char *emit_c_prefix(const Plan *plan);
char *emit_c_header(const Plan *plan); /* g_free */
/* cubin gives the machine code of a kernel by its name; the caller keeps it. g_free the text. */
char *emit_c_source(const Plan *plan, GBytes *(*cubin)(const char *kernel, void *data), void *data);
