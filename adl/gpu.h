/* The GPU as the rest of the program sees it: a resolved, validated architecture description.
 *
 * Loaded from adl/gpu/NAME.yaml (or a user's file) over its chain of `extends`. Immutable after loading, so
 * thread-safe. Facts that a description gives as `unknown` hold FACT_UNKNOWN; each consumer states its
 * default. */
#pragma once
#include "adl/model.h"
#include "base/diagnostic.h"
#include "base/number.h"
#include <jansson.h>
#include <math.h>
#include <stdint.h>

#define FACT_UNKNOWN  NAN
#define fact_known(x) (!isnan(x))

/* An instruction family: a mechanism the hardware offers. Names are ours, not PTX's:
 *   copy_plain             ordinary loads and stores through registers
 *   copy_async             global -> shared copies of 4/8/16 bytes per thread, completed by group
 *   tma                    box copies by a tensor map; loads complete by bytes on a barrier, stores by group
 *   thread_fma             scalar fused multiply-add
 *   warp_mma               matrix product of one warp, operands in registers
 *   warpgroup_mma          matrix product of four warps, B (and A) in shared memory, asynchronous
 *   matrix_load            8x8 matrices shared -> registers (with a transposing form)
 *   matrix_store           8x8 matrices registers -> shared
 *   mbarrier               barrier in shared memory with arrival and byte counts and parity waits
 *   register_reallocation  registers move between warpgroups at run time
 *   cluster                blocks of one cluster are co-resident and reach each other's shared memory
 *   elect                  one lane elected per warp
 *   dependent_launch       a kernel may start before its predecessor has ended
 *   lane_reduce            integer reduction across a warp in one instruction
 *   cache_hint             L2 eviction policies on memory instructions
 * A family is available if the description lists it. */
typedef struct GpuFamily GpuFamily;

/* One matrix-product shape set of a product family. */
typedef struct GpuProduct {
  const char *family;   /* "warp_mma" | "warpgroup_mma" */
  NumberType a, b, acc; /* operand and accumulator types */
  NumberType
      through; /* what instructions take of A: its own type, or, if `widened`, the wider one of both operands */
  bool widened;  /* no instruction takes the operands' types: threads widen fragments in registers, exactly */
  unsigned m, k; /* tile of one instruction */
  const unsigned *n; /* legal n, ascending */
  unsigned n_count;
  bool a_from_registers, a_from_shared, b_from_registers, b_from_shared;
  bool a_transposed, b_transposed; /* may take the M-major / N-major operand from shared memory */
  const char *layout_a, *layout_b, *layout_acc; /* layout constructor names: "mma.a", "group.d", ... */
  double accumulator_bits; /* significant bits kept per accumulation step, FACT_UNKNOWN if not known */
  double accumulator_k;    /* K added in one step before rounding */
  const char *accumulator_rounding; /* "truncate" | "nearest" | NULL */
  double latency_cycles, flop_per_clock_per_sm;
  unsigned ptx_version; /* major * 10 + minor of the first PTX ISA that has it */
} GpuProduct;

/* Where a fact came from: every number in a description has a unit and a source. */
typedef struct GpuFact {
  const char *path; /* "limits.shared_per_block" */
  double value;
  const char *unit, *source;
  bool guess;         /* marked "from memory" in the description */
  const char *effect; /* what it does: "drives", "limits", "prices", ... (gpu_rules) */
} GpuFact;

