/* Executables as a stranger's program uses them, on a stand-in for the CUDA driver that counts calls
 * (tests/unit/fake_driver.c). Memory is the host's; the kernels do nothing. */
#include "../unit/fake_driver.h"
#include <adlgen/adlgen.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* Two launches: the second needs the first's result from the workspace. */
static const char chain[] =
    "{name: chain, inputs: {A: {type: bf16, shape: [M, 256]}, B: {type: bf16, shape: [256, 128]},"
    " C: {type: bf16, shape: [128, 64]}}, dims: {M: {min: 1, max: 4096}},"
    " nodes: [{op: MatMul, inputs: [A, B], outputs: [P]}, {op: MatMul, inputs: [P, C], outputs: [D]}],"
    " outputs: [D]}";
static const char product[] =
    "{name: product, inputs: {A: {type: bf16, shape: [M, 256]}, B: {type: bf16, shape: [256, 128]}},"
    " dims: {M: {min: 0, max: 4096}},"
    " nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";
static const char edges[] =
    "{name: edges, inputs: {A: {type: bf16, shape: [M, 256]}, B: {type: bf16, shape: [N, 256]}},"
    " dims: {M: {min: 1, max: 4096}, N: {min: 8, max: 4096, multiple: 8}},"
    " nodes: [{op: Gemm, inputs: [A, B], outputs: [D], attributes: {transB: 1}}], outputs: [D]}";
static const char scaled[] =
    "{name: scaled, inputs: {X: {type: f32, shape: [N]}}, constants: {s: {type: f32, shape: [4], data: "
    "[1, 2, 3, 4]}, t: {type: f32, shape: [1], data: [2]}}, dims: {N: {min: 4, max: 4}},"
    " nodes: [{op: Mul, inputs: [X, s], outputs: [Y]}], outputs: [Y]}";

/* Allocations of this thread. A sanitizer has an allocator of its own, which cannot be counted so. */
static _Thread_local unsigned allocated;
#if defined(__SANITIZE_ADDRESS__)
#define COUNTS 0
#elif defined(__has_feature)
#define COUNTS !__has_feature(address_sanitizer)
#else
#define COUNTS 1
#endif
#if COUNTS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
  allocated++;
  return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
  allocated++;
  return __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
  allocated++;
  return __libc_realloc(memory, size);
}
#endif

static Fake *seen;
static void *(*context_of)(int device, int own);
static int (*set_current)(void *context);
static _Alignas(4096) char memory[8][4096];

static adlgen_executable *jit(const char *text, const char *gpu_name, adlgen_options *options,
                              adlgen_error *error)
{
  adlgen_gpu *gpu = gpu_name ? adlgen_gpu_load(gpu_name, NULL) : NULL;
  adlgen_executable *x = adlgen_jit_text("graph", text, strlen(text), gpu, options, error);
  adlgen_gpu_free(gpu);
  return x;
}

static adlgen_executable *must_jit(const char *text, const char *gpu_name)
{
  adlgen_error error = {0};
  adlgen_executable *x = jit(text, gpu_name, NULL, &error);
  if (!x) fail_msg("%s", error.message);
  return x;
}

static void assert_message(adlgen_error *error, int code, const char *message)
{
  assert_int_equal(error->code, code);
  assert_string_equal(error->message, message);
}

static int launch(adlgen_executable *x, const void *const *tensors, long long m, void *workspace,
                  size_t bytes, adlgen_error *error)
{
  return adlgen_launch(x, (void *)77, tensors, &m, workspace, bytes, error);
}

static void test_devices(void **state)
{
  adlgen_device device = {.size = sizeof device};
  assert_int_equal(adlgen_device_count(NULL), 2);
  assert_int_equal(adlgen_device_get(0, &device, NULL), 0);
  assert_string_equal(device.name, "Stand-in");
  assert_int_equal(device.capability_major, 9);
  assert_int_equal(device.sm_count, 132);
  assert_int_equal(device.shared_per_block, 232448);
  adlgen_error error = {0};
  assert_int_equal(adlgen_device_get(2, &device, &error), ADLGEN_ERROR_MISSING_TOOL);
  assert_message(&error, 4, "there is no GPU 2: the CUDA driver knows of 2");
  adlgen_error_clear(&error);
}

