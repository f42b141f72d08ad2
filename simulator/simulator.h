/* The simulator: runs PTX text on the CPU and reports every fault it sees.
 *
 * A module is immutable and may be run from several threads at once; a launch and a result belong to one
 * thread. Nothing here prints. Errors in what the caller gave (PTX text, launch) come as GError; faults of
 * the kernel come in the result. */
#pragma once
#include "adl/gpu.h"
#include "base/diagnostic.h"
#include "base/number.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct PtxModule SimModule;

/* Reads PTX. ERROR_INPUT for malformed text. What instructions mean is checked by sim_run or sim_check. */
SimModule *sim_module_parse(Source *source, GError **error);
void sim_module_free(SimModule *module);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimModule, sim_module_free)
/* Decodes every instruction of an entry (NULL: all entries): ERROR_UNSUPPORTED lists the unknown ones. */
bool sim_module_check(const SimModule *module, const char *entry, GError **error);

/* Something of the launch that a buffer holds: the address of a buffer (8 bytes), or a tensor map (128). It is
 * written into the data when the launch runs. */
typedef struct SimReference {
  uint64_t at; /* byte of the buffer that holds it */
  bool tensormap;
  unsigned index;  /* of the buffer or tensor map */
  uint64_t offset; /* added to the buffer's address */
} SimReference;

/* Which bytes of a buffer have a value at the end: those of an output that have none are a finding, with strict rules a
 * fault, unless it is said that launches write a part, and a fault if it is said that they write it whole. */
typedef enum { SIM_WRITTEN_UNSAID, SIM_WRITTEN_PART, SIM_WRITTEN_WHOLE } SimWritten;

#define SIM_DEFINED_BYTES(bytes) (((bytes) / 64 + 2) * sizeof(uint64_t)) /* of SimBuffer.defined */

/* Memory of the device. data is used in place: outputs appear in it. */
typedef struct SimBuffer {
  const char *name;
  void *data;
  uint64_t bytes;
  uint64_t offset; /* added to a 256-byte aligned address: for unaligned pointers */
  bool undefined;  /* nothing written yet: reading it and using the value is a fault */
  bool output;     /* what it holds at the end is wanted */
  SimWritten written;
  /* A bit for each byte that has been written, SIM_DEFINED_BYTES in all: which they are before, and brought
   * up to date. The caller's. NULL: all bytes, or with `undefined` none. */
  uint64_t *defined;
  bool carries; /* a value nobody has written may be stored here: then those bytes have none either */
  SimReference *references;
  unsigned n_references;
} SimBuffer;

typedef struct SimTensorMap {
  const char *name;
  unsigned buffer; /* index */
  uint64_t buffer_offset;
  NumberType type; /* element */
  unsigned rank;
  uint64_t dims[5], strides[4]; /* innermost first; strides in bytes of dimensions 1.. */
  uint32_t box[5], element_strides[5];
  unsigned swizzle; /* bytes: 0, 32, 64, 128 */
  bool fill_nan;
  bool ftz; /* of f32 and tf32: reductions flush subnormals to zero */
} SimTensorMap;

typedef enum { SIM_ARG_BUFFER, SIM_ARG_TENSORMAP, SIM_ARG_BYTES } SimArgumentKind;
typedef struct SimArgument {
  SimArgumentKind kind;
  unsigned index;      /* buffer or tensor map */
  uint64_t offset;     /* SIM_ARG_BUFFER: bytes added to its address */
  uint8_t bytes[4096]; /* SIM_ARG_BYTES: little-endian value */
  unsigned n_bytes;
} SimArgument;

typedef struct SimLaunch {
  const char *entry; /* NULL: the only entry of the module */
  unsigned grid[3], block[3], cluster[3];
  uint64_t shared;    /* dynamic shared memory, bytes */
  unsigned registers; /* per thread at entry, 0: unknown */
  SimBuffer *buffers;
  unsigned n_buffers;
  SimTensorMap *tensormaps;
  unsigned n_tensormaps;
  SimArgument *arguments;
  unsigned n_arguments;
} SimLaunch;

/* A launch in a list, and what it waits for. dependent: it may start when every block of that one has allowed
 * it or ended (programmatic dependent launch); else when that one has ended. */
