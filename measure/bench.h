/* Measuring kernels: what docs/performance.md calls the method.
 *
 * A case is a graph with every dimension bound. Candidates carry it out: kernels of ours (one a variant of
 * the options) and competitors. All share the case's tensors, so they read the same data; they are timed in
 * turn, A B A B, in one process on one stream. Every time is in microseconds, every size in bytes. One thread
 * at a time. */
#pragma once
#include "generator/compile/compile.h"
#include "measure/gpu.h"
#include "plan/resolve.h"
#include "reference/operators.h"
#include "runtime/assembler.h"
#include "runtime/executable.h"

/* Gets a line for people while a long command runs; NULL: nobody listens. */
typedef void BenchNote(const char *text, void *data);
void bench_note(BenchNote *note, void *data, const char *format, ...) G_GNUC_PRINTF(3, 4);

/* ---- the case ---- */

/* What follows a product's sums. */
typedef enum { BENCH_NO_ACTIVATION, BENCH_RELU, BENCH_GELU_TANH } BenchActivation;

/* What a graph of one matrix product multiplies: D[m, n] = f(s t c sum A[m, k] B[k, n] + C[m, n] + bias[n]);
 * steps are in elements, batches are `batch` products whose operands lie a, b, d elements apart. The graph is
 * a MatMul, of dequantised operands or not, and behind it, each once at most and in this order or left out:
 * Mul by a constant, Add of C or bias, Relu or Gelu; and Casts. */
typedef struct BenchProduct {
  const GraphTensor *a, *b, *d;
  const GraphTensor *scale[2]; /* s and t: one f32 each; NULL: 1 */
  double factor;               /* c */
  const GraphTensor *added;    /* C, which lies as D does; NULL: none */
  const GraphTensor *bias;     /* NULL: none */
  BenchActivation activation;  /* f */
  bool fused;                  /* anything but scales and a Cast is there */
  Accumulate accumulate;       /* what the MatMul asks for */
  int64_t m, n, k, batch;
  int64_t a_step[2], b_step[2], d_step[2]; /* of row, column */
  int64_t a_batch, b_batch, d_batch;
} BenchProduct;

typedef struct BenchCase {
  char *name;   /* "gemm M=64 N=576 K=7168" */
  char *class_; /* what it is judged with */
  Source *source;
  Arena *arena;
  GraphBinding *bindings; /* every symbol */
  unsigned n_bindings;
  GraphBinding *constants; /* those that are compiled in */
  unsigned n_constants;
  Graph *graph; /* all bound */
  double
      bytes; /* inputs, constants and outputs, each once; of a table that is read at indices what these touch */
  double held;        /* as bytes, tables whole: what lies in memory */
  double flops;       /* of its matrix products; 0: it has none */
  NumberType operand; /* of the first product */
  bool is_product;    /* it is what a BenchProduct says: `product` holds it */
  BenchProduct product;
  Accumulate accumulate; /* of products that do not say; to be set by the caller, else the default */
} BenchCase;

/* bindings: NAME=VALUE of every symbol; constants: names of those compiled in (both ended by NULL). class_
 * may be NULL.
 */
BenchCase *bench_case_new(Source *source, const char *class_, const char *const *bindings,
                          const char *const *constants, GError **error);
void bench_case_free(BenchCase *c);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchCase, bench_case_free)
/* The matrix product of a case alone: a case of one node, its result in the product's own type. The caller's.
 * ERROR_UNSUPPORTED "no-product" if the case has not exactly one, of two inputs of the graph, or is that. */
BenchCase *bench_case_product(const BenchCase *c, GError **error);

/* ---- its tensors ---- */

/* `n_sets` copies of the case's inputs and outputs in device memory: random inputs, poisoned outputs. */
typedef struct BenchTensors {
  BenchGpu *gpu;
  const BenchCase *c;
  unsigned n_sets;
  uint64_t *addresses; /* [set * graph->n_tensors + tensor index]; 0: neither input nor output */
} BenchTensors;

BenchTensors *bench_tensors_new(BenchGpu *gpu, const BenchCase *c, unsigned n_sets, GError **error);
void bench_tensors_free(BenchTensors *tensors);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchTensors, bench_tensors_free)
uint64_t bench_tensor_address(const BenchTensors *tensors, unsigned set, const GraphTensor *tensor);
/* Has it memory of the case's own: is it an input, a constant or an output? */
bool bench_tensor_is_external(const GraphTensor *tensor);
/* Bytes of a tensor of the graph, from its first to behind its last element. */
uint64_t bench_tensor_bytes(const GraphTensor *tensor);
/* Fills the outputs of a set with 0xff bytes. */
bool bench_poison(const BenchTensors *tensors, unsigned set, GError **error);

