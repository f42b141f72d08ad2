/* Candidates of row programs: how much of which rows a block has, and how they stay. */
#pragma once
#include "generator/choose/candidate.h"

/* How rows stay: the IR's `hold`. */
typedef enum { ROW_REGISTERS, ROW_SHARED, ROW_CLUSTER, ROW_PASSES, ROW_FORMS } RowForm;

/* A candidate, by the names of its values. */
typedef union RowFit {
  Candidate of;
  struct {
    const Space *space;
    unsigned rows, cols, threads; /* of a block's tile */
    unsigned blocks;              /* that share an SM */
    unsigned split_k;             /* that share a row */
    unsigned again; /* 1: distances from the mean, or exponentials, are computed in each phase, not kept */
    unsigned
        late; /* 1: elements at an index, and results of a row, come behind the last reduction, where registers are left for them */
    unsigned chunk, slots; /* of rows held in passes, in shared memory; 0: elsewhere */
  };
} RowFit;

typedef struct {  /* what a `try` line may ask beside the problem */
  unsigned peers; /* that may share a row */
  bool passes;
  bool joint;   /* whose states change once a chunk */
  unsigned run; /* rows that lie across memory, side by side; 0: rows lie along it */
} RowTried;

RowFit row_fit_of(const Problem *problem, unsigned rows, unsigned cols, unsigned threads);
/* Gives the variant its values. */
void row_fit_carry(const RowFit *tile, Choice *choice);
/* Values of the facts that `try` lines may ask; g_free. */
int64_t *row_fact_values(const Problem *problem, const RowTried *tried);
/* Has the kernel fewer SMs than the GPU, by --sms? */
bool row_is_budgeted(const Problem *problem);
