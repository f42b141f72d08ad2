/* Measuring the ways to compute an operator and keeping the fastest: `adlgen tune`, docs/tune.md.
 *
 * For each operator of each case, `product` here, the proposals are compiled, measured by a clock and the winner
 * is put into a TunedFile. The clock is exchangeable: the GPU, times that were measured before, a test's. One
 * thread at a time. */
#pragma once
#include "generator/compile/propose.h"
#include "measure/bench.h"

/* What a clock says of one proposal. */
typedef struct TuneTime {
  double us;     /* median; NAN: it was not or could not be measured */
  double spread; /* (third - first quartile) / median */
  bool thorough; /* measured again among the fastest: only such a one can win */
  char *message; /* why there is no time; owned; NULL otherwise */
} TuneTime;

typedef struct TuneWork {
  const BenchCase *c;
  const ProductProposals *product;
  BenchBuild **builds; /* as the proposals; an entry that did not compile is NULL. A clock may take entries,
                          leaving NULL. NULL for a clock that wants none */
  unsigned n;          /* proposals to time: the first so many */
} TuneWork;

typedef struct TuneClock {
  bool wants_builds;
  /* Sets every us or message of times[0 .. n). false: the machine failed, and all ends. */
  bool (*measure)(void *data, const TuneWork *work, TuneTime *times, GError **error);
  void *data;
} TuneClock;

/* A product when it is done. */
typedef struct TuneLine {
  const BenchCase *c;
  const ProductProposals *product;
  unsigned n, n_failed; /* proposals, and those of them without a time */
  unsigned winner;      /* its index; 0 is the model's choice */
  const TuneTime *times;
} TuneLine;

typedef struct TuneSession {
  const Gpu *description;
  BenchCase **cases;
  unsigned n_cases;
  unsigned top;   /* proposals that are measured for a product; 0: all */
  unsigned kinds; /* that are considered of each kind of tile: alike but for columns and how often blocks
                     share it. 0: all */
  double slack;   /* of these, those that the model gives at most so many times its best cost; 0: no limit */
  double seconds; /* no product is begun after so many; 0: no limit */
  double gain;    /* a winner is kept if it is at least so many times as fast as the model's choice; 0: all */
  unsigned sms;   /* that kernels may use; 0: all */
  unsigned threads;
  TuneClock clock;
  /* Called as things happen; may be NULL. */
  void (*line)(const TuneLine *line, void *data);
  BenchNote *note;
  /* Told before a product is compiled: how many proposals there are. */
  void (*begin)(const BenchCase *c, const ProductProposals *product, unsigned n, void *data);
  void *data;
} TuneSession;

/* Measures everything; winners go to `file`. Gives {products: [...], choice: {...}} of
 * docs/schemas/tune.schema.json; the caller owns it. */
json_t *tune_run(const TuneSession *session, TunedFile *file, GError **error);
/* How good the choice without measuring was, over the products of a result: geometric means over the products
 * of best time / time of the model's choice, and / the best of its first 8 proposals. */
json_t *tune_choice(const json_t *products);

/* Compiles the proposals, each with the winners in `tuned` for the other products; NULL where that fails.
 * *messages (as the builds, owned) says why. Free both with g_free after their entries. */
BenchBuild **tune_build(const TuneSession *session, const BenchCase *c, const ProductProposals *product,
                        unsigned n, const TunedFile *tuned, char **messages);

/* ---- clocks ---- */

/* The GPU: checks every candidate, times all shortly and the fastest again. */
typedef struct TuneGpu {
  BenchGpu *gpu;
  BenchCode *code;
  BenchReference reference;
  unsigned threads;
  BenchTimingOptions rough, thorough;
  double near; /* those within so many times the best rough time are timed again: 1.1 */
} TuneGpu;
TuneClock tune_gpu_clock(TuneGpu *gpu);

/* Makes machine code into the assembler's cache and times nothing: needs no GPU. */
typedef struct TuneAssembler {
  const Assembler *assembler;
  unsigned threads;
  unsigned n_assembled, n_failed; /* counted */
} TuneAssembler;
TuneClock tune_assembler_clock(TuneAssembler *assembler);

/* Times of an earlier result, by the names of cases and the parameters. */
TuneClock tune_recorded_clock(const json_t *result);
