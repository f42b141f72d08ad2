/* What a caller may ask of a compilation: below the choice and the writing of kernels, which obey it. */
#pragma once
#include "ir/pass.h"

typedef struct TunedDatabase TunedDatabase; /* generator/choose/tuned.h */

/* How sums of products are kept where a product of the GPU keeps fewer bits than f32 has (8-bit floats). */
typedef enum {
  ACCUMULATE_DEFAULT, /* exact, or fast with fast_math */
  ACCUMULATE_FAST,    /* as the product keeps them */
  ACCUMULATE_EXACT,   /* partial sums over 128 of k are added in f32 */
} Accumulate;

/* "fast" or "exact"; anything else, NULL too, is the default. */
Accumulate accumulate_parse(const char *text);

typedef struct CompileOptions {
  const struct Backend *backend; /* NULL: the first of the list */
  bool fast_math;                /* --math fast */
  Accumulate accumulate;         /* --accumulate; a product's own attribute goes before it */
  unsigned sm_budget;            /* --sms: SMs that kernels may use at most; 0 = all */
  unsigned threads; /* that price tiles and make kernels at the same time; 0 = one per processor; 1 with
                            `report` */
  const char *const *sets; /* --set name=value, NULL-terminated, or NULL: template parameters, e.g. "bm=64" */
  bool *set_used;          /* one for each of sets, or NULL: set to true where a kernel has that parameter */
  const char *const *skip; /* passes and rewrites of fusion skipped by name, NULL-terminated, or NULL */
  const TunedDatabase *tuned; /* of the GPU: measured choices, which come before the model's; or NULL */
  bool keep_tile;             /* keep the instantiated TILE text of each kernel (CompiledKernel.tile) */
  bool drop_ir;               /* do not write CompiledKernel.ir, for those who read PTX alone */
  bool drop_notes; /* nor of CompileResult.explain how tiles were chosen, for those who do not show it */
  bool
      verify_each; /* verify after every pass, also between those of one thread's instructions; so with `report` */
  /* Called after each pass of each kernel; may print the module. May be NULL. */
  void (*report)(const char *kernel, const IrPassReport *report, IrModule *module, void *data);
  void *data;
  /* The same of the graph, behind each rewrite of fusion (fusion_rewrites()), with its place there; may be NULL. */
  void (*report_rewrite)(unsigned rewrite, const char *text, void *data);
} CompileOptions;
