/* Between executable.c and launch.c only. */
#pragma once
#include "runtime/context_private.h"
#include "runtime/executable.h"
#include <stdatomic.h>

/* Sets of arguments that are remembered. */
#define EXECUTABLE_SLOTS 8

/* An argument as the kernel's parameter: large enough for each kind. */
typedef DeviceTensorMap ParameterValue;

typedef struct LoadedKernel {
  char *name, *entry;
  unsigned shared, cluster; /* the most dynamic shared memory and the largest cluster it is launched with */
  _Atomic(void *) function; /* CUfunction; NULL: not loaded. Set once, under Executable.load_lock */
} LoadedKernel;

/* A variant of a launch, ready to be launched. Expressions are the plan's with names replaced by positions.
 */
typedef struct LoadedVariant {
  const PlanVariant *plan;
  const Symbolic *guard, *grid[3]; /* NULL: always; constant 1 */
  PlanArgument *arguments;         /* copies with such expressions */
  unsigned n_arguments;
  LoadedKernel *kernel; /* NULL: not given to executable_new() */
} LoadedVariant;

typedef struct LoadedLaunch {
  const PlanLaunch *plan;
  LoadedVariant *variants;
  PlanRegion *zero; /* a copy with such expressions */
  bool dependent;   /* may start before the launch before it has ended */
} LoadedLaunch;

/* One launch of a slot. */
typedef struct SlotLaunch {
  const LoadedLaunch *loaded;   /* of the last fill */
  const LoadedVariant *variant; /* of the last fill; NULL: none yet */
  bool empty;                   /* the grid is */
  unsigned grid[3];
  unsigned n_attributes;
  LaunchAttribute attributes[3];
  ParameterValue *values; /* one an argument of the largest variant */
  void **parameters;      /* addresses of the values */
  DeviceBox *boxes;       /* what tensor maps were last encoded from; rank 0: none */
  uint64_t *zero_offset, *zero_bytes;
} SlotLaunch;

typedef struct Slot {
  atomic_flag busy;
  bool valid;
  uint64_t age; /* of the last fill */
  /* what it was filled for */
  const void **tensors;
  int64_t *dims; /* and behind them the counter of the repeat that is being filled */
  void *workspace;
  /* what came of it */
  uint64_t workspace_bytes;
  uint64_t *addresses;  /* as plan->tensors */
  SlotLaunch *launches; /* as they are carried out: as plan->launches, those of repeats several times */
  unsigned n_launches, room;
  Arena *memory; /* of the launches of a plan with repeats, whose number follows from dims */
} Slot;

/* See zeroed.c. */
typedef struct ZeroedBlock {
  const void *workspace; /* whose launches it serves; NULL: none yet */
  uint64_t address;      /* on the GPU; owned */
} ZeroedBlock;

/* See constants.c. */
typedef struct ConstantMemory ConstantMemory;

struct Executable {
  Plan *plan;
  Context *context;
  Arena *arena;
  LoadedKernel *kernels;
  unsigned n_kernels;
  KernelSource source;
  GMutex load_lock; /* of what follows */
  void **modules;   /* room for one a kernel */
  unsigned n_modules;
  unsigned *tensors; /* position in plan->tensors of each tensor the caller passes */
  unsigned n_tensors;
  ConstantMemory **constants; /* of the executable, or shared, by plan->tensors; NULL: none */
  const Symbolic *workspace_bytes, **workspace_offsets; /* by plan->tensors; NULL: not of the workspace */
  LoadedLaunch *launches;                               /* as plan->launches */
  GMutex zeroed_lock;                                   /* of `zeroed` */
  GArray *zeroed;                                       /* ZeroedBlock */
  uint64_t zeroed_bytes;                                /* of a block */
  uint64_t *zeroed_offsets; /* by plan->tensors: in a block, of those marked `zero` */
  Slot slots[EXECUTABLE_SLOTS];
  atomic_ullong fills;
};

/* A copy of an expression whose leaves hold the position of their symbol or tensor in `value`. NULL gives
 * NULL.
 */
const Symbolic *expression_bind(const Plan *plan, Arena *arena, const Symbolic *expression);
typedef struct ExpressionValues {
  const int64_t *symbols;    /* as plan->symbols, and behind them a repeat's counter */
  const uint64_t *addresses; /* as plan->tensors; NULL: align() has no value */
} ExpressionValues;
/* Value of a bound expression: false on overflow or division by zero. NULL gives `absent`. */
bool expression_value(const Symbolic *expression, const ExpressionValues *values, int64_t absent,
                      int64_t *value);

/* Room for so many launches in a slot. */
void executable_make_room(const Executable *x, Slot *slot, unsigned n);
/* The kernel's function, which is loaded if it is not yet. The context is entered. From any thread. */
void *executable_function(Executable *x, LoadedKernel *kernel, GError **error);

/* constants.c. The context is entered for clear. */
void constants_clear(Executable *x);
uint64_t constants_address(const Executable *x, unsigned tensor); /* by plan->tensors; 0: it has none */

/* zeroed.c. The context is entered for clear and block. */
bool zeroed_init(Executable *x, GError **error);
void zeroed_clear(Executable *x);
/* Address of the block for launches with a workspace; 0 if the plan needs none. From any thread. */
bool zeroed_block(Executable *x, const void *workspace, uint64_t *address, GError **error);
