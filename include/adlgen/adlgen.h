/* adlgen: GPU kernels from a description of operators and one of a GPU.
 *
 *   adlgen_error error = {0};
 *   adlgen_gpu *gpu = adlgen_gpu_load("gpu.yaml", &error);
 *   adlgen_result *result = gpu ? adlgen_compile_file("graph.json", gpu, NULL, &error) : NULL;
 *   if (!result) fprintf(stderr, "%s:%u: %s\n", error.file, error.line, error.message);
 *   for (size_t i = 0; result && i < adlgen_result_kernel_count(result); i++)
 *     puts(adlgen_result_ptx(result, i));
 *   adlgen_result_free(result);
 *   adlgen_gpu_free(gpu);
 *   adlgen_error_clear(&error);
 *
 * Errors.         A function that can fail takes an adlgen_error, which may be NULL, and returns NULL on
 *                 failure. No function prints, exits or aborts because of bad input. Out of memory aborts, as
 *                 in GLib.
 * Ownership.      What a function returns as an object is the caller's and goes back to its _free function,
 *                 which takes NULL. Strings and bytes returned as const belong to the object they were asked
 *                 of and live as long.
 * Thread-safety.  There is no global state: any functions may run at once on different objects. A loaded GPU
 *                 is immutable and may be shared between threads; a result may be read by several threads.
 * Shapes, units.  Shapes and strides of a description are in elements, row-major unless it says otherwise;
 *                 sizes of memory are in bytes. Dimensions are 32-bit, byte offsets 64-bit. docs/plan.md
 *                 describes the plan.
 * Compatibility.  Functions are only added, and fields only at the end of adlgen_options, which carries its
 *                 size. */
#ifndef ADLGEN_H
#define ADLGEN_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ADLGEN_API __attribute__((visibility("default")))
#else
#define ADLGEN_API
#endif

/* The library's version, "MAJOR.MINOR.PATCH". */
ADLGEN_API const char *adlgen_version(void);

/* ---- Errors ---- */

/* Codes are the exit codes of the command line. */
enum {
  ADLGEN_ERROR_INPUT = 1,        /* what was named or written is wrong or unreadable */
  ADLGEN_ERROR_USAGE = 2,        /* an option or its value is wrong */
  ADLGEN_ERROR_UNSUPPORTED = 3,  /* valid, but not supported */
  ADLGEN_ERROR_MISSING_TOOL = 4, /* the assembler, the CUDA driver or a GPU is missing or too old */
  ADLGEN_ERROR_RUN = 5,          /* the CUDA driver refused a kernel or a launch */
  ADLGEN_ERROR_INTERNAL = 70     /* a fault of adlgen */
};

/* The first fault found. Start with {0}; its strings belong to it until adlgen_error_clear(). A function that
 * succeeds leaves it alone; one that fails replaces what it held. */
typedef struct adlgen_error {
  int code;              /* 0: none */
  char *message;         /* what is wrong, one line */
  char *file;            /* where, as it was named; NULL if no place is known */
  unsigned line, column; /* from 1; 0: not known */
  char *hint;            /* what may help, or NULL */
} adlgen_error;

/* Frees the strings and sets everything to 0. */
ADLGEN_API void adlgen_error_clear(adlgen_error *error);

/* ---- GPUs ---- */

typedef struct adlgen_gpu adlgen_gpu;

/* Loads a description: a known name, or a path, which has a '/' in it or ends in ".yaml". */
ADLGEN_API adlgen_gpu *adlgen_gpu_load(const char *name_or_path, adlgen_error *error);
ADLGEN_API void adlgen_gpu_free(adlgen_gpu *gpu);
ADLGEN_API const char *adlgen_gpu_name(const adlgen_gpu *gpu);
ADLGEN_API const char *adlgen_gpu_target(const adlgen_gpu *gpu); /* what the assembler calls it */

/* Names of all known GPUs, sorted, ended by NULL; free with adlgen_names_free(). */
ADLGEN_API char **adlgen_gpu_names(void);
ADLGEN_API void adlgen_names_free(char **names);

/* ---- Compiling ---- */

