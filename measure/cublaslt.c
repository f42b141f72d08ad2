/* cuBLASLt as a competitor. The few functions, types and constants that are needed are declared here, as its
 * header has them: their values are part of its binary interface. Matrices are column-major there, so a
 * row-major D = A B is asked for as D^T = B^T A^T. */
#include "measure/bench.h"
#include "measure/gpu_private.h"
#include <dlfcn.h>
#include <glob.h>
#include <string.h>

/* Of cudaDataType_t, cublasComputeType_t, cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t,
 * cublasLtMatmulPreferenceAttributes_t, cublasLtMatmulAlgoConfigAttributes_t. */
enum {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_8I = 3,
  CUDA_R_32I = 10,
  CUDA_R_16BF = 14,
  CUDA_R_8F_E4M3 = 28,
  CUDA_R_8F_E5M2 = 29
};
enum { COMPUTE_32F = 68, COMPUTE_32I = 72, COMPUTE_32F_FAST_TF32 = 77 };
enum {
  DESC_TRANSA = 3,
  DESC_TRANSB = 4,
  DESC_EPILOGUE = 7,
  DESC_BIAS_POINTER = 8,
  DESC_A_SCALE_POINTER = 17,
  DESC_B_SCALE_POINTER = 18,
  DESC_FAST_ACCUM = 25,
  DESC_BIAS_TYPE = 26
};
enum { EPILOGUE_NONE = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 };
enum { LAYOUT_BATCH_COUNT = 5, LAYOUT_BATCH_STEP = 6 };
enum { PREFERENCE_WORKSPACE = 1 };
enum {
  ALGORITHM_ID = 0,
  ALGORITHM_TILE = 1,
  ALGORITHM_SPLIT_K = 2,
  ALGORITHM_STAGES = 6,
  ALGORITHM_CLUSTER = 8
};
enum { NO_TRANSPOSE = 0, TRANSPOSE = 1 };

typedef struct Algorithm {
  uint64_t data[8];
} Algorithm;

typedef struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} HeuristicResult;

/* X(field, symbol, parameters) */
#define CUBLASLT_FUNCTIONS(X)                                                                                \
  X(create, "cublasLtCreate", (void **handle))                                                               \
  X(destroy, "cublasLtDestroy", (void *handle))                                                              \
  X(desc_create, "cublasLtMatmulDescCreate", (void **desc, int compute, int scale))                          \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (void *desc))                                                 \
  X(desc_set, "cublasLtMatmulDescSetAttribute",                                                              \
    (void *desc, int attribute, const void *value, size_t bytes))                                            \
  X(layout_create, "cublasLtMatrixLayoutCreate",                                                             \
    (void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading))                             \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (void *layout))                                           \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute",                                                          \
    (void *layout, int attribute, const void *value, size_t bytes))                                          \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (void **preference))                                \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (void *preference))                               \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                                  \
    (void *preference, int attribute, const void *value, size_t bytes))                                      \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                             \
    (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,             \
     HeuristicResult *results, int *found))                                                                  \
  X(algorithm_get, "cublasLtMatmulAlgoConfigGetAttribute",                                                   \
    (const Algorithm *algorithm, int attribute, void *value, size_t bytes, size_t *written))                 \
  X(matmul, "cublasLtMatmul",                                                                                \
    (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,              \
     void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,               \
     const Algorithm *algorithm, void *workspace, size_t workspace_bytes, void *stream))

struct CublasLt {
  BenchGpu *gpu;
  void *library, *handle;
  char *path;
  size_t (*version)(void);
#define X(field, symbol, parameters) int(*field) parameters;
  CUBLASLT_FUNCTIONS(X)
#undef X
  uint64_t workspace, one; /* one: 1.0f for the scale pointers of 8-bit floats */
};

/* What all algorithms of one case share. */
typedef struct Problem {
  CublasLt *library;
  const BenchTensors *tensors;
  void *desc, *a, *b, *d;
  gatomicrefcount references;
  bool integer, small; /* small: 8-bit floats, which have scales */
} Problem;

typedef struct Theirs {
  Problem *problem;
  Algorithm algorithm;
  size_t workspace;
} Theirs;

/* ---- finding the library ---- */

