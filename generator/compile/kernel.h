/* Between compile*.c only. */
#pragma once
#include "generator/compile/compile.h"
#include "ir/ir.h"

/* Runs the passes on a module, with the GPU's mechanisms (mechanisms_read(), NULL: to be read), and emits it; fills in the kernel, whose names are there. remarks (may be NULL)
 * gets what the passes have to say. Thread-safe for modules that share nothing that changes. */
bool compile_kernel(CompiledKernel *kernel, IrModule *module, const Gpu *gpu, const char *start_after,
                    const CompileOptions *options, const struct Mechanism *mechanisms, GString *remarks,
                    GError **error);