/* Start with {.size = sizeof(adlgen_options)}: every other field 0 is the default. */
typedef struct adlgen_options {
  size_t size;             /* of this struct, as the caller was compiled with */
  const char *const *dims; /* "M=4096": fixes symbolic dimensions; ended by NULL */
  const char *const *sets; /* "bm=64": forces template parameters; ended by NULL */
  unsigned sm_budget;      /* SMs that kernels may use at most; 0: all */
  int fast_math;           /* the hardware's approximations are allowed */
  int assemble;            /* make cubins too: needs the assembler */
  const char *ptxas;       /* path of the assembler; NULL: it is searched for as the command line does */
  unsigned jobs;           /* threads that compile and assemble; 0: one per processor */
  /* Of adlgen_load() and adlgen_jit_*(); cache_dir also of adlgen_compile_*() when it assembles. */
  const char *cache_dir; /* folder of machine code already made; NULL: the default (docs/runtime.md); "": none
                          */
  int assembler;         /* ADLGEN_ASSEMBLER_*; 0: ptxas */
  unsigned device; /* 1 + number of the GPU whose primary context is used; 0: the calling thread's current
                    * context or, if it has none, the primary context of GPU 0 */
  /* Files of measured choices (docs/tune.md) that come before those found elsewhere; ended by NULL. */
  const char *const *tuned;
  int no_tuned;   /* the cost model decides alone, whatever was measured */
  int accumulate; /* ADLGEN_ACCUMULATE_*: sums of products of 8-bit floats, where the graph does not say */
  /* Of adlgen_load() and adlgen_jit_*(): an executable of the same context. Constants of one name, type and shape are not copied to the
   * GPU again: both have one memory, which lives until both are freed. */
  const struct adlgen_executable *constants_of;
} adlgen_options;

/* How sums of products of 8-bit floats are kept (docs/graph.md). */
enum {
  ADLGEN_ACCUMULATE_DEFAULT = 0, /* exact, or with fast_math fast */
  ADLGEN_ACCUMULATE_EXACT = 1,   /* partial sums are added in f32 */
  ADLGEN_ACCUMULATE_FAST = 2     /* as the tensor cores keep them */
};

/* What turns PTX into machine code. They give different code: figures are published for ptxas. */
enum {
  ADLGEN_ASSEMBLER_PTXAS = 0,    /* a process per kernel */
  ADLGEN_ASSEMBLER_NVJITLINK = 1 /* libnvJitLink.so, loaded into this process (ADLGEN_NVJITLINK names it) */
};

typedef struct adlgen_result adlgen_result;

/* Compiles an op description (JSON or YAML) for a GPU. options may be NULL. name stands for the text in
 * messages; relative paths of constants in the text are relative to the folder of path, or of name. */
ADLGEN_API adlgen_result *adlgen_compile_file(const char *path, const adlgen_gpu *gpu,
                                              const adlgen_options *options, adlgen_error *error);
ADLGEN_API adlgen_result *adlgen_compile_text(const char *name, const char *text, size_t length,
                                              const adlgen_gpu *gpu, const adlgen_options *options,
                                              adlgen_error *error);
ADLGEN_API void adlgen_result_free(adlgen_result *result);

/* Kernels, 0 .. count - 1; a larger index gives NULL. */
ADLGEN_API size_t adlgen_result_kernel_count(const adlgen_result *result);
ADLGEN_API const char *adlgen_result_name(const adlgen_result *result,
                                          size_t kernel); /* unique; as in the plan */
ADLGEN_API const char *adlgen_result_entry(const adlgen_result *result, size_t kernel); /* entry point */
ADLGEN_API const char *adlgen_result_ptx(const adlgen_result *result, size_t kernel);
ADLGEN_API const char *adlgen_result_ir(const adlgen_result *result,
                                        size_t kernel); /* final pseudo-assembly */
/* Machine code and its size in bytes; NULL without options.assemble. */
ADLGEN_API const void *adlgen_result_cubin(const adlgen_result *result, size_t kernel, size_t *size);

/* The plan as JSON: all that a program needs to launch the kernels. */
ADLGEN_API const char *adlgen_result_plan(const adlgen_result *result);
/* Which template, tile and path was chosen for what, what was rejected and why; text for people. */
ADLGEN_API const char *adlgen_result_explain(const adlgen_result *result);
/* What the op description says to no effect (nodes, inputs and constants that no output needs), each with its
 * place, as the command line shows it; "" if there is nothing. */
ADLGEN_API const char *adlgen_result_warnings(const adlgen_result *result);

/* ---- GPUs of this machine ---- */

/* The CUDA driver is looked for when one of the functions below needs it (ADLGEN_CUDA_LIBRARY names another
 * one). Without a driver or a GPU they fail with ADLGEN_ERROR_MISSING_TOOL. */