typedef struct Gpu {
  const char *name, *product, *arch; /* short name, name for people, name of the arch file it extends */
  const char *file;                  /* what was read */
  const char *target;                /* assembler target, e.g. the .target line */
  unsigned ptx_version;              /* highest PTX ISA the emitted text needs, major * 10 + minor */
  char hash[65];                     /* SHA-256 of the resolved facts, hex */

  /* limits */
  unsigned warp_size, threads_per_block, threads_per_sm, warps_per_sm, blocks_per_sm;
  unsigned registers_per_sm, registers_per_thread,
      register_unit; /* unit: registers a warp allocates at a time */
  unsigned shared_per_block, shared_per_sm, shared_reserved, shared_default; /* bytes */
  unsigned shared_banks, shared_bank_bytes;
  unsigned global_sector;                 /* bytes that an access to global memory moves at least */
  unsigned cluster_portable, cluster_max; /* blocks; 1 = no clusters */
  unsigned named_barriers;

  /* the product */
  unsigned sm_count;
  double clock_boost_mhz, clock_tensor_mhz; /* clock at which the tensor peak is quoted */
  double l2_bytes, memory_bytes;
  double memory_bandwidth;      /* bytes per second, as specified */
  double memory_bandwidth_read; /* measured */
  double nvlink_bandwidth;      /* bytes per second, both directions */
  double power_watts;

  const CostModel *model; /* fitted constants; never NULL */

  const GpuProduct *products;
  unsigned n_products;
  const GpuFact *facts;
  unsigned n_facts;
  void *private_data;
} Gpu;

/* Loads by name (search: ADLGEN_DATA_DIR/adl, $XDG_DATA_HOME/adlgen/adl, embedded) or by path (contains '/'
 * or ends in .yaml). Caller frees with gpu_free. ERROR_INPUT with places on anything wrong. */
Gpu *gpu_load(const char *name_or_path, GError **error);
/* Loads a product's description from a text in memory, which may extend by name but not by path. */
Gpu *gpu_parse(Source *source, GError **error);
void gpu_free(Gpu *gpu);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Gpu, gpu_free)

/* Names of all known GPUs, sorted; NULL-terminated; g_strfreev. */
char **gpu_names(void);

/* true if the description lists the family. */
bool gpu_has(const Gpu *gpu, const char *family);
/* true if instructions convert floats of 8 bits: that GPU multiplies them. */
bool gpu_converts_float8(const Gpu *gpu);
/* Any fact by its path ("latency.shared_load", "copy_async.alignment", "peaks.bf16"): FACT_UNKNOWN if absent.
 */
double gpu_fact(const Gpu *gpu, const char *path);
/* The product shape set for these operand types in the family, of instructions or by widening, or NULL. */
const GpuProduct *gpu_product(const Gpu *gpu, const char *family, NumberType a, NumberType b, NumberType acc);
/* Dense peak in FLOP (or integer op) per second for operands of a type that instructions take. */
double gpu_peak(const Gpu *gpu, NumberType type);
/* A property that is a word, such as "copy_async.scope"; NULL if absent. */
const char *gpu_text(const Gpu *gpu, const char *path);
/* A property that is a list of numbers, in base units, such as "tma.swizzles"; NULL and 0 if absent, 0 alone
 * if it is empty. */
const double *gpu_numbers(const Gpu *gpu, const char *path, unsigned *n);
/* true if a property that is a list of words holds the item: gpu_lists(gpu, "cache_hint.policies",
 * "evict_first"). */
bool gpu_lists(const Gpu *gpu, const char *path, const char *item);

/* Checks a description, of a product or of an architecture, by path ("-" is stdin) or name. *error lists
 * every fault found: ERROR_INPUT. */
bool gpu_check(const char *path, GError **error);
/* As gpu_check, and gives what was read; an architecture's name is its arch. NULL: faults. */
Gpu *gpu_load_description(const char *path, GError **error);

/* Every rule of the schema: [{path, form, required, may_be_unknown, effect, what, values, meaning}]; caller owns. */
json_t *gpu_rules(GError **error);

/* Whole description for `gpus show --json`; caller owns. */
json_t *gpu_to_json(const Gpu *gpu);
/* {"version": 1, "gpus": [{name, product, arch, target, file, sms, ...}]} of every known GPU; caller owns. */
json_t *gpus_to_json(GError **error);
/* The same as aligned tables, for `gpus show` and `gpus`. Caller frees. */
char *gpu_to_text(const Gpu *gpu);
char *gpus_to_text(GError **error);
