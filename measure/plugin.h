/* Peers in shared libraries (include/adlgen/peer.h): found, opened and checked here, and made candidates. */
#pragma once
#include "measure/bench.h"

typedef struct BenchPlugin BenchPlugin;

/* Opens a library; needs no GPU. ERROR_MISSING_TOOL "no-plugin": it cannot be opened; ERROR_INPUT
 * "bad-plugin": it is none, or made for another version of the interface. */
BenchPlugin *bench_plugin_open(const char *path, GError **error);
/* Releases what it holds on the device; the library itself stays loaded, as the driver does. */
void bench_plugin_close(BenchPlugin *plugin);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchPlugin, bench_plugin_close)

const char *bench_plugin_name(const BenchPlugin *plugin);    /* "cutlass" */
const char *bench_plugin_library(const BenchPlugin *plugin); /* "CUTLASS 4.7.0" */
const char *bench_plugin_path(const BenchPlugin *plugin);

/* How many variants it has for the case. 0 with ERROR_UNSUPPORTED "no-variant" if none. */
unsigned bench_plugin_count(const BenchPlugin *plugin, BenchGpu *gpu, const BenchCase *c, GError **error);
/* "PLUGIN:VARIANT", as bench_plugin_candidate() names it; `index` below the count. g_free. */
char *bench_plugin_variant_name(const BenchPlugin *plugin, BenchGpu *gpu, const BenchCase *c, unsigned index);
/* Variant `index` of the case, ready for every set of the tensors; named "PLUGIN:VARIANT".
 * ERROR_UNSUPPORTED "plugin-failed" with the library's own words. */
BenchCandidate *bench_plugin_candidate(BenchPlugin *plugin, unsigned index, const BenchTensors *tensors,
                                       GError **error);