/* Start with {.size = sizeof(adlgen_device)}. */
typedef struct adlgen_device {
  size_t size;    /* of this struct, as the caller was compiled with */
  char name[256]; /* as the driver calls it */
  unsigned capability_major, capability_minor;
  unsigned sm_count;
  unsigned shared_per_block; /* bytes; the most a block may ask for */
  unsigned long long memory_bytes, l2_bytes;
} adlgen_device;

/* Number of GPUs the driver knows of, or -1. */
ADLGEN_API int adlgen_device_count(adlgen_error *error);
/* What the driver says of GPU `number` (from 0). 0, or the error's code. */
ADLGEN_API int adlgen_device_get(unsigned number, adlgen_device *device, adlgen_error *error);
/* The known description that is nearest to GPU `number`: of its compute capability, or else of an older one
 * whose kernels it runs; among those the nearest by number of SMs, memory and name. NULL if none fits. */
ADLGEN_API adlgen_gpu *adlgen_gpu_of_device(unsigned number, adlgen_error *error);

/* ---- Running: kernels loaded on a GPU ----
 *
 *   adlgen_executable *mlp = adlgen_jit_file("mlp.json", NULL, NULL, &error);      (description to kernels)
 *   size_t bytes;
 *   adlgen_executable_workspace(mlp, dims, &bytes, &error);                        (for these dimensions)
 *   adlgen_launch(mlp, stream, tensors, dims, workspace, bytes, &error);           (again and again)
 *
 * An executable is a graph's kernels for one CUDA context; make it once in each context that runs it. A graph
 * with open dimensions has kernels for every range of them, of which most programs launch few: each is loaded
 * when a launch first needs it.
 *
 * Background.     adlgen_load() and adlgen_jit_*() return when the graph is compiled. Its kernels are then
 *                 assembled by adlgen_options.jobs threads of their own, one ptxas each; those that a launch
 *                 needs come first, and it waits for them. adlgen_executable_load() waits for all: a program
 *                 that must not stall later calls it once. What was assembled stays in the cache, where the
 *                 next start finds it, also if the process ends before everything is done.
 * Contexts.       The executable belongs to the context it was loaded in (adlgen_options.device), which must
 *                 outlive it. A launch works from any thread, whatever context is current there, and leaves
 *                 that as it was. A primary context named by `device` is retained until
 *                 adlgen_executable_free().
 * Thread-safety.  All functions on one executable may run at once on several threads, _free excepted.
 * Streams.        A launch queues work on the caller's stream (CUstream or cudaStream_t; NULL: the default
 *                 stream) and does not wait for it. The stream may be capturing: a launch allocates no device
 *                 memory, does not synchronise, and what it captures holds its arguments by value, so that
 *                 replay needs neither the executable's host memory nor any host work. The executable must
 *                 stay loaded as long as the graph is replayed.
 * Memory.         Tensors and workspace are the caller's, at addresses of the executable's GPU. Two launches
 *                 that may run at the same time need two workspaces. Constants of the graph are copied to the
 *                 GPU when the executable is loaded. */
typedef struct adlgen_executable adlgen_executable;

/* An executable of a result's kernels: assembles for the GPU those that the cache does not have. options may
 * be NULL; ptxas, jobs, cache_dir, assembler and device are used. The result may be freed afterwards. A
 * result for an older GPU is assembled for this one; one that cannot run here gives ADLGEN_ERROR_UNSUPPORTED.
 */
ADLGEN_API adlgen_executable *adlgen_load(const adlgen_result *result, const adlgen_options *options,
                                          adlgen_error *error);
/* Description to executable in one call: compiles, or finds all of it in the cache, which then runs
 * neither compiler nor assembler. gpu NULL: adlgen_gpu_of_device() of the GPU it is loaded on. Arguments as
 * of adlgen_compile_*(). */
ADLGEN_API adlgen_executable *adlgen_jit_file(const char *path, const adlgen_gpu *gpu,
                                              const adlgen_options *options, adlgen_error *error);
ADLGEN_API adlgen_executable *adlgen_jit_text(const char *name, const char *text, size_t length,
                                              const adlgen_gpu *gpu, const adlgen_options *options,
                                              adlgen_error *error);
/* No launch may be in the making; kernels already queued must have ended. Assembling that goes on is
 * stopped: free what was made before the process ends. */
ADLGEN_API void adlgen_executable_free(adlgen_executable *executable);
/* Other values for a constant of the graph: row-major, in the host's memory, of as many bytes as it has. Who shares the memory sees them
 * too; launches must not run meanwhile. Code 1 if the graph has no such constant on the GPU: what is known while a graph is compiled,
 * such as a shape, is a part of its kernels. */
