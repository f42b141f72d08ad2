/* The chooser of all families: of what a template says is tried the best that its family and the passes let be. A family
 * gives a bound of the price, or none, and what it asks the passes. */
#pragma once
#include "generator/choose/candidate.h"

typedef struct Contest { /* among the structures of a list */
  size_t price;          /* where in each its price is, a double; until it is settled a bound of it */
  size_t settled;        /* and whether the passes were asked, a bool */
  double tie;            /* so many times as dear a later one is better; 0: of equal ones the first is */
  /* Shows it to the passes, which may make it dearer; false: they refuse it. NULL: they need not be asked. */
  bool (*settle)(void *contender, void *data);
  /* Gets each that is better than those before it. NULL: nobody wants to know. */
  void (*leads)(const void *contender, void *data);
  void *data;
} Contest;

/* The cheapest; NULL: the list has none. */
void *contest_best(const Contest *contest, GArray *list);
/* The cheapest once it is settled. Those that were refused are taken out. */
void *contest_winner(const Contest *contest, GArray *list);

typedef struct Trial { /* of candidates that are no more than their values */
  const char *template_name;
  const int64_t *facts;
  /* A bound of its price; it may give values that the template's lines do not. false: it is no candidate. NULL: the first
   * is the best. */
  bool (*price)(Candidate *candidate, double *price, void *data);
  bool (*settle)(const Candidate *candidate, void *data); /* as above */
  void *data;
} Trial;

/* false: there is none. */
bool trial_winner(const Problem *problem, const Trial *trial, Candidate *winner);
/* Lists for those who measure what the template tries with these facts, where a variant is chosen without. */
void trial_offer(const Problem *problem, const char *template_name, const int64_t *facts);
/* The first that the template tries. *error, if there is none. */
bool trial_first(const Problem *problem, const char *template_name, const int64_t *facts, Candidate *first,
                 GError **error);