/* ---- candidates ---- */

typedef struct BenchCandidate BenchCandidate;
struct BenchCandidate {
  char *name;
  json_t *facts; /* what it is: kernels, tile, algorithm, flags */
  /* Queues the case once on a set of tensors; allocates nothing on the device and waits for nothing, so that
   * it can be captured. */
  bool (*queue)(BenchCandidate *candidate, unsigned set, GError **error);
  /* Copies what was queued last to the tensors' own outputs, for the check; NULL: it is there. */
  bool (*deliver)(BenchCandidate *candidate, unsigned set, GError **error);
  /* As queue(), with somebody in front of each launch; NULL: it cannot tell its launches apart. */
  bool (*queue_observed)(BenchCandidate *candidate, unsigned set, const ExecutableObserver *observer,
                         GError **error);
  void (*release)(BenchCandidate *candidate); /* frees data */
  void *data;
};
void bench_candidate_free(BenchCandidate *candidate);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchCandidate, bench_candidate_free)

/* A way to compile the case: --variant NAME:key=value,... */
typedef struct BenchVariant {
  char *name;
  char *gpu;    /* description to plan for; NULL: that of the command */
  char *plan;   /* folder of plan.json with its kernels, instead of compiling; NULL: compile */
  char **sets;  /* template parameters, ended by NULL */
  char **skips; /* passes left out, NULL-terminated */
  unsigned sms; /* 0: all */
  bool fixed;   /* every dimension is compiled in */
  bool untuned; /* the model decides, whatever was measured */
  /* Measured choices for the GPU of the command, not owned; a description or parameters of its own come
   * without. */
  const TunedDatabase *tuned;
} BenchVariant;

/* Reads a variant's text. ERROR_USAGE "bad-variant". */
BenchVariant *bench_variant_parse(const char *text, GError **error);
void bench_variant_free(BenchVariant *variant);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchVariant, bench_variant_free)

/* A case compiled by a variant, before its machine code is made: the slow steps of many cases can so be done
 * on many threads. */
typedef struct BenchBuild BenchBuild;
BenchBuild *bench_build_new(const BenchCase *c, const BenchVariant *variant, const Gpu *gpu, GError **error);
void bench_build_free(BenchBuild *build);
const char *bench_build_name(const BenchBuild *build);
/* {kernels: [{launch, name, grid, threads, shared}]}: what it will launch, in order. The build's. */
json_t *bench_build_facts(const BenchBuild *build);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchBuild, bench_build_free)

/* Machine code by the text and target it was made from; one for a run of bench. */
typedef struct BenchCode BenchCode;
BenchCode *bench_code_new(const Assembler *assembler, Device *device);
void bench_code_free(BenchCode *code);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchCode, bench_code_free)
/* Assembles, on several threads, every kernel that the builds (NULL entries are skipped) will launch. A
 * kernel that the assembler refuses is reported when its candidate is made. */
void bench_code_add(BenchCode *code, BenchBuild *const *builds, unsigned n, unsigned threads);

/* Assembles what the builds will launch, for their plans' own targets: into the assembler's cache, without a
 * device. Both counts grow. */
void bench_build_assemble(BenchBuild *const *builds, unsigned n, const Assembler *assembler, unsigned threads,
                          unsigned *n_assembled, unsigned *n_failed);

/* A candidate of a build, which it takes. */
BenchCandidate *bench_candidate_new(BenchBuild *build, BenchCode *code, const BenchTensors *tensors,
                                    GError **error);

/* ---- competitors ---- */

/* cuBLASLt, opened when asked for. */
typedef struct CublasLt CublasLt;
/* path: --cublaslt, or NULL: CUBLASLT_LIBRARY, the loader's path, toolkits, Python packages.
 * ERROR_MISSING_TOOL "no-cublaslt" lists the places. */
CublasLt *cublaslt_open(BenchGpu *gpu, const char *path, GError **error);
void cublaslt_close(CublasLt *library);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CublasLt, cublaslt_close)
char *cublaslt_version(const CublasLt *library);
const char *cublaslt_path(const CublasLt *library);

#define CUBLASLT_WORKSPACE (32u << 20)
/* Algorithms its heuristic gives for the case at most. */
#define CUBLASLT_ALGORITHMS 64