static void *try_open(const char *path, GString *tried, char **found)
{
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  g_string_append_printf(tried, "%s%s", tried->len ? ", " : "", path);
  if (library) *found = g_strdup(path);
  return library;
}

/* Toolkits and Python packages keep it in folders whose names hold versions. */
static void *try_pattern(const char *pattern, GString *tried, char **found)
{
  glob_t paths;
  void *library = NULL;
  if (glob(pattern, 0, NULL, &paths) == 0)
    for (size_t i = paths.gl_pathc; !library && i > 0; i--) /* newest version last */
      library = try_open(paths.gl_pathv[i - 1], tried, found);
  if (!library) g_string_append_printf(tried, ", %s", pattern);
  globfree(&paths);
  return library;
}

static void *search(GString *tried, char **found)
{
  static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  static const char *const patterns[] = {
      "/usr/local/cuda*/lib64/libcublasLt.so.1[23]", "/usr/lib/x86_64-linux-gnu/libcublasLt.so.1[23]",
      "/opt/*/.venv/lib/python3*/site-packages/nvidia/c*/lib/libcublasLt.so.1[23]",
      "/usr/local/lib/python3*/*-packages/nvidia/c*/lib/libcublasLt.so.1[23]"};
  void *library = NULL;
  for (unsigned i = 0; !library && i < G_N_ELEMENTS(names); i++)
    library = try_open(names[i], tried, found);
  const char *cuda = g_getenv("CUDA_HOME"), *environment = g_getenv("VIRTUAL_ENV");
  if (!library && cuda) {
    g_autofree char *pattern = g_build_filename(cuda, "lib64", "libcublasLt.so.1[23]", NULL);
    library = try_pattern(pattern, tried, found);
  }
  if (!library && environment) {
    g_autofree char *pattern = g_build_filename(environment, "lib/python3*/site-packages/nvidia/c*/lib",
                                                "libcublasLt.so.1[23]", NULL);
    library = try_pattern(pattern, tried, found);
  }
  for (unsigned i = 0; !library && i < G_N_ELEMENTS(patterns); i++)
    library = try_pattern(patterns[i], tried, found);
  return library;
}

static bool load_library(CublasLt *l, const char *path, GError **error)
{
  g_autoptr(GString) tried = g_string_new(NULL);
  if (!path) path = g_getenv("CUBLASLT_LIBRARY");
  l->library = path && *path ? try_open(path, tried, &l->path) : search(tried, &l->path);
  const char *missing = NULL;
  if (l->library) {
#define X(field, symbol, parameters)                                                                         \
  *(void **)&l->field = dlsym(l->library, symbol);                                                           \
  if (!l->field) missing = symbol;
    CUBLASLT_FUNCTIONS(X)
#undef X
    *(void **)&l->version = dlsym(l->library, "cublasLtGetVersion");
    if (!missing) return true;
  }
  static const char hint[] = "CUBLASLT_LIBRARY names its file";
  if (missing)
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-cublaslt", hint, "%s has no %s", l->path, missing);
  else
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-cublaslt", hint, "cuBLASLt was not found; looked for %s",
              tried->str);
  return false;
}

static bool check(int status, const char *what, GError **error)
{
  if (!status) return true;
  error_set(error, ERROR_UNSUPPORTED, NULL, "cublaslt-failed", NULL, "cuBLASLt: %s: status %d", what, status);
  return false;
}

CublasLt *cublaslt_open(BenchGpu *gpu, const char *path, GError **error)
{
  g_autoptr(CublasLt) l = g_new0(CublasLt, 1);
  const float one = 1;
  l->gpu = gpu;
  if (!load_library(l, path, error) || !check(l->create(&l->handle), "it does not start", error)) return NULL;
  l->workspace = device_allocate(gpu->device, CUBLASLT_WORKSPACE, error);
  l->one = l->workspace ? device_allocate(gpu->device, sizeof one, error) : 0;
  if (!l->one || !device_write(gpu->device, l->one, &one, sizeof one, error)) return NULL;
  return g_steal_pointer(&l);
}

void cublaslt_close(CublasLt *l)
{
  if (!l) return;
  if (l->handle) l->destroy(l->handle);
  device_release(l->gpu->device, l->workspace);
  device_release(l->gpu->device, l->one);
  g_free(l->path); /* the library stays loaded, as the driver does */
  g_free(l);
}