ADLGEN_API int adlgen_executable_set_constant(adlgen_executable *executable, const char *name,
                                              const void *data, size_t bytes, adlgen_error *error);

/* What a person may want to know: the description and the GPU differ (both values are named), kernels were
 * assembled for a newer target, the cache cannot be used. One line each; a larger index gives NULL. */
ADLGEN_API size_t adlgen_executable_warning_count(const adlgen_executable *executable);
ADLGEN_API const char *adlgen_executable_warning(const adlgen_executable *executable, size_t warning);
/* Loads all kernels, and waits for those that are still being assembled. Returns 0, or the error's code. May
 * be called at any time, or never. */
ADLGEN_API int adlgen_executable_load(adlgen_executable *executable, adlgen_error *error);
/* How many kernels the assembler was run for so far: 0 after a warm start. */
ADLGEN_API size_t adlgen_executable_assembled(const adlgen_executable *executable);
/* Name of the description it was compiled for. */
ADLGEN_API const char *adlgen_executable_gpu(const adlgen_executable *executable);

/* The plan, as adlgen_result_plan() gives it. Lives as long as the executable. */
ADLGEN_API const char *adlgen_executable_plan(adlgen_executable *executable);

/* Open dimensions, in the order in which `dims` gives their values. */
ADLGEN_API size_t adlgen_executable_dim_count(const adlgen_executable *executable);
ADLGEN_API const char *adlgen_executable_dim(const adlgen_executable *executable, size_t dim);

typedef enum { ADLGEN_INPUT, ADLGEN_CONSTANT, ADLGEN_OUTPUT } adlgen_tensor_kind;

/* Start with {.size = sizeof(adlgen_tensor)}. */
typedef struct adlgen_tensor {
  size_t size;      /* of this struct, as the caller was compiled with */
  const char *name; /* lives as long as the executable, as does type */
  int kind;         /* ADLGEN_INPUT, ADLGEN_CONSTANT, ADLGEN_OUTPUT */
  const char *type; /* "bf16", "f32", ...: as op descriptions spell it */
  unsigned rank;
  unsigned align;           /* bytes its address must be a multiple of */
  long long shape[16];      /* elements; needs dims */
  long long strides[16];    /* elements; needs dims */
  unsigned long long bytes; /* from the first to behind the last element; needs dims */
} adlgen_tensor;

/* Tensors, in the order in which `tensors` gives their addresses: inputs, then constants, then outputs, each
 * in the order of the description. */
ADLGEN_API size_t adlgen_executable_tensor_count(const adlgen_executable *executable);
/* Describes one. dims: one value an open dimension; NULL leaves shape, strides and bytes 0. Returns 0, or the
 * error's code: ADLGEN_ERROR_INPUT if a value is outside its range or there is no such tensor. */
ADLGEN_API int adlgen_executable_tensor(const adlgen_executable *executable, size_t tensor,
                                        const long long *dims, adlgen_tensor *description,
                                        adlgen_error *error);
/* Bytes of workspace that a launch with these dimensions needs, 0 if none. Returns 0, or the error's code. */
ADLGEN_API int adlgen_executable_workspace(const adlgen_executable *executable, const long long *dims,
                                           size_t *bytes, adlgen_error *error);

/* Queues the graph's kernels on a stream. Returns 0, or the error's code; some kernels may then be queued.
 * tensors: one device address a tensor; NULL is allowed for one without elements, and for a constant, where
 * it means the executable's own copy. Outputs must not overlap anything. dims: one value an open dimension.
 * workspace: at least as many bytes as adlgen_executable_workspace() says, aligned to 256; may be NULL if
 * that is 0. ADLGEN_ERROR_INPUT: a value is outside its range, an address is not aligned as `align` says, the
 * workspace is too small. ADLGEN_ERROR_RUN: the driver refused; the message has its words. A fault of a
 * kernel shows where the caller synchronises. Cost: the variant, arguments and tensor maps of the last few
 * sets of (tensors, dims, workspace) are kept, so a set seen before costs a comparison more than the driver's
 * own launch; a set with other addresses only is cheaper than one with other dimensions. No memory is
 * allocated and no lock is taken, except where a kernel is launched for the first time: it is waited for and
 * loaded, and what its assembler says is the error. */
ADLGEN_API int adlgen_launch(adlgen_executable *executable, void *stream, const void *const *tensors,
                             const long long *dims, void *workspace, size_t workspace_bytes,
                             adlgen_error *error);

#ifdef __cplusplus
}
#endif
#endif
