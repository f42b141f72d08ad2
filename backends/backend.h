/* Back ends: each turns a THREAD module into the text of one language.
 *
 * A new one is a folder here and a row in backend.c; nothing outside of backends/ knows one by name. */
#pragma once
#include "adl/gpu.h"
#include "ir/ir.h"

typedef struct Backend {
  const char *name;   /* as a user names it */
  const char *suffix; /* of its files, without the dot */
  /* The text of every kernel of the module; g_free. Depends on nothing but module and GPU; thread-safe. Errors
   * are the back end's own (backends/ptx/ptx.h). */
  char *(*emit)(const IrModule *module, const Gpu *gpu, GError **error);
} Backend;

extern const Backend backends[]; /* ended by a NULL name; the first is the default */
