/* The cost model's constants: numbers fitted to measured times, from a file in adl/model/ that a description
 * names by its key `model`. Immutable once the Gpu is loaded, and owned by it. */
#pragma once
#include <stdbool.h>

/* A fact of the description that a constant follows, and its value where the constant was fitted. */
typedef struct CostFact {
  const char *path; /* "tma.latency" */
  double at;        /* also what is assumed where the description does not say */
} CostFact;

/* Facts that a constant follows together: by their sum over the sum of the values that they were fitted at; rates
 * as the times that they mean. */
typedef struct CostFacts {
  const CostFact *facts;
  unsigned n;
  bool rates;
} CostFacts;

/* One constant with its provenance, for people. */
typedef struct CostConstant {
  const char *name; /* "least_step" */
  const char *kind; /* "cycles", "rate", "times", "part", "count" (model.def) */
  double fitted;    /* as the file gives it */
  double value;     /* what counts: for the facts of this GPU */
  CostFacts grows, shrinks;
  const char *unit, *meaning;
  const char *run, *date; /* of the run it was fitted in; NULL: nobody fitted it */
  const char *source; /* of the run, or why the value may hold without; NULL: the model's `guess` says it */
  bool guess;         /* not fitted on the GPU for which the model stands */
} CostConstant;

typedef struct CostModel {
  const char *name, *file; /* what was read */
  const char *gpu;         /* on which the constants were fitted, NULL: on none, and then */
  const char *guess;       /* why they may hold all the same */
  char hash[65];           /* SHA-256 of names and values, hex */
  const CostConstant *constants;
  unsigned n_constants;

#define MODEL(kind, name, unit) MODEL_##kind(name)
#define MODEL_CYCLES(name)      double name;
#define MODEL_RATE(name)        double name;
#define MODEL_TIMES(name)       double name;
#define MODEL_PART(name)        double name;
#define MODEL_COUNT(name)       unsigned name;
#include "adl/model.def"
#undef MODEL
#undef MODEL_CYCLES
#undef MODEL_RATE
#undef MODEL_TIMES
#undef MODEL_PART
#undef MODEL_COUNT
} CostModel;
