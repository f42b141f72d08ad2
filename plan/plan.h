/* The plan: everything a program without adlgen needs to launch a compiled graph. plan.json is its text
 * (docs/plan.md, docs/schemas/plan.schema.json).
 *
 * Built with the plan_add_* functions, written by plan_write(), read back by plan_read(). All numbers that
 * depend on run-time symbols are expressions of symbolic/symbolic.h over the plan's symbols; guards may also
 * use align(T) for any tensor T of the plan. Everything lives in the plan's arena. One thread at a time while
 * building. */
#pragma once
#include "base/arena.h"
#include "base/diagnostic.h"
#include "base/number.h"
#include "symbolic/symbolic.h"
#include <jansson.h>

#define PLAN_VERSION      4 /* the newest that is read; what needs no more than an older one is written in that */
#define PLAN_MAX_BOX      256 /* elements along a side of a tensor map's box */
#define PLAN_MAX_RANK     9   /* a fused operator's iteration space: GRAPH_MAX_RANK + 1 */
#define PLAN_MAX_VARIANTS 40

typedef struct PlanSymbol {
  const char *name;
  int64_t min, max, multiple;
} PlanSymbol;

typedef enum {
  PLAN_INPUT,
  PLAN_CONSTANT,
  PLAN_OUTPUT,
  PLAN_WORKSPACE, /* lives in the workspace at `offset` */
} PlanTensorKind;

typedef struct PlanPart { /* of a constant that is several of the graph */
  const char *name;
  int64_t columns; /* along the last dimension */
} PlanPart;

typedef struct PlanTensor {
  const char *name;
  PlanTensorKind kind;
  NumberType type;
  unsigned rank;
  const Symbolic *shape[PLAN_MAX_RANK];
  const Symbolic *strides[PLAN_MAX_RANK]; /* elements */
  unsigned align;                         /* bytes: what the caller must keep */
  const char *file;  /* CONSTANT: safetensors file beside plan.json that holds it under its name */
  PlanPart *stacks;  /* CONSTANT: those of the graph that it holds side by side along its last dimension */
  unsigned n_stacks; /* 0: it is one of the graph's itself */
  const Symbolic *offset; /* WORKSPACE: bytes from its start; others may lie there at other times */
  bool stays;             /* OUTPUT: elements that its launches do not store keep what was there */
  const struct PlanTensor
      *memory; /* OUTPUT: the input whose memory it lies in: both have one address; NULL: its own */
  bool zero;   /* WORKSPACE: zero before the first launch that uses the memory; every launch leaves it so */
  unsigned index;
} PlanTensor;

typedef struct PlanRegion { /* bytes of the workspace */
  const Symbolic *offset, *bytes;
} PlanRegion;

typedef enum {
  PLAN_ARGUMENT_POINTER,    /* 8 bytes: address of a tensor + offset */
  PLAN_ARGUMENT_SCALAR,     /* an integer or float of `type` */
  PLAN_ARGUMENT_TENSOR_MAP, /* 128 bytes, aligned to 64, encoded by the driver */
  PLAN_ARGUMENT_DIVISOR,    /* 8 bytes: u32 multiplier, u32 shift of plan_divisor() */
} PlanArgumentKind;

typedef enum { PLAN_INTERLEAVE_NONE, PLAN_INTERLEAVE_16B, PLAN_INTERLEAVE_32B } PlanInterleave;
typedef enum { PLAN_FILL_ZERO, PLAN_FILL_NAN } PlanFill;
/* What a map's boxes are of: rectangles of the tensor (cuTensorMapEncodeTiled), or the pixels and channels that a
 * convolution reads (cuTensorMapEncodeIm2col), which nothing emits or launches yet and everything refuses by name. */
typedef enum { PLAN_MAP_TILED, PLAN_MAP_IM2COL } PlanMapMode;

/* As cuTensorMapEncodeTiled takes them: innermost dimension first, strides in bytes and without the
 * innermost. */
typedef struct PlanTensorMap {
  PlanMapMode mode;
  unsigned rank; /* 1..5 */
  NumberType element;
  const Symbolic *dims[5];
  const Symbolic *strides[4];  /* bytes */
  const Symbolic *box[5];      /* 1..256 elements each, as TMA takes them */
  unsigned element_strides[5]; /* 0 counts as 1 */
  unsigned swizzle;            /* bytes: 0, 32, 64, 128 */
  PlanInterleave interleave;
  PlanFill fill;
  unsigned l2_promotion; /* bytes: 0, 64, 128, 256 */
} PlanTensorMap;

