/* Between the files plan*.c only. */
#pragma once
#include "plan/plan.h"

extern const char *const plan_tensor_kinds[];   /* by PlanTensorKind, NULL-terminated */
extern const char *const plan_argument_kinds[]; /* by PlanArgumentKind, NULL-terminated */
extern const char *const plan_map_modes[];      /* by PlanMapMode, NULL-terminated */
extern const char *const plan_interleaves[];    /* by PlanInterleave, NULL-terminated */
extern const char *const plan_fills[];          /* by PlanFill, NULL-terminated */

/* plan_check with a place for what it reports; mark may be NULL. */
bool plan_check_at(const Plan *plan, const Mark *mark, GError **error);
/* The tensors of a launch, each with what stands in its place in another one that is alike in everything else (const PlanTensor * ->
 * const PlanTensor *, the caller's); NULL: they differ in more. */
GHashTable *plan_pair_launches(const Plan *plan, const PlanLaunch *from, const PlanLaunch *to);
/* Index of the launch among those in `firsts` (texts -> GPtrArray of launches; both destroyed with it) that this one is alike, with
 * the pairing of their tensors; its own, and it is entered, if there is none. */
unsigned plan_like(const Plan *plan, const PlanLaunch *launch, GHashTable *firsts, GHashTable **tensors);
/* The variants of a launch of the plan with other tensors in their places. */
void plan_copy_variants(Plan *plan, PlanLaunch *to, const PlanLaunch *from, GHashTable *tensors);
/* Appends a tensor, gives it its index and lets plan_tensor() find it. */
void plan_enter_tensor(Plan *plan, PlanTensor *tensor);
/* Appends to an array of the plan's arena. */
void *plan_grow(Plan *plan, void *array, unsigned n, size_t size);
#define plan_append(plan, array, n)                                                                          \
  ((array) = plan_grow((plan), (array), (n), sizeof *(array)), &(array)[(n)++])