char *cublaslt_version(const CublasLt *l)
{
  size_t version = l->version ? l->version() : 0;
  return g_strdup_printf("%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

const char *cublaslt_path(const CublasLt *l)
{
  return l->path;
}

/* ---- the problem ---- */

static int type_of(NumberType type)
{
  switch (type) {
  case NUMBER_F64: return CUDA_R_64F;
  case NUMBER_F32:
  case NUMBER_TF32: return CUDA_R_32F;
  case NUMBER_F16: return CUDA_R_16F;
  case NUMBER_BF16: return CUDA_R_16BF;
  case NUMBER_E4M3: return CUDA_R_8F_E4M3;
  case NUMBER_E5M2: return CUDA_R_8F_E5M2;
  case NUMBER_S8: return CUDA_R_8I;
  case NUMBER_S32: return CUDA_R_32I;
  default: return -1;
  }
}

static void problem_unref(Problem *p)
{
  if (!g_atomic_ref_count_dec(&p->references)) return;
  if (p->desc) p->library->desc_destroy(p->desc);
  if (p->a) p->library->layout_destroy(p->a);
  if (p->b) p->library->layout_destroy(p->b);
  if (p->d) p->library->layout_destroy(p->d);
  g_free(p);
}

/* The layout of a matrix rows x columns, row-major or column-major, as the library sees it: column-major,
 * transposed if it lies row-major. false: neither of its steps is 1. */
static bool make_layout(CublasLt *l, void **layout, NumberType type, int64_t rows, int64_t columns,
                        const int64_t steps[2], int64_t batch, int64_t batch_step, bool *turned,
                        GError **error)
{
  bool row_major = steps[1] == 1 || columns == 1;
  int32_t count = (int32_t)batch;
  if (!row_major && steps[0] != 1 && rows != 1) {
    error_set(error, ERROR_UNSUPPORTED, NULL, "no-algorithm", NULL, "cuBLASLt: a matrix has gaps both ways");
    return false;
  }
  *turned = row_major;
  int64_t leading = row_major ? MAX(steps[0], columns) : MAX(steps[1], rows);
  int64_t inner = row_major ? columns : rows, outer = row_major ? rows : columns;
  return check(l->layout_create(layout, type_of(type), (uint64_t)inner, (uint64_t)outer, leading), "layout",
               error) &&
         check(l->layout_set(*layout, LAYOUT_BATCH_COUNT, &count, sizeof count), "batch", error) &&
         check(l->layout_set(*layout, LAYOUT_BATCH_STEP, &batch_step, sizeof batch_step), "batch", error);
}

/* Sets of tensors have scales of their own, so a launch says where they are. */
static bool set_scales(const Problem *p, unsigned set, GError **error)
{
  CublasLt *l = p->library;
  const BenchProduct *product = &p->tensors->c->product;
  uint64_t scale[2];
  for (unsigned i = 0; i < 2; i++)
    scale[i] = product->scale[i] ? bench_tensor_address(p->tensors, set, product->scale[i]) : l->one;
  /* their first operand is our B */
  return check(l->desc_set(p->desc, DESC_A_SCALE_POINTER, &scale[1], sizeof scale[1]), "scale", error) &&
         check(l->desc_set(p->desc, DESC_B_SCALE_POINTER, &scale[0], sizeof scale[0]), "scale", error);
}

static bool set_accumulation(const Problem *p, bool fast, GError **error)
{
  CublasLt *l = p->library;
  int8_t flag = fast;
  return set_scales(p, 0, error) &&
         check(l->desc_set(p->desc, DESC_FAST_ACCUM, &flag, sizeof flag), "fast accumulation", error);
}

/* Sets of tensors have biases of their own, too. */
static bool set_bias(const Problem *p, unsigned set, GError **error)
{
  CublasLt *l = p->library;
  uint64_t address = bench_tensor_address(p->tensors, set, p->tensors->c->product.bias);
  return check(l->desc_set(p->desc, DESC_BIAS_POINTER, &address, sizeof address), "bias", error);
}

/* What it does behind the sums. Its Gelu is the one by tanh; a vector along its rows is our bias. */
static bool set_epilogue(const Problem *p, const BenchProduct *product, GError **error)
{
  CublasLt *l = p->library;
  int32_t type = product->bias ? type_of(product->bias->type) : 0;
  uint32_t epilogue =
      (product->bias ? EPILOGUE_BIAS : 0) | (product->activation == BENCH_RELU        ? EPILOGUE_RELU
                                             : product->activation == BENCH_GELU_TANH ? EPILOGUE_GELU
                                                                                      : 0);
  if (!epilogue) epilogue = EPILOGUE_NONE;
  return check(l->desc_set(p->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue), "epilogue", error) &&
         (!product->bias ||
          (check(l->desc_set(p->desc, DESC_BIAS_TYPE, &type, sizeof type), "type of the bias", error) &&
           set_bias(p, 0, error)));
}

/* The library multiplies D^T[n, m] = B^T[n, k] A^T[k, m]: its first operand is our B. */
static bool make_problem(Problem *p, const BenchProduct *product, bool fast, GError **error)
{
  CublasLt *l = p->library;
  NumberType type = product->a->type;
  bool turned_a, turned_b, turned_d, small = type == NUMBER_E4M3 || type == NUMBER_E5M2;
  p->integer = type == NUMBER_S8;
  p->small = small;
  if (type_of(type) < 0 || type_of(product->b->type) < 0 || type_of(product->d->type) < 0) {
    error_set(error, ERROR_UNSUPPORTED, NULL, "no-algorithm", NULL,
              "cuBLASLt does not know the types of this product");
    return false;
  }
  int compute = p->integer ? COMPUTE_32I : type == NUMBER_TF32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F;
  if (!check(l->desc_create(&p->desc, compute, p->integer ? CUDA_R_32I : CUDA_R_32F), "descriptor", error) ||
      !make_layout(l, &p->a, type, product->m, product->k, product->a_step, product->batch, product->a_batch,
                   &turned_a, error) ||
      !make_layout(l, &p->b, product->b->type, product->k, product->n, product->b_step, product->batch,
                   product->b_batch, &turned_b, error) ||
      !make_layout(l, &p->d, product->d->type, product->m, product->n, product->d_step, product->batch,
                   product->d_batch, &turned_d, error))
    return false;
  if (!turned_d) {
    error_set(error, ERROR_UNSUPPORTED, NULL, "no-algorithm", NULL, "cuBLASLt: the result is not row-major");
    return false;
  }
  int32_t first = turned_b ? NO_TRANSPOSE : TRANSPOSE, second = turned_a ? NO_TRANSPOSE : TRANSPOSE;
  return check(l->desc_set(p->desc, DESC_TRANSA, &first, sizeof first), "transpose", error) &&
         check(l->desc_set(p->desc, DESC_TRANSB, &second, sizeof second), "transpose", error) &&
         (!product->fused || set_epilogue(p, product, error)) && (!small || set_accumulation(p, fast, error));
}

/* ---- candidates ---- */

static void theirs_release(BenchCandidate *candidate)
{
  Theirs *theirs = candidate->data;
  problem_unref(theirs->problem);
  g_free(theirs);
}

static bool theirs_queue(BenchCandidate *candidate, unsigned set, GError **error)
{
  const Theirs *theirs = candidate->data;
  const Problem *p = theirs->problem;
  CublasLt *l = p->library;
  const BenchProduct *product = &p->tensors->c->product;
  const float factor = (float)product->factor, kept = product->added ? 1 : 0;
  static const int32_t whole_one = 1, whole_zero = 0;
  const void *alpha = p->integer ? (const void *)&whole_one : &factor;
  const void *beta = p->integer ? (const void *)&whole_zero : &kept;
  void *a = (void *)(uintptr_t)bench_tensor_address(p->tensors, set, product->a);
  void *b = (void *)(uintptr_t)bench_tensor_address(p->tensors, set, product->b);
  void *d = (void *)(uintptr_t)bench_tensor_address(p->tensors, set, product->d);
  void *c = product->added ? (void *)(uintptr_t)bench_tensor_address(p->tensors, set, product->added) : d;
  if (product->bias && !set_bias(p, set, error)) return false;
  if (p->small && !set_scales(p, set, error)) return false;
  return check(l->matmul(l->handle, p->desc, alpha, b, p->b, a, p->a, beta, c, p->d, d, p->d,
                         &theirs->algorithm, (void *)(uintptr_t)l->workspace, theirs->workspace,
                         device_stream(l->gpu->device)),
               candidate->name, error);
}

static int32_t algorithm_value(const CublasLt *l, const Algorithm *algorithm, int attribute)
{
  int32_t value = 0;
  size_t written = 0;
  /* The cluster shape is a 16-bit value. */
  l->algorithm_get(algorithm, attribute, &value,
                   attribute == ALGORITHM_CLUSTER ? sizeof(uint16_t) : sizeof value, &written);
  return value;
}

static BenchCandidate *make_candidate(Problem *p, const HeuristicResult *result, unsigned rank, bool fast)
{
  const CublasLt *l = p->library;
  BenchCandidate *candidate = g_new0(BenchCandidate, 1);
  Theirs *theirs = g_new0(Theirs, 1);
  g_atomic_ref_count_inc(&p->references);
  theirs->problem = p;
  theirs->algorithm = result->algorithm;
  theirs->workspace = result->workspace;
  candidate->name = g_strdup_printf("cublaslt#%u", rank);
  candidate->facts = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:b}", "rank", (int)rank, "algorithm",
                               algorithm_value(l, &result->algorithm, ALGORITHM_ID), "tile",
                               algorithm_value(l, &result->algorithm, ALGORITHM_TILE), "stages",
                               algorithm_value(l, &result->algorithm, ALGORITHM_STAGES), "split_k",
                               algorithm_value(l, &result->algorithm, ALGORITHM_SPLIT_K), "cluster",
                               algorithm_value(l, &result->algorithm, ALGORITHM_CLUSTER), "workspace",
                               (json_int_t)result->workspace, "fast_accumulation", fast);
  candidate->queue = theirs_queue;
  candidate->release = theirs_release;
  candidate->data = theirs;
  return candidate;
}