typedef struct PlanArgument {
  PlanArgumentKind kind;
  const char *name;         /* for people */
  const PlanTensor *tensor; /* pointer, tensor map */
  const Symbolic *offset;   /* pointer, tensor map: bytes added to the address; NULL: 0 */
  NumberType type;          /* scalar: s32, s64, u32, u64, f32, f64 */
  const Symbolic *value;    /* scalar (integers), divisor */
  double number;            /* scalar of a float type */
  PlanTensorMap map;
} PlanArgument;

typedef struct PlanVariant {
  const char *kernel;       /* "gemm_bf16_128x256_gelu": file name without its suffix */
  const char *entry;        /* name of the entry point in the module */
  const char *text, *cubin; /* files beside plan.json, `ptx` and `cubin` there; either may be NULL */
  const Symbolic *guard;    /* NULL: always */
  const Symbolic *grid[3];  /* blocks */
  unsigned block[3], cluster[3];
  unsigned shared; /* dynamic bytes */
  bool
      waits; /* the kernel waits for the launch before it, so it may start early where an edge is dependent */
  bool together; /* its blocks wait for one another: all of the grid run at once (cooperative launch) */
  PlanArgument *arguments; /* in the entry's order */
  unsigned n_arguments;
  const char *note; /* which template, tile and path, for people; may be NULL */
} PlanVariant;

typedef struct PlanEdge { /* the launch waits for an earlier one */
  unsigned launch;        /* its index */
  bool dependent;         /* programmatic dependent launch: may start before that one has ended */
} PlanEdge;

typedef struct PlanLaunch {
  const char *name;       /* of the fused operator */
  PlanVariant **variants; /* the first whose guard holds is launched; the last has no guard */
  unsigned n_variants;
  PlanEdge *depends_on;
  unsigned n_depends;
  PlanRegion *zero; /* cleared right before the launch */
  unsigned n_zero;
  unsigned index;
} PlanLaunch;

/* Launches one behind the other that are carried out several times: all of them, then all again. In their expressions `counter`
 * is how many times that was before, from 0. Repeats do not share launches, so none is within another. */
typedef struct PlanRepeat {
  const char *counter; /* as a symbol; no symbol of the plan has its name */
  const Symbolic *count;
  unsigned first, n; /* launches */
} PlanRepeat;

typedef struct Plan {
  Arena *arena;
  const char *name; /* of the graph */
  const char *gpu_name, *gpu_target, *gpu_hash;
  unsigned sms; /* that its kernels use at most; 0: all of the GPU */
  PlanSymbol *symbols;
  unsigned n_symbols;
  PlanTensor **tensors;
  unsigned n_tensors;
  GHashTable *names;               /* of tensors -> PlanTensor */
  const Symbolic *workspace_bytes; /* owned by the caller; align 256 */
  PlanLaunch **launches;           /* an order that is right on one stream */
  unsigned n_launches;
  PlanRepeat *repeats; /* in the order of their launches */
  unsigned n_repeats;
} Plan;

/* Strings are copied into the plan; expressions must live as long (build them in plan->arena). */
Plan *plan_new(const char *name, const char *gpu_name, const char *gpu_target, const char *gpu_hash);
void plan_free(Plan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Plan, plan_free)

PlanSymbol *plan_add_symbol(Plan *plan, const char *name, int64_t min, int64_t max, int64_t multiple);
/* Adds a tensor; strides NULL: row-major. A WORKSPACE tensor has no place before plan_place_workspace(). */
PlanTensor *plan_add_tensor(Plan *plan, PlanTensorKind kind, const char *name, NumberType type, unsigned rank,
                            const Symbolic *const *shape, const Symbolic *const *strides, unsigned align);
PlanTensor *plan_tensor(const Plan *plan, const char *name); /* NULL if there is none */
PlanLaunch *plan_add_launch(Plan *plan, const char *name);
/* A variant with block and cluster {1, 1, 1} and grid {1, 1, 1}; the caller fills in the rest. */
PlanVariant *plan_add_variant(Plan *plan, PlanLaunch *launch, const char *kernel, const char *entry);
/* A copy of a variant of the launch, in front of all that it has. */
PlanVariant *plan_add_variant_before(Plan *plan, PlanLaunch *launch, const PlanVariant *like);
PlanArgument *plan_add_pointer(Plan *plan, PlanVariant *variant, const char *name, const PlanTensor *tensor,
                               const Symbolic *offset);