/* The description is chosen by the device's figures. */
static void test_nearest_gpu(void **state)
{
  static const struct {
    int capability, sms;
    size_t gib;
    const char *name;
  } cases[] = {{90, 132, 80, "h100"},    {90, 114, 80, "h100-pcie"},     {90, 132, 141, "h200"},
               {90, 78, 96, "h20"},      {80, 108, 40, "a100-sxm-40gb"}, {80, 100, 80, "a100"},
               {89, 128, 24, "rtx4090"}, {86, 82, 24, "a100-sxm-40gb"},  {100, 148, 180, "l40s"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    seen->capability = cases[i].capability;
    seen->sm_count = cases[i].sms;
    seen->memory = cases[i].gib << 30;
    adlgen_gpu *gpu = adlgen_gpu_of_device(0, NULL);
    assert_non_null(gpu);
    assert_string_equal(adlgen_gpu_name(gpu), cases[i].name);
    adlgen_gpu_free(gpu);
  }
  seen->capability = 75;
  adlgen_error error = {0};
  assert_null(adlgen_gpu_of_device(0, &error));
  assert_message(&error, 3, "no description fits Stand-in of compute capability 7.5");
  adlgen_error_clear(&error);
}

static void test_description(void **state)
{
  adlgen_executable *x = must_jit(chain, NULL);
  assert_string_equal(adlgen_executable_gpu(x), "h100");
  assert_int_equal(adlgen_executable_dim_count(x), 1);
  assert_string_equal(adlgen_executable_dim(x, 0), "M");
  assert_null(adlgen_executable_dim(x, 1));
  assert_int_equal(adlgen_executable_tensor_count(x), 4);
  static const char *const names[] = {"A", "B", "C", "D"};
  const long long m = 5;
  for (size_t i = 0; i < 4; i++) {
    adlgen_tensor tensor = {.size = sizeof tensor};
    assert_int_equal(adlgen_executable_tensor(x, i, &m, &tensor, NULL), 0);
    assert_string_equal(tensor.name, names[i]);
    assert_string_equal(tensor.type, "bf16");
    assert_int_equal(tensor.kind, i < 3 ? ADLGEN_INPUT : ADLGEN_OUTPUT);
  }
  adlgen_tensor tensor = {.size = sizeof tensor};
  assert_int_equal(adlgen_executable_tensor(x, 3, &m, &tensor, NULL), 0);
  assert_int_equal(tensor.shape[0], 5);
  assert_int_equal(tensor.strides[0], 64);
  assert_int_equal(tensor.bytes, 5 * 64 * 2);
  size_t bytes = 0;
  assert_int_equal(adlgen_executable_workspace(x, &m, &bytes, NULL), 0);
  assert_true(bytes >= 5 * 128 * 2);
  adlgen_error error = {0};
  const long long wrong = 5000;
  assert_int_equal(adlgen_executable_workspace(x, &wrong, &bytes, &error), 1);
  assert_message(&error, 1, "M=5000 is not a multiple of 1 between 1 and 4096");
  assert_int_equal(adlgen_executable_tensor(x, 4, &m, &tensor, &error), 1);
  assert_message(&error, 1, "chain has 4 tensors, there is no number 4");
  adlgen_error_clear(&error);
  adlgen_executable_free(x);
  assert_int_equal(seen->modules, 0);
  assert_int_equal(seen->retained, 0);
}

/* A set of arguments seen before costs the driver's launches and nothing else. */
static void test_launch(void **state)
{
  adlgen_executable *x = must_jit(chain, "h100");
  const void *tensors[] = {memory[0], memory[1], memory[2], memory[3]};
  size_t bytes = 0;
  const long long m = 200;
  assert_int_equal(adlgen_executable_workspace(x, &m, &bytes, NULL), 0);
  void *workspace = aligned_alloc(256, (bytes + 255) / 256 * 256);
  unsigned before = seen->launches;
  int allocations = seen->allocations;
  assert_int_equal(launch(x, tensors, m, workspace, bytes, NULL), 0);
  assert_int_equal(seen->launches - before, 2);
  const FakeLaunch *first = &seen->launched[before % FAKE_LAUNCHES];
  assert_ptr_equal(first->stream, (void *)77);
  assert_ptr_equal(first->context, context_of(0, 0));
  assert_true(first->words[0] >= 1 && first->words[3] >= 128 && first->words[9] > 0);
  unsigned encodes = seen->encodes;
  assert_true(encodes > 0); /* the tensors are aligned: by tensor maps */
  free(malloc(1));
  assert_true(!COUNTS || allocated); /* the count counts */
  unsigned heap = allocated;
  for (int i = 0; i < 100; i++)
    assert_int_equal(launch(x, tensors, m, workspace, bytes, NULL), 0);
  const void *others[] = {memory[4], memory[1], memory[2], memory[3]};
  assert_int_equal(launch(x, others, m, workspace, bytes, NULL), 0); /* nor does another set allocate */
  assert_int_equal(allocated, heap);
  unsigned replaced = seen->encodes - encodes;
  assert_int_equal(launch(x, tensors, m, workspace, bytes, NULL), 0);
  assert_int_equal(seen->launches - before, 206);
  assert_int_equal(seen->encodes, encodes + replaced);
  assert_int_equal(seen->allocations, allocations);
  assert_int_equal(seen->fills, 0);
  /* With the same context current nothing is pushed, and what was current stays so. */
  set_current(context_of(0, 0));
  unsigned pushes = seen->pushes;
  assert_int_equal(launch(x, tensors, m, workspace, bytes, NULL), 0);
  assert_int_equal(seen->pushes, pushes);
  set_current(NULL);
  free(workspace);
  adlgen_executable_free(x);
}

/* Rows of the box that the last maps of a tensor with so many rows have: the largest, and another one. */
static void boxes_of(unsigned before, uint64_t rows, unsigned *whole, unsigned *edge)
{
  *whole = *edge = 0;
  for (unsigned i = before; i < seen->encodes; i++) {
    const FakeMap *map = &seen->encoded[i % FAKE_LAUNCHES];
    if (map->rows == rows && map->box > *whole) *whole = map->box;
  }
  for (unsigned i = before; i < seen->encodes; i++) {
    const FakeMap *map = &seen->encoded[i % FAKE_LAUNCHES];
    if (map->rows == rows && map->box < *whole) *edge = map->box;
  }
}

/* The last tile's copies end with the tensor, whose size only the launch knows (clip_copies): the kernel
 * counts on as many bytes as these boxes have. */
static void test_edges(void **state)
{
  adlgen_executable *x = must_jit(edges, "h100");
  static const long long sizes[][2] = {{77, 72}, {205, 136}, {1, 264}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const void *tensors[] = {memory[0], memory[1], memory[2]};
    unsigned before = seen->encodes, whole, edge;
    assert_int_equal(adlgen_launch(x, (void *)77, tensors, sizes[i], NULL, 0, NULL), 0);
    for (int d = 0; d < 2; d++) {
      boxes_of(before, (uint64_t)sizes[i][d], &whole, &edge);
      unsigned last = whole ? (unsigned)(sizes[i][d] - 1) % whole + 1 : 0;
      assert_true(whole >= 8);
      if (last < whole - 1) assert_in_range(edge, last, last + 1); /* columns go in pairs */
    }
  }
  adlgen_executable_free(x);
}

/* Other addresses re-encode nothing but the addresses; each set of the last few stays. */
static void test_slots(void **state)
{
  adlgen_executable *x = must_jit(product, "h100");
  const void *sets[3][3] = {{memory[0], memory[1], memory[2]},
                            {memory[3], memory[1], memory[2]},
                            {memory[0], memory[1], memory[4]}};
  for (int i = 0; i < 3; i++)
    assert_int_equal(launch(x, sets[i], 64, NULL, 0, NULL), 0);
  /* where addresses lie decides which slots the sets share: the third may have driven out one of the others
   */
  for (int i = 0; i < 4; i++)
    assert_int_equal(launch(x, sets[i % 2], 64, NULL, 0, NULL), 0);
  unsigned work = seen->encodes + seen->replaces;
  for (int round = 0; round < 10; round++)
    for (int i = 0; i < 2; i++)
      assert_int_equal(launch(x, sets[i], 64, NULL, 0, NULL), 0);
  assert_int_equal(seen->encodes + seen->replaces, work);
  /* Through all slots: from then on maps are only given other addresses. */
  for (int i = 0; i < 64; i++) {
    const void *tensors[] = {memory[0] + 16 * i, memory[1], memory[2]};
    assert_int_equal(launch(x, tensors, 64, NULL, 0, NULL), 0);
  }
  unsigned encodes = seen->encodes, replaces = seen->replaces;
  const void *other[] = {memory[5], memory[6], memory[7]};
  assert_int_equal(launch(x, other, 64, NULL, 0, NULL), 0);
  assert_int_equal(seen->encodes, encodes);
  assert_true(seen->replaces > replaces);
  /* The same addresses with other dimensions are another set. */
  unsigned at = seen->launches;
  assert_int_equal(launch(x, other, 4000, NULL, 0, NULL), 0);
  assert_int_equal(launch(x, other, 64, NULL, 0, NULL), 0);
  assert_int_not_equal(seen->launched[at % FAKE_LAUNCHES].words[0],
                       seen->launched[(at + 1) % FAKE_LAUNCHES].words[0]);
  /* Unaligned addresses take another variant, dimensions of 0 launch nothing. */
  unsigned launches = seen->launches;
  const void *odd[] = {memory[0] + 2, memory[1], memory[2]};
  unsigned threads = seen->launched[(launches - 1) % FAKE_LAUNCHES].words[3];
  assert_int_equal(launch(x, odd, 64, NULL, 0, NULL), 0);
  assert_int_not_equal(seen->launched[launches % FAKE_LAUNCHES].words[3], threads);
  const void *nothing[] = {NULL, memory[1], NULL};
  launches = seen->launches;
  assert_int_equal(launch(x, nothing, 0, NULL, 0, NULL), 0);
  assert_int_equal(seen->launches, launches);
  adlgen_executable_free(x);
}

/* Blocks of a streamed kernel meet at flags that are the executable's own, a block of them for each
 * workspace. */
static void test_flags(void **state)
{
  static const char *const sets[] = {"stream_k=2", "bm=64", "bn=64", "stages=3", NULL};
  enum { WORKSPACES = 6, AT_START = 4 };
  adlgen_options options = {.size = sizeof options, .sets = sets};
  adlgen_error error = {0};
  int before = seen->allocations;
  adlgen_executable *x = jit(product, "h100", &options, &error);
  if (!x) fail_msg("%s", error.message);
  assert_int_equal(seen->allocations, before + AT_START);
  const void *tensors[] = {memory[0], memory[1], memory[2]};
  const long long m = 200;
  size_t bytes = 0;
  assert_int_equal(adlgen_executable_workspace(x, &m, &bytes, NULL), 0);
  assert_true(bytes >= 132 * 64 * 64 * 4); /* a row of sums for each block that may run */
  void *workspaces[WORKSPACES];
  for (int i = 0; i < WORKSPACES; i++)
    workspaces[i] = aligned_alloc(256, (bytes + 255) / 256 * 256);
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < WORKSPACES; i++)
      assert_int_equal(launch(x, tensors, m, workspaces[i], bytes, NULL), 0);
  assert_int_equal(seen->allocations, before + WORKSPACES);
  assert_int_equal(seen->fills, 0); /* nothing is cleared between launches */
  for (int i = 0; i < WORKSPACES; i++)
    free(workspaces[i]);
  adlgen_executable_free(x);
  assert_int_equal(seen->allocations, before);
}

