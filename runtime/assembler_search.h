/* Where the assembler may be. Private to runtime/. */
#pragma once
#include "runtime/assembler.h"

/* Places in the order of preference, each marked whether it holds a program (AssemblerPlace *, owned). A
 * folder that is searched by a pattern and holds none gives one entry with the pattern. `all`: those too
 * that stand behind one that holds a program; searching Python's folders takes half a millisecond. */
GPtrArray *assembler_places(const char *explicit_path, const char *near, bool all);
/* true for a place the user named expressly: if it holds nothing, that is an error rather than a reason to go
 * on. */
bool assembler_place_binds(const AssemblerPlace *place);