/* Candidates for a case of one product: [0] is the heuristic's first, the rest all others it returns, in its
 * order. 8-bit floats accumulate as the case says. ERROR_UNSUPPORTED "no-algorithm" if the case is none or it
 * has none. */
GPtrArray *cublaslt_candidates(CublasLt *library, const BenchTensors *tensors, GError **error);

/* ---- timing ---- */

typedef enum { BENCH_COLD, BENCH_WARM, BENCH_SUSTAINED, BENCH_DIRTY, BENCH_MODE_COUNT } BenchMode;
const char *bench_mode_name(BenchMode mode);

typedef struct BenchTiming {
  double *rounds;                  /* us, one a round; n_rounds */
  double median;                   /* of the rounds */
  double spread;                   /* (third - first quartile) / median */
  double clock_mhz, clock_low_mhz; /* median and lowest of the SM clock while it ran; NAN: not known */
  double watts;                    /* highest, NAN: not known */
} BenchTiming;

typedef struct BenchTimings {
  unsigned n, n_rounds;
  const char *method; /* "graph" | "events" | "back to back" */
  BenchTiming *of;    /* as the candidates */
} BenchTimings;

typedef struct BenchTimingOptions {
  unsigned rounds;     /* >= 1 */
  double seconds;      /* SUSTAINED: of one candidate in one round */
  double short_us;     /* kernels below are timed in graphs */
  unsigned contenders; /* the first so many candidates decide how all are timed; the others, which only give
                          the scale, are timed behind them, so that nobody is rested by one of them; 0: all */
  double round_us;     /* a candidate is launched so often in a round that it takes about as long; 0: 2 ms */
} BenchTimingOptions;

/* Times the candidates in turn. COLD queues a flush of L2 (memset, then a read of the flush buffer) before
 * every launch, DIRTY an overwrite of a large buffer, as DeepGEMM's own benchmark does; SUSTAINED goes round
 * the sets of tensors. */
BenchTimings *bench_time(BenchGpu *gpu, BenchCandidate *const *candidates, unsigned n, unsigned n_sets,
                         BenchMode mode, const BenchTimingOptions *options, GError **error);
void bench_timings_free(BenchTimings *timings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchTimings, bench_timings_free)

/* Median over the rounds of b / a: above 1, a is the faster. */
double bench_ratio(const BenchTimings *timings, unsigned a, unsigned b);

/* ---- the check ---- */

/* Compares outputs of a graph with what it means (execute/data.h): comparisons is as its outputs. fast: products that do not say keep
 * their sums as the hardware does. */
typedef bool (*BenchReference)(const Graph *graph, Tensor *const *inputs, Tensor *const *outputs, bool fast,
                               Comparison *comparisons, GError **error);

typedef struct BenchCheck {
  bool ok;
  double error, limit; /* ||out - reference|| / ||reference|| */
  const char *method;  /* "whole" | "rows" | "projection" | "rows, projection" | "agreement" */
  char *message;       /* what is wrong; NULL if ok */
} BenchCheck;

/* Runs a candidate once on poisoned outputs and compares them: whole with the reference where that is little
 * work, else some rows with the reference and, for a product, all of it by random projection. What is too much for the
 * reference either way, as whole networks are, is compared with *agreed, the outputs (Value *) of the first candidate that was
 * so checked, which the first one leaves there; agreed NULL: it cannot be checked. */
bool bench_check(BenchGpu *gpu, const BenchTensors *tensors, BenchCandidate *candidate,
                 BenchReference reference, GPtrArray **agreed, BenchCheck *check, GError **error);
/* What a right result of the case may be off in that type. */
double bench_limit(const BenchCase *c, NumberType type);
void bench_check_clear(BenchCheck *check);

/* ---- ceilings ---- */

/* Are the kernels that rates of products are measured with there? For tests: a bench needs a GPU. */
bool bench_ceilings_have_kernels(GError **error);

typedef struct BenchCeilings {
  double read, copy;                  /* bytes per second; copy: read + written */
  double warp_mma[NUMBER_TYPE_COUNT]; /* FLOP per second, 3 s sustained; 0: not measured */
  double warpgroup_mma[NUMBER_TYPE_COUNT];
} BenchCeilings;

/* types: bit per NumberType whose product loops are wanted. seconds: of each loop. */
bool bench_ceilings(BenchGpu *gpu, const Gpu *description, uint64_t types, double seconds,
                    BenchCeilings *ceilings, GError **error);
/* max(bytes / read, flops / tensor ceiling) + 3 us. */
double bench_roof(const BenchCeilings *ceilings, const BenchCase *c);
