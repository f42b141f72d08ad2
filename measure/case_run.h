/* What the files that run one case share. */
#pragma once
#include "measure/session.h"

/* Candidates of one case, and what became of them. */
typedef struct CaseRun {
  const BenchSession *session;
  const BenchCeilings *ceilings;
  const BenchCase *c;
  BenchTensors *tensors;
  BenchCase *product; /* the case's product alone, with tensors of its own; NULL: not asked for, or none */
  BenchTensors *product_tensors;
  GPtrArray *agreed;     /* outputs of the first candidate that the reference cannot check; NULL: none */
  GPtrArray *candidates; /* BenchCandidate *, owned; ours first, then peers, then floors */
  unsigned n_ours, n_peers;
  json_t *json, *list; /* of the case; of its candidates, as candidates */
  unsigned *n_wrong;
} CaseRun;

#define tell(session, ...) bench_note((session)->note, (session)->data, __VA_ARGS__)

/* Takes a candidate over; kind: "adlgen" | "cublaslt" | "plugin" | "product" | "floor"; check: as
 * case_check() gave it, taken over, or NULL. */
void case_add(CaseRun *run, BenchCandidate *candidate, const char *kind, json_t *check);
/* A candidate that could not be made or is wrong: part of the result, not the end of it. */
void case_fail(CaseRun *run, const char *name, const char *message);
/* true if the candidate's results on these tensors are right. *check gets the JSON of it, even if they are
 * wrong. An error if they could not be had. */
bool case_check(CaseRun *run, const BenchTensors *tensors, BenchCandidate *candidate, json_t **check,
                GError **error);

/* If it is asked for: the time of each launch of the first candidate of ours, in the case's JSON. */
bool case_profile(CaseRun *run, GError **error);
/* Adds what competes with ours in this case. */
void case_add_peers(CaseRun *run);
/* The kind of a candidate of a case of a result; "" if the case has none of that name. */
const char *bench_kind_of(const json_t *c, const char *name);
/* Whether a candidate of that kind is a competitor. */
bool bench_is_peer(const char *kind);