static void test_refusals(void **state)
{
  adlgen_executable *x = must_jit(chain, "h100");
  adlgen_error error = {0};
  const void *tensors[] = {memory[0], memory[1], memory[2], memory[3]};
  _Alignas(256) static char workspace[65536];
  unsigned launches = seen->launches;
  assert_int_equal(launch(x, tensors, 0, workspace, sizeof workspace, &error), 1);
  assert_message(&error, 1, "M=0 is not a multiple of 1 between 1 and 4096");
  assert_int_equal(launch(x, tensors, 64, workspace, 100, &error), 1);
  assert_message(&error, 1, "the workspace has 100 bytes, these dimensions need 16384");
  assert_int_equal(launch(x, tensors, 64, NULL, sizeof workspace, &error), 1);
  assert_message(&error, 1, "the workspace has 0 bytes, these dimensions need 16384");
  assert_int_equal(launch(x, tensors, 64, workspace + 8, 60000, &error), 1);
  assert_non_null(strstr(error.message, "which is not aligned to 256 bytes"));
  tensors[1] = memory[1] + 1;
  assert_int_equal(launch(x, tensors, 64, workspace, sizeof workspace, &error), 1);
  assert_non_null(strstr(error.message, "B lies at 0x"));
  tensors[1] = NULL;
  assert_int_equal(launch(x, tensors, 64, workspace, sizeof workspace, &error), 1);
  assert_message(&error, 1, "B has no address");
  assert_int_equal(adlgen_launch(x, NULL, NULL, NULL, NULL, 0, &error), 1);
  assert_message(&error, 1, "chain needs 4 tensors and 1 dimensions");
  assert_int_equal(seen->launches, launches);
  tensors[1] = memory[1];
  seen->refuse = 719;
  assert_int_equal(launch(x, tensors, 64, workspace, sizeof workspace, &error), ADLGEN_ERROR_RUN);
  assert_non_null(strstr(error.message, "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED, 719)"));
  seen->refuse = 0;
  /* A failed launch leaves nothing behind that the next would take for good. */
  assert_int_equal(launch(x, tensors, 64, workspace, sizeof workspace, NULL), 0);
  assert_int_equal(launch(x, tensors, 64, workspace, 100, &error), 1);
  adlgen_error_clear(&error);
  adlgen_executable_free(x);
}