PlanArgument *plan_add_scalar(Plan *plan, PlanVariant *variant, const char *name, NumberType type,
                              const Symbolic *value);
PlanArgument *plan_add_number(Plan *plan, PlanVariant *variant, const char *name, NumberType type,
                              double number);
/* The caller fills in argument->map. */
PlanArgument *plan_add_tensor_map(Plan *plan, PlanVariant *variant, const char *name,
                                  const PlanTensor *tensor, const Symbolic *offset);
PlanArgument *plan_add_divisor(Plan *plan, PlanVariant *variant, const char *name, const Symbolic *value);
void plan_add_dependency(Plan *plan, PlanLaunch *launch, const PlanLaunch *on, bool dependent);
/* The last n launches are repeated. */
PlanRepeat *plan_add_repeat(Plan *plan, unsigned n, const char *counter, const Symbolic *count);
const PlanRepeat *plan_repeat_of(const Plan *plan, unsigned launch); /* NULL: it is carried out once */
void plan_add_zero(Plan *plan, PlanLaunch *launch, const Symbolic *offset, const Symbolic *bytes);

/* A tensor of the workspace that launches share, row-major, as large as the largest that is asked for under
 * the name. Sharing is safe where those who ask come one after the other (plan_add_dependency). */
PlanTensor *plan_share_tensor(Plan *plan, const char *name, NumberType type, int64_t rows, int64_t columns);
/* Gives the tensors of the workspace their places, aligned to 256, and the workspace its size: once, when all launches
 * and their dependencies are there. Tensors share memory where no two launches that are given them can overlap. */
void plan_place_workspace(Plan *plan);

/* Copies every expression into the plan's arena, so that it outlives the graph and the kernels it was built
 * from. */
void plan_own_expressions(Plan *plan);
/* The same for one launch, before what its expressions were built from is gone. */
void plan_own_launch(Plan *plan, PlanLaunch *launch);

/* What the types do not say: names unique and defined, expressions over known symbols only, ranges of boxes
 * and strides, the last variant without a guard, at most PLAN_MAX_VARIANTS, dependencies that come earlier.
 * marks may be NULL. */
bool plan_check(const Plan *plan, GError **error);

json_t *plan_to_json(const Plan *plan); /* caller owns */
char *plan_text(const Plan *plan);      /* the file's bytes, newline at the end; g_free */
bool plan_write(const Plan *plan, const char *path, GError **error); /* written aside, then renamed */
Plan *plan_read(Source *source, GError **error);                     /* strict; runs plan_check */

/* n / d == (mulhi(n, multiplier) + n) >> shift for 0 <= n < 2^31 and 1 <= d < 2^31, with mulhi the upper 32
 * bits of the 64-bit product. */
void plan_divisor(uint32_t d, uint32_t *multiplier, uint32_t *shift);

/* ---- Evaluation ---- */

/* Values of the plan's symbols and addresses of its tensors: how a launcher binds a plan. */
typedef struct PlanBindings {
  const int64_t *symbols;    /* in the order of plan->symbols */
  const uint64_t *addresses; /* in the order of plan->tensors; NULL while no guard is evaluated */
  int64_t counter;           /* of the repeat whose launch it is */
} PlanBindings;

bool plan_evaluate(const Plan *plan, const Symbolic *expression, const PlanBindings *bindings, int64_t *value,
                   GError **error);
/* ERROR_INPUT if a symbol is outside its declared range or not a multiple of what was declared. */
bool plan_check_bindings(const Plan *plan, const PlanBindings *bindings, GError **error);
/* The variant to launch. */
const PlanVariant *plan_choose(const Plan *plan, const PlanLaunch *launch, const PlanBindings *bindings,
                               GError **error);

/* The launches in the order in which they are carried out, those of repeats several times. */
typedef struct PlanWalk {
  const Plan *plan;
  PlanBindings bindings; /* with the counter of the launch that was given last */
  unsigned next;
  const PlanRepeat *inside; /* NULL: none */
  int64_t count;            /* of that one */
} PlanWalk;
PlanWalk plan_walk(const Plan *plan, const PlanBindings *bindings);
/* *launch NULL: there are no more. false: a repeat's count has no value, or is negative. */
bool plan_walk_next(PlanWalk *walk, const PlanLaunch **launch, GError **error);
