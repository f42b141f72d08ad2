/* A candidate: one way to compute an operator, as values of a template's parameters. What is done with it by its
 * parameters' names is done here once, for all families: reading what is tried, --set, what the template admits, what a
 * variant carries, names of kernels, files of measured choices. Families' prices read its values by name. */
#pragma once
#include "generator/choose/problem.h"
#include "generator/choose/spaces.h"
#include "generator/choose/tuned.h"

/* Of a value that is measured: a band of tiles that are walked together must stay countable in 32 bits. */
#define CANDIDATE_MOST 1024

typedef struct Candidate {
  const Space *space;
  int values[SPACE_SLOTS]; /* by its slots, less its base */
} Candidate;

/* One of which nothing is said. */
Candidate candidate_absent(const Space *space);
/* What the value at the slot stands for. */
static inline int64_t candidate_value(const Candidate *candidate, unsigned slot)
{
  return (int64_t)candidate->space->base[slot] + candidate->values[slot];
}
/* By its name; 0: the template has no such parameter. */
int64_t candidate_int(const Candidate *candidate, const char *name);
/* false: the space has none of the name. */
bool candidate_set(Candidate *candidate, const char *name, int64_t value);
/* What a variant carries; absent values where it has none. */
Candidate candidate_of(const Space *space, const Choice *choice);

typedef struct CandidateWalk {
  bool measured;        /* what only those try who measure */
  const int64_t *facts; /* by the kind's */
  /* Value of a parameter outside of the key, which follows from those given so far; NULL: its default */
  int (*derive)(const Candidate *candidate, unsigned slot, void *data);
  void (*take)(const Candidate *candidate, void *data);
  void *data;
  const Problem *problem; /* whose --set stands in the lines, unless the kind is late; NULL: nothing does */
} CandidateWalk;

/* Every candidate that the template says is tried, in the order of the text; none of NULL, a template without a key. */
void candidates_walk(const Space *space, const CandidateWalk *walk);

/* What templates try for a problem (Problem.tried), each once: every value that a line gives, also those of which names and
 * files say nothing. */
typedef struct CandidateTried {
  const char *template_name;
  TunedParameter parameters[TUNED_MAX_PARAMETERS];
  unsigned n;
} CandidateTried;

typedef struct CandidateList {
  Arena *arena;  /* of the names */
  GArray *tried; /* CandidateTried */
} CandidateList;

/* Gives it what --set says of its key. */
void candidate_force(const Problem *problem, Candidate *candidate);
/* Are the values of its key ones that the template declares, its conditions heeded? */
bool candidate_has(const Candidate *candidate, const Problem *problem);
/* Do its template's conditions hold (`param NAME ... if`)? Else *error says which does not. */
bool candidate_keeps(const Candidate *candidate, const Problem *problem, GError **error);
/* Gives the variant its values; `carries` leaves out some (NULL: none), and those of no parameter of the template. */
void candidate_carry(const Candidate *candidate, Choice *choice,
                     bool (*carries)(const Candidate *candidate, unsigned slot, const void *data),
                     const void *data);
/* What names of kernels say of it: the last axis with a word whose value is above 1, and "_late1" for each further axis that
 * has not its default; in the arena. */
const char *candidate_words(const Candidate *candidate, Arena *arena);
/* The last part of it. */
const char *candidate_further_words(const Candidate *candidate, Arena *arena);
/* For files of measured choices: what tells it from one of which nothing is said. Names live in the arena. */
unsigned candidate_describe(const Candidate *candidate, Arena *arena,
                            TunedParameter parameters[TUNED_MAX_PARAMETERS]);
/* What an entry says; `also`: a parameter outside of the key that entries may name. false: it is of no candidate of the
 * space. */
bool candidate_read(Candidate *candidate, const TunedEntry *entry, const char *also);