static void test_constants(void **state)
{
  adlgen_executable *x = must_jit(scaled, "h100");
  assert_int_equal(seen->allocations, 1);
  adlgen_tensor tensor = {.size = sizeof tensor};
  assert_int_equal(adlgen_executable_tensor(x, 1, NULL, &tensor, NULL), 0);
  assert_string_equal(tensor.name, "s");
  assert_int_equal(tensor.kind, ADLGEN_CONSTANT);
  const void *tensors[] = {memory[0], NULL, memory[1]};
  assert_int_equal(launch(x, tensors, 4, NULL, 0, NULL), 0);
  adlgen_executable_free(x);
  assert_int_equal(seen->allocations, 0);
}

#define EIGHT "1, 2, 3, 4, 5, 6, 7, 8, "
#define LAST  "1, 2, 3, 4, 5, 6, 7, 8"
/* Products of one input with two constants, whose columns are seen as heads: the plan has one constant for both. */
static const char stacked[] =
    "{name: stacked, inputs: {X: {type: f16, shape: [M, 8]}}, dims: {M: {min: 1, max: 64}},"
    " constants: {a: {type: f16, shape: [8, 8], data: [" EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT LAST "]},"
    " b: {type: f16, shape: [8, 16], data: [" EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT
        EIGHT EIGHT EIGHT EIGHT EIGHT LAST "]}, to: {type: s64, shape: [3], data: [0, 2, -1]}},"
    " nodes: [{op: MatMul, inputs: [X, a], outputs: [p]}, {op: MatMul, inputs: [X, b], outputs: [q]},"
    " {op: Reshape, inputs: [p, to], outputs: [p1]}, {op: Reshape, inputs: [q, to], outputs: [q1]},"
    " {op: Relu, inputs: [p1], outputs: [Y]}, {op: Relu, inputs: [q1], outputs: [Z]}], outputs: [Y, Z]}";

