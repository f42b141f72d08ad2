/* A plan with its symbols and addresses bound: one launch in numbers, for whoever carries it out. */
#pragma once
#include "plan/plan.h"

typedef struct ResolvedArgument {
  const PlanArgument *argument;
  uint64_t offset;              /* POINTER, TENSOR_MAP: bytes added to the tensor's address */
  uint8_t bytes[8];             /* SCALAR, DIVISOR: as the kernel takes them */
  unsigned n_bytes;             /* of bytes: 4 or 8 */
  uint64_t dims[5], strides[4]; /* TENSOR_MAP */
  unsigned box[5];
} ResolvedArgument;

typedef struct ResolvedRegion {
  uint64_t offset, bytes;
} ResolvedRegion;

typedef struct ResolvedLaunch {
  const PlanLaunch *launch;
  const PlanVariant *variant; /* the one whose guard holds */
  unsigned grid[3];
  bool empty;     /* a dimension of the grid is 0: nothing to launch; arguments are not resolved */
  bool dependent; /* may start before the launch before it has ended */
  ResolvedArgument *arguments; /* as variant->arguments */
  ResolvedRegion *zero;        /* parts of the workspace to clear right before; launch->n_zero */
} ResolvedLaunch;

/* Allocates in the arena. ERROR_INPUT "launch-size" if a value does not fit what the launch takes. */
ResolvedLaunch *plan_resolve(const Plan *plan, const PlanLaunch *launch, const PlanBindings *bindings,
                             Arena *arena, GError **error);

/* A tensor in numbers. */
typedef struct ResolvedTensor {
  const PlanTensor *tensor;
  int64_t shape[PLAN_MAX_RANK], strides[PLAN_MAX_RANK]; /* elements */
  uint64_t elements;                                    /* product of the shape */
  uint64_t bytes;                                       /* from the first to behind the last element */
  uint64_t offset;                                      /* WORKSPACE: from its start */
} ResolvedTensor;

bool plan_resolve_tensor(const Plan *plan, const PlanTensor *tensor, const PlanBindings *bindings,
                         ResolvedTensor *resolved, GError **error);
/* Bytes of the workspace. */
bool plan_resolve_workspace(const Plan *plan, const PlanBindings *bindings, uint64_t *bytes, GError **error);
