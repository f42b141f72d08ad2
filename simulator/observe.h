/* Watching instructions as they run. An observed instruction has its handler replaced by one that looks first
 * and then calls the old one, so instructions nobody watches cost nothing. */
#pragma once
#include "simulator/machine.h"

typedef struct AccessCount {
  uint64_t executions, wavefronts, least_wavefronts, sectors, least_sectors; /* atomic */
} AccessCount;

struct Observed {
  Handler run;         /* the handler itself */
  AccessCount *access; /* NULL: not counted */
  bool stops;
  unsigned which; /* break */
};

typedef struct Stops Stops;

/* Sets up what the options ask for, before the first schedule. gpu: not NULL with options->counts.
 * ERROR_USAGE for breaks and watches that do not fit the kernel. */
bool observe_begin(Run *run, Kernel *kernel, const Gpu *gpu, GError **error);
/* Moves what was seen into the result. */
void observe_end(Run *run);

/* stops.c */
Stops *stops_new(const Run *run, const Kernel *kernel, GError **error);
void stops_free(Stops *stops);
int stops_find(const Stops *stops, const Inst *in); /* the break of an instruction, -1: none */
void stops_see(Stops *stops, unsigned which, Warp *w, const Inst *in, uint32_t mask);
void stops_result(const Stops *stops, SimResult *result);

/* counts.c */
bool counts_apply(const Inst *in); /* an access that is counted lane by lane */
void counts_see(AccessCount *count, Warp *w, const Inst *in, uint32_t mask);
void counts_result(const Run *run, SimResult *result);