/* Two executables with one copy, which both see replaced, and which outlives the first. */
static void test_shared_constants(void **state)
{
  adlgen_error error = {0};
  adlgen_executable *first = must_jit(scaled, "h100");
  assert_int_equal(seen->allocations, 1);
  adlgen_options options = {.size = sizeof options, .constants_of = first};
  adlgen_executable *second = jit(scaled, "h100", &options, NULL);
  assert_int_equal(seen->allocations, 1);
  const float values[] = {5, 6, 7, 8};
  assert_int_equal(adlgen_executable_set_constant(second, "s", values, sizeof values, NULL), 0);
  assert_int_equal(adlgen_executable_set_constant(second, "s", values, 12, &error), 1);
  assert_string_equal(error.message, "constant s has 16 bytes, not 12");
  assert_int_equal(adlgen_executable_set_constant(second, "t", values, 4, &error), 1);
  assert_string_equal(error.message, "scaled has no constant t on the GPU");
  adlgen_error_clear(&error);
  adlgen_executable_free(first);
  assert_int_equal(seen->allocations, 1);
  const void *tensors[] = {memory[0], NULL, memory[1]};
  assert_int_equal(launch(second, tensors, 4, NULL, 0, NULL), 0);
  adlgen_executable_free(second);
  assert_int_equal(seen->allocations, 0);
}

/* The first argument of the first launch is the stack, in memory of the stand-in. */
static const uint16_t *launch_stacked(adlgen_executable *x)
{
  const void *tensors[] = {memory[0], NULL, memory[1], memory[2]};
  long long dims[] = {4};
  adlgen_error error = {0};
  unsigned at = seen->launches % FAKE_LAUNCHES;
  if (adlgen_launch(x, NULL, tensors, dims, memory[3], sizeof memory[3], &error))
    fail_msg("%s", error.message);
  return (const uint16_t *)(uintptr_t)seen->launched[at].first[0];
}

/* Parts of a stack get their columns of each row: 8 of a, then 16 of b. */
static void test_stacked_constants(void **state)
{
  adlgen_executable *x = must_jit(stacked, "h100");
  assert_int_equal(seen->allocations, 1);
  const uint16_t *stack = launch_stacked(x);
  for (unsigned i = 0; i < 8 * 24; i++) /* rows of 1 .. 8 in f16 */
    assert_int_equal(stack[i], stack[i % 8]);
  assert_int_equal(stack[0], 0x3c00);
  uint16_t a[8 * 8], b[8 * 16];
  for (unsigned i = 0; i < 8 * 16; i++) {
    a[i % 64] = (uint16_t)(1000 + i % 64);
    b[i] = (uint16_t)(2000 + i);
  }
  assert_int_equal(adlgen_executable_set_constant(x, "b", b, sizeof b, NULL), 0);
  assert_int_equal(stack[0], 0x3c00);
  assert_int_equal(adlgen_executable_set_constant(x, "a", a, sizeof a, NULL), 0);
  assert_ptr_equal(launch_stacked(x), stack);
  for (unsigned i = 0; i < 8 * 24; i++)
    assert_int_equal(stack[i], i % 24 < 8 ? 1000 + i / 24 * 8 + i % 24 : 2000 + i / 24 * 16 + i % 24 - 8);
  adlgen_executable_free(x);
}

