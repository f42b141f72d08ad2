/* A run of bench: many cases, one machine, one result. */
#pragma once
#include "measure/bench.h"

/* One line of the table: a candidate in a mode. */
typedef struct BenchLine {
  const BenchCase *c;
  const char *mode, *candidate;
  const BenchTiming *timing;
  double roof_us;
  double ratio; /* its time / that of the first candidate: above 1, the first is the faster */
  bool is_first;
} BenchLine;

typedef struct BenchSession {
  BenchGpu *gpu;
  const Gpu *description;
  const Assembler *assembler;
  CublasLt *cublaslt;           /* NULL: not asked for, or missing */
  struct BenchPlugin **plugins; /* peers in libraries: measure/plugin.h */
  unsigned n_plugins;
  const GRegex *peer_variants; /* of their variants only those whose names match; NULL: all */
  BenchVariant **variants;
  unsigned n_variants;
  BenchCase **cases;
  unsigned n_cases;
  unsigned modes; /* bit per BenchMode */
  BenchTimingOptions timing;
  bool fast_accumulation, all_algorithms, fixed;
  bool product;               /* the case's matrix product alone is a candidate too */
  const TunedDatabase *tuned; /* measured choices; NULL: none */
  unsigned sms;               /* that our own kernels may use; 0: all */
  double seconds;             /* no case is begun after so many; 0: no limit */
  const char *version;        /* of this program, for the result */
  double ceiling_seconds;     /* of each product loop */
  bool profile;               /* times each launch of ours too */
  unsigned threads;
  BenchReference reference;
  /* Called as results come in; may be NULL. note: what went wrong with a candidate, or what is being done. */
  void (*line)(const BenchLine *line, void *data);
  /* With `profile`: {us, launches: [{launch, kernel, us}]} of a case, as its JSON has it. May be NULL. */
  bool (*profiled)(const BenchCase *c, const json_t *profile, void *data, GError **error);
  BenchNote *note;
  void *data;
} BenchSession;

/* Runs everything and gives the result of docs/schemas/bench.schema.json; the caller owns it. A candidate
 * that cannot be made or is wrong is part of the result; *n_wrong counts those. NULL with an error if the
 * machine fails. */
json_t *bench_session_run(const BenchSession *session, unsigned *n_wrong, GError **error);

/* Of a result: {classes: [{class, mode, n, peer_ratio, worst_ratio, worst_case, roof_fraction}]}, geometric
 * means over the cases of a class; the caller owns it. */
json_t *bench_classes(const json_t *cases);