typedef struct SimEdge {
  unsigned launch; /* index of an earlier one */
  bool dependent;
} SimEdge;

typedef struct SimStep {
  const char *name;
  const SimModule *module;
  const SimLaunch *launch;
  const SimEdge *after; /* empty: it may overlap with everything before */
  unsigned n_after;
} SimStep;

/* X(ENUM, "name", checker) */
#define SIM_FAULTS(X)                                                                                        \
  X(BOUNDS, "bounds")           /* access outside every buffer, variable or window */                        \
  X(ALIGNMENT, "alignment")     /* address not a multiple of what the instruction needs */                   \
  X(UNDEFINED, "undefined")     /* a value nobody wrote decides an address, a branch or an output */         \
  X(RACE, "race")               /* two unordered accesses to the same bytes */                               \
  X(PROXY, "proxy")             /* ordered, but without the fence between generic and async proxy */         \
  X(PROXY_WAR, "proxy-war")     /* generic read, then an async refill, without a proxy fence */              \
  X(WGMMA, "wgmma")             /* operands or accumulators of a product in flight touched */                \
  X(MBARRIER, "mbarrier")       /* misuse of an mbarrier */                                                  \
  X(BULK, "bulk")               /* misuse of bulk copies and their groups */                                 \
  X(CLUSTER, "cluster")         /* a peer's shared memory touched before it lives or after it died */        \
  X(BARRIER, "barrier")         /* barrier reached by the wrong number of threads */                         \
  X(DEADLOCK, "deadlock")       /* nobody can go on */                                                       \
  X(REGISTERS, "registers")     /* setmaxnreg beyond the pool */                                             \
  X(CONVERGENCE, "convergence") /* lanes missing at an instruction that needs them all */                    \
  X(TRAP, "trap")               /* the kernel trapped */                                                     \
  X(LIMIT, "limit")             /* instruction or time limit reached */                                      \
  X(OPERAND, "operand")         /* an operand whose value the instruction forbids */                         \
  X(BANK, "bank-conflict")      /* with counts: lanes of an access meet in a bank of shared memory */        \
  X(SECTOR, "uncoalesced")      /* with counts: an access moves more sectors than its bytes need */

typedef enum {
#define X(id, name) SIM_FAULT_##id,
  SIM_FAULTS(X)
#undef X
      SIM_FAULT_COUNT
} SimFaultKind;

const char *sim_fault_name(SimFaultKind kind);

typedef struct SimFault {
  SimFaultKind kind;
  bool finding; /* worth knowing, not wrong */
  char *message, *instruction;
  unsigned line, column; /* in the PTX text; 0: none */
  unsigned block[3], warp, lane;
  uint64_t address;
  unsigned other_line, other_block[3], other_warp; /* the other party; other_line 0: none */
  char *file, *other_file;                         /* names of the PTX texts */
  char *launch, *other_launch;                     /* names of the steps, NULL: a launch by itself */
  uint64_t count;                                  /* occurrences */
} SimFault;

typedef enum {
  SIM_LAND_EARLY, /* asynchronous operations happen at their issue */
  SIM_LAND_LATE,  /* ... at the last moment that is allowed */
  SIM_LAND_RANDOM,
} SimLanding;

/* How matrix products accumulate. */
typedef enum {
  SIM_ARITHMETIC_HARDWARE, /* as the description of the executing GPU says; without one, or where it says
                              nothing, f32 */
  SIM_ARITHMETIC_FAST,     /* in f32 */
  SIM_ARITHMETIC_EXACT,    /* in double, rounded once per instruction */
} SimArithmetic;

#define SIM_CHECK_ALL 0xffffffffu

typedef struct SimOptions {
  uint32_t checkers;  /* bit per SimFaultKind; bounds cannot be switched off */
  unsigned schedules; /* 1: default; 2, 3: the two extremes; more: seeded random interleavings */
  uint64_t seed;
  uint64_t max_instructions; /* warp-instructions, 0: no limit */
  double timeout;            /* seconds, 0: none */
  unsigned jobs;             /* threads, 0: as many as the machine has */
  SimArithmetic arithmetic;
  /* Where to stop and what to show then: texts of docs/simulator.md, NULL-terminated, or NULL. The first
   * schedule only; with jobs 1 the order of stops is always the same. */
  const char *const *breaks, *const *watches;
  const char *warp; /* "BLOCK:WARP" whose stops are shown; NULL: the first to reach the break */
  unsigned hits;    /* stops shown a break, 0: all of them */
  bool counts;      /* count bank conflicts and sectors per instruction; sim_run then needs a GPU */
  bool strict; /* hold the kernel to the rules for our own: what is a finding in foreign PTX is a fault */
} SimOptions;

