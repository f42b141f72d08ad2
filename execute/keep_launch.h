/* Launches on the simulator as files, for `adlgen sim` and for people. */
#pragma once
#include "base/output.h"
#include "generator/compile/compile.h"
#include "simulator/simulator.h"

/* Writes NAME.ptx, NAME.launch.json and NAME.BUFFER.bin for every buffer that has a value now, before the
 * launch; buffers without one are listed as outputs. ERROR_INPUT if a file cannot be written. */
bool keep_launch(Output *output, const char *name, const SimLaunch *launch, const CompiledKernel *kernel,
                 GError **error);