/* A warm start assembles nothing; other options, another GPU or another text are other entries. */
static void test_cache(void **state)
{
  char folder[] = "adlgen-test-cache-XXXXXX";
  adlgen_options options = {.size = sizeof options, .cache_dir = mkdtemp(folder)};
  adlgen_executable *x = jit(product, "h100", &options, NULL);
  assert_non_null(x);
  assert_int_equal(adlgen_executable_load(x, NULL), 0);
  size_t kernels = adlgen_executable_assembled(x);
  assert_true(kernels > 0);
  adlgen_executable_free(x);
  x = jit(product, "h100", &options, NULL);
  assert_int_equal(adlgen_executable_assembled(x), 0);
  assert_int_equal(adlgen_executable_warning_count(x), 0);
  const void *tensors[] = {memory[0], memory[1], memory[2]};
  unsigned launches = seen->launches;
  assert_int_equal(launch(x, tensors, 64, NULL, 0, NULL), 0);
  assert_int_equal(seen->launches, launches + 1);
  adlgen_executable_free(x);
  const char *dims[] = {"M=64", NULL};
  options.dims = dims;
  x = jit(product, "h100", &options, NULL);
  assert_int_equal(adlgen_executable_dim_count(x), 0);
  adlgen_executable_free(x);
  options.dims = NULL;
  x = jit(product, "a100", &options, NULL);
  assert_int_equal(adlgen_executable_load(x, NULL), 0);
  assert_true(adlgen_executable_assembled(x) > 0);
  adlgen_executable_free(x);
  options.cache_dir = "";
  x = jit(product, "h100", &options, NULL);
  assert_int_equal(adlgen_executable_load(x, NULL), 0);
  assert_int_equal(adlgen_executable_assembled(x), kernels);
  adlgen_executable_free(x);
  options.cache_dir = "/proc/adlgen";
  x = jit(product, "h100", &options, NULL);
  assert_int_equal(adlgen_executable_load(x, NULL), 0);
  assert_int_equal(adlgen_executable_assembled(x), kernels);
  assert_non_null(
      strstr(adlgen_executable_warning(x, 0), "the cache is not used: cannot make /proc/adlgen/"));
  adlgen_executable_free(x);
  adlgen_error error = {0};
  options.assembler = 7;
  assert_null(jit(product, "h100", &options, &error));
  assert_message(&error, 2, "there is no assembler 7");
  options.assembler = ADLGEN_ASSEMBLER_NVJITLINK;
  setenv("ADLGEN_NVJITLINK", "/does/not/exist", 1);
  assert_null(jit(product, "h100", &options, &error));
  assert_message(&error, 4, "libnvJitLink was not found; looked for /does/not/exist by the system's loader");
  unsetenv("ADLGEN_NVJITLINK");
  adlgen_error_clear(&error);
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

/* Kernels are loaded when they are needed, each once. */
static void test_background(void **state)
{
  adlgen_executable *x = must_jit(product, "h100");
  const void *tensors[] = {memory[0], memory[1], memory[2]}, *odd[] = {memory[0] + 2, memory[1], memory[2]};
  assert_int_equal(seen->modules, 0);
  assert_int_equal(launch(x, tensors, 64, NULL, 0, NULL), 0);
  assert_int_equal(launch(x, tensors, 63, NULL, 0, NULL), 0);
  assert_int_equal(seen->modules, 1);
  assert_int_equal(launch(x, odd, 64, NULL, 0, NULL), 0);
  assert_int_equal(seen->modules, 2);
  assert_int_equal(adlgen_executable_load(x, NULL), 0);
  int all = seen->modules;
  assert_true(all > 2);
  assert_int_equal(adlgen_executable_load(x, NULL), 0);
  assert_int_equal(launch(x, tensors, 4000, NULL, 0, NULL), 0);
  assert_int_equal(seen->modules, all);
  adlgen_executable_free(x);
  assert_int_equal(seen->modules, 0);
}

/* An assembler that answers and then does as `then` says. */
static void write_assembler(const char *path, const char *then)
{
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(
      file,
      "#!/bin/sh\ncase $1 in\n--version) echo V13.0.88 ;;\n--help) echo \"'sm_90a'\" ;;\n*) %s ;;\nesac\n",
      then);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(chmod(path, 0700), 0);
}

/* What the assembler says is the error of the launch that needs the kernel, and of nothing before. */
static void test_background_faults(void **state)
{
  char folder[] = "adlgen-test-assembler-XXXXXX", path[64], command[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/ptxas", folder);
  write_assembler(path, "echo 'ptxas fatal   : no'; exit 1");
  adlgen_options options = {.size = sizeof options, .cache_dir = "", .ptxas = path};
  adlgen_error error = {0};
  adlgen_executable *x = jit(product, "h100", &options, &error);
  if (!x) fail_msg("%s", error.message);
  const void *tensors[] = {memory[0], memory[1], memory[2]};
  unsigned launches = seen->launches;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(launch(x, tensors, 64, NULL, 0, &error), ADLGEN_ERROR_INTERNAL);
    assert_non_null(strstr(error.message, "ptxas 13.0.88 refused matmul"));
    assert_non_null(strstr(error.message, "ptxas fatal   : no"));
  }
  assert_int_equal(adlgen_executable_load(x, &error), ADLGEN_ERROR_INTERNAL);
  assert_int_equal(seen->launches, launches);
  assert_int_equal(seen->modules, 0);
  adlgen_executable_free(x);
  /* One that never ends is stopped, or this test does not end either. */
  write_assembler(path, "exec sleep 1000");
  x = jit(product, "h100", &options, &error);
  if (!x) fail_msg("%s", error.message);
  adlgen_executable_free(x);
  adlgen_error_clear(&error);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static size_t count_entries(const char *folder)
{
  char command[100], line[32] = "";
  snprintf(command, sizeof command, "find %s -name '*.entry' | wc -l", folder);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  assert_non_null(fgets(line, sizeof line, pipe));
  pclose(pipe);
  return (size_t)strtoul(line, NULL, 10);
}

/* A program that ends before its kernels are assembled leaves plan and PTX behind; the next start assembles
 * what is missing, and machine code takes the place of PTX. */
static void test_early_end(void **state)
{
  char folder[] = "adlgen-test-early-XXXXXX", path[64], command[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/ptxas", folder);
  adlgen_options options = {.size = sizeof options, .cache_dir = folder, .ptxas = path, .jobs = 2};
  write_assembler(path, "exec sleep 1000");
  adlgen_executable *x = jit(chain, "h100", &options, NULL);
  assert_non_null(x);
  adlgen_executable_free(x);
  size_t first = count_entries(folder);
  write_assembler(path, "printf '\\177ELF\\000' > kernel.cubin");
  x = jit(chain, "h100", &options, NULL);
  assert_non_null(x);
  assert_int_equal(adlgen_executable_load(x, NULL), 0);
  size_t kernels = (size_t)seen->modules;
  assert_true(kernels > 4);
  assert_int_equal(adlgen_executable_assembled(x), kernels);
  adlgen_executable_free(x);
  assert_int_equal(first, kernels + 2);                 /* the plan, and what the tool said of itself */
  assert_int_equal(count_entries(folder), kernels + 3); /* and what the other one said */
  x = jit(chain, "h100", &options, NULL);
  assert_int_equal(adlgen_executable_load(x, NULL), 0);
  assert_int_equal(adlgen_executable_assembled(x), 0);
  adlgen_executable_free(x);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static void test_contexts(void **state)
{
  adlgen_options options = {.size = sizeof options, .device = 2};
  adlgen_executable *second = jit(product, "h100", &options, NULL);
  assert_non_null(second);
  assert_int_equal(seen->retained, 1);
  set_current(context_of(0, 1));
  adlgen_executable *own = jit(product, "h100", NULL, NULL);
  assert_non_null(own);
  assert_int_equal(seen->retained, 1); /* the caller's context is used as it is */
  const void *tensors[] = {memory[0], memory[1], memory[2]};
  unsigned at = seen->launches;
  assert_int_equal(launch(second, tensors, 64, NULL, 0, NULL), 0);
  assert_int_equal(launch(own, tensors, 64, NULL, 0, NULL), 0);
  assert_ptr_equal(seen->launched[at % FAKE_LAUNCHES].context, context_of(1, 0));
  assert_ptr_equal(seen->launched[(at + 1) % FAKE_LAUNCHES].context, context_of(0, 1));
  adlgen_executable_free(second);
  adlgen_executable_free(own);
  set_current(NULL);
  assert_int_equal(seen->modules, 0);
}

static void test_warnings(void **state)
{
  seen->sm_count = 114;
  seen->memory = (size_t)40 << 30;
  adlgen_executable *x = must_jit(product, "h100");
  assert_int_equal(adlgen_executable_warning_count(x), 2);
  assert_string_equal(adlgen_executable_warning(x, 0), "h100 describes 132 SMs, this Stand-in has 114");
  assert_string_equal(adlgen_executable_warning(x, 1),
                      "h100 describes 76294 MiB of memory, this Stand-in has 40960 MiB");
  assert_null(adlgen_executable_warning(x, 2));
  adlgen_executable_free(x);
  seen->sm_count = 108;
  seen->memory = (size_t)80 << 30;
  x = must_jit(product, "a100");
  assert_string_equal(adlgen_executable_warning(x, 0),
                      "kernels for a100 (sm_80) are assembled for sm_90 to run on Stand-in");
  adlgen_executable_free(x);
  adlgen_error error = {0};
  seen->shared = 65536;
  assert_null(jit(product, "h100", NULL, &error));
  assert_int_equal(error.code, ADLGEN_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "of shared memory per block, this Stand-in has 65536"));
  seen->capability = 80;
  assert_null(jit(product, "h100", NULL, &error));
  assert_message(&error, 3,
                 "kernels for sm_90a cannot run on this Stand-in, which is of compute capability 8.0");
  adlgen_error_clear(&error);
}

/* ---- threads ---- */

typedef struct Worker {
  adlgen_executable *x;
  unsigned index;
  int failures;
} Worker;

static void *work(void *data)
{
  Worker *worker = data;
  for (unsigned i = 0; i < 2000; i++) {
    /* each thread its own A, sometimes another M */
    const void *tensors[] = {memory[worker->index % 8], memory[1], memory[2]};
    worker->failures += launch(worker->x, tensors, 1 + i % 3 * 64, NULL, 0, NULL) != 0;
  }
  return NULL;
}

static void test_threads(void **state)
{
  enum { THREADS = 12 }; /* more than there are slots */
  adlgen_executable *x = must_jit(product, "h100");
  pthread_t threads[THREADS];
  Worker workers[THREADS];
  unsigned before = seen->launches;
  for (unsigned i = 0; i < THREADS; i++) {
    workers[i] = (Worker){x, i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (unsigned i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(workers[i].failures, 0);
  }
  assert_int_equal(seen->launches - before, THREADS * 2000);
  adlgen_executable_free(x);
}

static int reset(void **state)
{
  *seen =
      (Fake){.devices = 2, .sm_count = 132, .capability = 90, .shared = 232448, .memory = (size_t)80 << 30};
  set_current(NULL);
  return 0;
}

int main(void)
{
  const char *path = getenv("ADLGEN_CUDA_LIBRARY");
  void *library = path ? dlopen(path, RTLD_NOW) : NULL;
  seen = library ? dlsym(library, "fake") : NULL;
  if (!seen) return 99;
  *(void **)&context_of = dlsym(library, "fake_context");
  *(void **)&set_current = dlsym(library, "cuCtxSetCurrent");
  adlgen_result *result = NULL;
  adlgen_gpu *gpu = adlgen_gpu_load("h100", NULL);
  adlgen_options options = {.size = sizeof options, .assemble = 1};
  adlgen_error error = {0};
  result = adlgen_compile_text("graph", product, strlen(product), gpu, &options, &error);
  bool lacks_assembler = !result && error.code == ADLGEN_ERROR_MISSING_TOOL;
  adlgen_result_free(result);
  adlgen_gpu_free(gpu);
  adlgen_error_clear(&error);
  if (lacks_assembler) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_devices, reset),
      cmocka_unit_test_setup(test_nearest_gpu, reset),
      cmocka_unit_test_setup(test_description, reset),
      cmocka_unit_test_setup(test_launch, reset),
      cmocka_unit_test_setup(test_slots, reset),
      cmocka_unit_test_setup(test_flags, reset),
      cmocka_unit_test_setup(test_edges, reset),
      cmocka_unit_test_setup(test_refusals, reset),
      cmocka_unit_test_setup(test_constants, reset),
      cmocka_unit_test_setup(test_shared_constants, reset),
      cmocka_unit_test_setup(test_stacked_constants, reset),
      cmocka_unit_test_setup(test_contexts, reset),
      cmocka_unit_test_setup(test_cache, reset),
      cmocka_unit_test_setup(test_warnings, reset),
      cmocka_unit_test_setup(test_threads, reset),
      cmocka_unit_test_setup(test_background, reset),
      cmocka_unit_test_setup(test_background_faults, reset),
      cmocka_unit_test_setup(test_early_end, reset),
  };
  return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