static bool ask_heuristic(Problem *p, HeuristicResult *results, int *n, GError **error)
{
  CublasLt *l = p->library;
  void *preference = NULL;
  size_t workspace = CUBLASLT_WORKSPACE;
  if (!check(l->preference_create(&preference), "preference", error)) return false;
  l->preference_set(preference, PREFERENCE_WORKSPACE, &workspace, sizeof workspace);
  int status =
      l->heuristic(l->handle, p->desc, p->b, p->a, p->d, p->d, preference, CUBLASLT_ALGORITHMS, results, n);
  l->preference_destroy(preference);
  if (!status && *n) return true;
  error_set(error, ERROR_UNSUPPORTED, NULL, "no-algorithm", NULL,
            "cuBLASLt has no algorithm for this product (status %d)", status);
  return false;
}

/* Exact unless the product or the run asks for fast, as ours is. */
static bool is_fast(const BenchCase *c)
{
  Accumulate own = c->product.accumulate;
  return (own == ACCUMULATE_DEFAULT ? c->accumulate : own) == ACCUMULATE_FAST;
}

GPtrArray *cublaslt_candidates(CublasLt *l, const BenchTensors *tensors, GError **error)
{
  bool fast = is_fast(tensors->c);
  if (!tensors->c->is_product) {
    error_set(error, ERROR_UNSUPPORTED, NULL, "no-algorithm", NULL, "cuBLASLt: %s is not one matrix product",
              tensors->c->name);
    return NULL;
  }
  Problem *p = g_new0(Problem, 1);
  g_atomic_ref_count_init(&p->references);
  p->library = l;
  p->tensors = tensors;
  HeuristicResult results[CUBLASLT_ALGORITHMS];
  int n = 0;
  GPtrArray *candidates = NULL;
  memset(results, 0, sizeof results);
  if (make_problem(p, &tensors->c->product, fast, error) && ask_heuristic(p, results, &n, error)) {
    candidates = g_ptr_array_new_with_free_func((GDestroyNotify)bench_candidate_free);
    for (int i = 0; i < n; i++)
      if (!results[i].state) g_ptr_array_add(candidates, make_candidate(p, &results[i], (unsigned)i, fast));
  }
  problem_unref(p);
  return candidates;
}