void sim_options_default(SimOptions *options);
/* Splits "[FILE.ptx:]LINE"; *file is NULL without a file, g_free. ERROR_USAGE. */
bool sim_break_parse(const char *text, char **file, unsigned *line, GError **error);
/* "all", "none" or a list of fault names, comma-separated. */
bool sim_options_checkers(SimOptions *options, const char *list, GError **error);

/* One instruction that accesses shared or global memory lane by lane, over all warps of the first schedule.
 * A wavefront is one pass through the banks of shared memory. The least: what the same accesses would take
 * if no two lanes met in a bank, or if their bytes lay side by side from the start of a sector. */
typedef struct SimCount {
  char *instruction;
  unsigned line, column;
  uint64_t executions; /* by warps, with at least one lane */
  uint64_t wavefronts, least_wavefronts;
  uint64_t sectors, least_sectors;
} SimCount;

typedef struct SimResult {
  SimFault *faults;
  unsigned n_faults, n_errors; /* n_errors: without findings */
  uint64_t instructions;       /* warp-instructions executed */
  uint64_t *of_steps;          /* the same of each launch, in order; owned */
  char *printed;               /* what the kernel printed (printf), block by block; NULL: nothing */
  double seconds;
  SimCount *counts; /* with options.counts: by line; those that were never executed are left out */
  unsigned n_counts;
  json_t *stops, *breaks; /* with options.breaks: docs/schemas/sim.schema.json; else NULL */
} SimResult;

/* Runs one kernel. false with *error if PTX and launch do not fit each other or an instruction is unknown; a
 * kernel that ran and misbehaved gives true, with faults in *result (free with sim_result_clear). gpu may be
 * NULL. */
bool sim_run(const SimModule *module, const SimLaunch *launch, const Gpu *gpu, const SimOptions *options,
             SimResult *result, GError **error);
/* Runs launches that share the buffers of the first one's SimLaunch (the others' must be the same), in the
 * order and with the overlap that their edges allow. Modules' variables keep their values from one to the
 * next. */
bool sim_run_steps(const SimStep *steps, unsigned n, const Gpu *gpu, const SimOptions *options,
                   SimResult *result, GError **error);
void sim_result_clear(SimResult *result);
char *sim_result_to_text(const SimResult *result, const SimModule *module); /* g_free */
json_t *sim_result_to_json(const SimResult *result, const SimModule *module);
char *sim_stops_to_text(const SimResult *result);  /* g_free */
char *sim_counts_to_text(const SimResult *result); /* a table; g_free */
json_t *sim_counts_to_json(const SimResult *result);

/* A launch file to start from: one block of as many threads as the entry (NULL: the only one) allows, a
 * buffer of random numbers for each pointer. Caller owns it; NULL with *error if there is no such entry. */
json_t *sim_launch_template(const SimModule *module, const char *entry, GError **error);

/* A launch file: buffers are read or filled, the description points into the object. */
typedef struct SimLaunchFile SimLaunchFile;
SimLaunchFile *sim_launch_file_load(const char *path, GError **error);
/* From text: files it names are looked for in the folder of the source's name. */
SimLaunchFile *sim_launch_file_read(Source *source, GError **error);
/* Its launch, or what the launches of a list share: buffers and tensor maps. */
SimLaunch *sim_launch_file_launch(SimLaunchFile *file);
/* Runs the launch, or all of the list: those that name no PTX file take the module. */
bool sim_launch_file_run(SimLaunchFile *file, const SimModule *module, const Gpu *gpu,
                         const SimOptions *options, SimResult *result, GError **error);
bool sim_launch_file_write_outputs(const SimLaunchFile *file, GError **error);
void sim_launch_file_free(SimLaunchFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimLaunchFile, sim_launch_file_free)
