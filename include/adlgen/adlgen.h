/* adlgen: GPU kernels from a description of operators and one of a GPU.
 *
 *   adlgen_error error = {0};
 *   adlgen_gpu *gpu = adlgen_gpu_load("gpu.yaml", &error);
 *   adlgen_result *result = gpu ? adlgen_compile_file("graph.json", gpu, NULL, &error) : NULL;
 *   if (!result) fprintf(stderr, "%s:%u: %s\n", error.file, error.line, error.message);
 *   for (size_t i = 0; result && i < adlgen_result_kernel_count(result); i++) puts(adlgen_result_ptx(result,
 * i)); adlgen_result_free(result); adlgen_gpu_free(gpu); adlgen_error_clear(&error);
 *
 * Errors.         A function that can fail takes an adlgen_error, which may be NULL, and returns NULL on
 * failure. No function prints, exits or aborts because of bad input. Out of memory aborts, as in GLib.
 * Ownership.      What a function returns as an object is the caller's and goes back to its _free function,
 * which takes NULL. Strings and bytes returned as const belong to the object they were asked of and live as
 * long. Thread-safety.  There is no global state: any functions may run at once on different objects. A
 * loaded GPU is immutable and may be shared between threads; a result may be read by several threads. Shapes,
 * units.  Shapes and strides of a description are in elements, row-major unless it says otherwise; sizes of
 *                 memory are in bytes. Dimensions are 32-bit, byte offsets 64-bit. docs/plan.md describes the
 * plan. Compatibility.  Functions are only added, and fields only at the end of adlgen_options, which carries
 * its size. */
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
  ADLGEN_ERROR_MISSING_TOOL = 4, /* the assembler is missing or too old */
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
  unsigned sm_budget;      /* SMs that persistent kernels may use; 0: all */
  int fast_math;           /* the hardware's approximations are allowed */
  int assemble;            /* make cubins too: needs the assembler */
  const char *ptxas;       /* path of the assembler; NULL: it is searched for as the command line does */
  unsigned jobs;           /* threads that assemble; 0: one per processor */
} adlgen_options;

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

#ifdef __cplusplus
}
#endif
#endif
