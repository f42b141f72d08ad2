/* The protocol checker's machine: it executes the tokens of a STAGED kernel (who waits, arrives, reads,
 * writes; never data) for the blocks of one cluster and reports the first thing that can go wrong. See
 * docs/protocol.md.
 *
 *   program.c   kernel -> flat list of steps, with all names resolved; nothing that passes derived is believed
 *   evaluate.c  scalars: dims, loop variables, which threads take a branch
 *   memory.c    who may read or write a tile: records of accesses ordered by vector clocks
 *   barrier.c   mbarriers, named barriers, the cluster's barrier, turns
 *   products.c  products, what they touch and when they are done
 *   execute.c   what one step does
 *   machine.c   agents, schedules, deadlock, what must hold at exit
 *
 * An agent stands for threads of a role that run in step: the first warp of an instance is one agent, its
 * other warps are another, so that a missing barrier between warps of one role shows. (Of a one-warp role:
 * lane 0 and the rest.) Two accesses are ordered if the second agent's clock has reached the first's tick;
 * whether they happen to run in the right order in one schedule does not matter. */
#pragma once
#include "ir/ir.h"
#include "ir/mechanism.h"
#include <string.h>

#define PROTOCOL_MAX_THREADS 1024
#define PROTOCOL_MAX_BLOCKS  16
#define PROTOCOL_MAX_RANK    4
#define PROTOCOL_MAX_DEPTH   32
#define PROTOCOL_NAMED                                                                                       \
  16 /* hardware's named barriers; others (turns, rendezvous of a role) come after them */

typedef uint32_t Tick;

/* ---- Program ---- */

typedef enum {
  SCALAR_INT,
  SCALAR_VALUE,
  SCALAR_DIM,
  SCALAR_SLOT,
  SCALAR_PHASE,
  SCALAR_OPERATOR,
  SCALAR_SELECT,
  SCALAR_CEIL_DIV,
  SCALAR_MIN,
  SCALAR_MAX,
  SCALAR_LOAD,
  SCALAR_EACH_LANE,
  SCALAR_SCAN_LANES,
  SCALAR_COUNT_LANES,
  SCALAR_OF_LANE,
  SCALAR_UNKNOWN,
  /* special values; from THREAD on they differ between the threads of an agent */
  SCALAR_BLOCK,
  SCALAR_BLOCKS,
  SCALAR_RANK,
  SCALAR_SIZE,
  SCALAR_INSTANCE,
  SCALAR_THREAD,
  SCALAR_LANE,
  SCALAR_WARP,
  SCALAR_ROLE_WARP,
  SCALAR_ELECTED
} ScalarKind;

typedef struct Scalar Scalar;
typedef struct Lanes { /* what a warp's lanes have, as an agent found when it asked last */
  const void *agent;
  unsigned run, age, warp;
  uint32_t done, known;
  int64_t values[32];
} Lanes;
struct Scalar {
  ScalarKind kind;
  IrOperator operator_;
  int64_t number; /* constant; index of a value, dim or special */
  const Scalar *a, *b, *c;
  bool varies;  /* between threads of one role */
  Lanes *lanes; /* of SCALAR_EACH_LANE and SCALAR_SCAN_LANES */
};

typedef struct Family { /* of barriers: all slots of @ab.full, or one `barrier` */
  const char *name;     /* "@ab.full" */
  const IrOp *op;
  unsigned count, arrivals, first; /* first: index among a block's barriers */
  int64_t bytes, at;
  bool declared; /* has an arrival count, so it is initialised */
  bool clipped;  /* copies may bring less than `bytes`, where they end with their tensor */
} Family;

typedef struct Tile { /* of a channel's slots, or a shared tile */
  const char *name;   /* "@ab.a" */
  const IrOp *op;
  const IrType *type;
  unsigned slots, first;             /* first: index among a block's places */
  int32_t extent[PROTOCOL_MAX_RANK]; /* of one slot; 1 beyond its rank */
  int64_t bytes, at;                 /* of one slot; at -1 = not placed */
  bool channel;
} Tile;

typedef struct Reference { /* to a place: a tile in a slot, and a part of it */
  const Tile *tile;
  const Scalar *slot;
  unsigned rank;
  const Scalar *low[PROTOCOL_MAX_RANK], *high[PROTOCOL_MAX_RANK]; /* high NULL: the whole extent */
} Reference;

typedef struct BarrierReference {
  const Family *family;
  const Scalar *index;
} BarrierReference;

typedef enum {
  STEP_OP,
  STEP_SET,
  STEP_FOR,
  STEP_LOOP,
  STEP_AGAIN,
  STEP_BREAK,
  STEP_IF,
  STEP_ELSE,
  STEP_END_IF,
  STEP_ROLE,
  STEP_END_ROLE,
  STEP_END
} StepKind;

typedef enum { BY_THREAD, BY_WARP, BY_WARPGROUP, BY_ROLE } By;
typedef enum { FENCE_OTHER, FENCE_PRODUCTS, FENCE_ASYNC_SHARED, FENCE_CLOCK } Fence;
typedef enum { HOW_THREADS, HOW_ASYNC, HOW_TENSOR, HOW_PRODUCT, HOW_STORE, HOW_PEER } How;

typedef struct Step {
  StepKind kind;
  const IrOp *op;
  unsigned index, target;  /* target: where a branch goes */
  int role;                /* STEP_ROLE: index */
  int value;               /* result, variable, cursor: dense id, or -1 */
  const Scalar *scalar[4]; /* condition, bounds, parity, bytes, count, id, threads, peer ... by opcode */
  BarrierReference barrier;
  Reference *places; /* tiles it reads (generic ops), or destination and source */
  unsigned n_places;
  int *reads; /* register tiles that matter (operands of warpgroup MMAs), read by this op */
  unsigned n_reads;
  By by;
  How how;          /* a copy writes, a product reads its tiles */
  unsigned family;  /* which groups: products, copies, stores; or which turn; or Fence */
  unsigned across;  /* blocks of a row of the cluster, where only the own row and column are meant; or 0 */
  unsigned span;    /* blocks that take a product together and have an operand of it in parts; 0, 1: one */
  unsigned spread;  /* which of the places that operand is */
  unsigned led;     /* blocks for which the first of them issues the product; 0: each its own */
  int64_t bytes;    /* of a copy */
  int64_t slots;    /* of the ring that a cursor walks */
  const IrOp *ring; /* that ring; NULL: barriers alone */
  bool walk;        /* a loop over tiles that the grid shares */
  bool flag;        /* read, relaxed, peer all (of a commit too), first; a copy: towards shared memory */
} Step;

typedef struct Role {
  const IrOp *op;
  unsigned low, high, instances; /* warps */
} Role;

typedef struct Turn {
  const IrOp *op;
  unsigned instances;
  const Scalar *ids[PROTOCOL_NAMED];
  unsigned n_ids;
} Turn;

typedef struct Program {
  Arena *arena; /* its own */
  IrModule *module;
  const IrFunction *kernel;
  GArray *steps;                       /* Step */
  GPtrArray *families, *tiles, *turns; /* Family*, Tile*, Turn* */
  GArray *roles;                       /* Role */
  GHashTable *lets, *symbols;
  unsigned n_values, n_barriers, n_places, threads, blocks;
  unsigned runs;    /* of machines so far */
  bool *registers;  /* by value id: operands and accumulators of warpgroup MMAs */
  int64_t *granule; /* by dim: tile extent along it, 1 if not seen */
  bool *inner;      /* by dim: the bound of a counted loop from 0 */
  bool **alias;     /* [place][place] share bytes; NULL if none do */
  int long_loop; /* step of a loop whose constant end all long loops share, so that they may be cut; or -1 */
  int64_t long_from; /* a condition, or another loop, knows its iterations up to this one: they are not cut */
  int64_t long_kept; /* as iterations */
  GError *error;
} Program;

Program *program_new(IrModule *module, GError **error); /* NULL on an error */
void program_free(Program *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Program, program_free)

const Scalar *scalar_new(Program *program, const IrExpr *expr);
const Scalar *scalar_of_op(Program *program,
                           const IrOp *op); /* of a scalar arithmetic op; NULL if it is none */
const Scalar *scalar_of_lanes(Program *program, const Scalar *varying); /* of a name that it has */
bool place_reference(Program *program, const IrExpr *expr, Reference *reference);
bool barrier_reference(Program *program, const IrExpr *expr, BarrierReference *reference);
bool program_may_cut(const Program *program, const Step *step,
                     int64_t *first); /* a `for` that ends with the long loops: behind *first */
bool check_launches(const IrFunction *kernel, GError **error); /* global memory, if launches may overlap */
bool layout_resources(Program *program, GError **error);       /* shared memory: what overlaps what */

/* ---- Machine ---- */

typedef struct Mask {
  uint64_t bits[PROTOCOL_MAX_THREADS / 64]; /* threads of the scope, from its first */
  unsigned count;
} Mask;

typedef enum { ACCESS_READ, ACCESS_WRITE } AccessKind;

typedef struct Record { /* an access that later ones must be ordered after */
  AccessKind kind;
  How how;
  bool pending;       /* asynchronous and not waited for */
  bool taken;         /* a read: the agent has stepped on since */
  unsigned order;     /* of all accesses of the machine */
  unsigned component; /* whose tick: the agent's, or the barrier's */
  Tick tick, fenced;  /* fenced: tick of the agent's async_shared fence after it; 0 = none */
  unsigned agent, step, round, group, copy;
  int32_t low[PROTOCOL_MAX_RANK], high[PROTOCOL_MAX_RANK];
} Record;

typedef struct Place {
  GArray *records; /* Record */
  int64_t content; /* a scalar put there */
  bool known;
} Place;

typedef struct Barrier {
  const Family *family;
  unsigned block, index, component;
  bool initialised;
  unsigned init_agent;
  Tick init_tick;
  int64_t pending, bytes;
  Tick phase;      /* completed phases */
  Tick last_bytes; /* last phase that counted bytes */
  unsigned flying; /* copies on their way */
  bool carries;    /* bytes were counted in this phase */
  int expect_step;
  Tick *gathering, *last; /* clocks */
} Barrier;

typedef struct Named {
  unsigned arrived, needed, generation;
  bool waiter;     /* somebody waits for this generation */
  int step, agent; /* first to arrive */
  int turn;        /* the turn that owns it, or -1 */
  Tick *gathering, *last;
} Named;

typedef enum { WAIT_NONE, WAIT_BARRIER, WAIT_NAMED, WAIT_CLUSTER, WAIT_PRODUCT } WaitKind;

typedef struct Frame {
  StepKind kind;
  unsigned step, depth; /* depth: masks in use outside */
  int64_t i, high, by;
  bool both; /* if: the else part runs for `rest` */
  Mask rest;
} Frame;

typedef struct Pending { /* a record in flight */
  unsigned place, group;
  How how;
} Pending;

typedef struct Agent {
  unsigned index, block, warp_low, lane_low, threads; /* first warp, first lane, threads it stands for */
  unsigned step, depth;
  int role;
  unsigned instance, role_low, role_threads; /* the current scope: its first thread and size */
  unsigned home_role, home_low, home_threads, home_instance; /* of the role it belongs to */
  bool done;
  Mask masks[PROTOCOL_MAX_DEPTH];
  unsigned mask;
  Frame frames[PROTOCOL_MAX_DEPTH];
  int64_t *values;
  bool *known;
  unsigned *rounds; /* by step: times run */
  unsigned age;     /* grows where a variable changes, and with each turn of a loop */
  struct {
    unsigned step;
    int64_t begin, end;
  } walk; /* the last inner loop and where it, or the one that it goes on from, begins; as if nothing were cut */
  Tick *clock, *fence_clock;
  unsigned operations, product_fence;
  const struct Barrier *product_barrier; /* at which its products arrive, or NULL */
  unsigned committed[3], completed[3];   /* groups of copies, products, stores */
  unsigned read_groups;                  /* store groups whose sources are read */
  unsigned *accumulates, *operand,
      *touched;     /* by value: product group; operation of the last ordinary access */
  Tick *touched_at; /* by value: its tick */
  GArray *pending;  /* Pending */
  WaitKind waits;
  bool woken; /* what it waits for has happened */
  unsigned wait_object, wait_generation, wait_parity;
  bool cluster_arrived;
  unsigned cluster_generation;
} Agent;

typedef struct Flight { /* a TMA copy on its way to a block */
  unsigned barrier, place, copy;
  int64_t bytes;
  Tick *clock;
  unsigned step;
} Flight;

typedef struct Remote { /* last operation of an agent on another block */
  Tick tick;
  unsigned step, round;
} Remote;

typedef enum { ORDER_PRODUCER_FIRST, ORDER_CONSUMER_FIRST, ORDER_ROUND_ROBIN } Order;

typedef struct Scenario {
  const int64_t *dims;
  Order order;
  bool late; /* TMA copies land as late as possible */
  unsigned step_limit;
  unsigned clusters;         /* of the grid; one of them runs: */
  unsigned tiles;            /* that it may walk; if there are more the run stops. 0: any number */
  unsigned first;            /* its first block, index in the grid */
  struct Partials *partials; /* what blocks leave for each other; NULL: not looked at */
  int64_t turns;             /* iterations of long loops behind Program.long_from */
} Scenario;

/* Sums that blocks of the grid leave in the workspace, by (row, agent): flags are a warp's. Blocks run one
 * after the other in the order of their indices. */
typedef struct Partials {
  unsigned blocks, agents; /* of the grid; of a block */
  unsigned rows;           /* of the workspace */
  bool together;           /* all blocks run at once: what one waits for may be left later */
  bool *left, *taken;      /* [row][agent] */
  int *step;               /* [row][agent]: that left it; where nobody has yet, that takes it */
  bool *waited;            /* [block][agent]: has waited for another block */
} Partials;

typedef struct Machine {
  Program *program;
  const Scenario *scenario;
  Arena *arena;
  unsigned n_agents, width, n_named, blocks;
  Agent *agents;
  Barrier *barriers; /* [block][program barrier] */
  Place *places;     /* [block][program place] */
  Named *named;      /* [block][n_named] */
  Remote *remotes;   /* [agent][block] */
  GArray *flights;   /* Flight */
  unsigned copies, cluster_generation, steps, accesses;
  int64_t walked;  /* tiles of a walk that was too long; 0: none was */
  int64_t claimed; /* what is claimed next */
  Tick *cluster_gathering, *cluster_last;
  unsigned *advances; /* by barrier family index order: phases completed */
  GError **error;
  bool failed;
} Machine;

static inline Step *program_step(const Program *program, unsigned i)
{
  return &g_array_index(program->steps, Step, i);
}
static inline void clock_join(Tick *into, const Tick *from, unsigned width)
{
  for (unsigned i = 0; i < width; i++)
    into[i] = into[i] > from[i] ? into[i] : from[i];
}

/* evaluate.c */
int64_t evaluate(Machine *m, const Agent *agent, const Scalar *scalar, unsigned thread, bool *known);
int64_t evaluate_uniform(Machine *m, Agent *agent, const Scalar *scalar, int64_t otherwise);
void mask_branch(Machine *m, Agent *agent, const Scalar *condition, Mask *taken, Mask *rest);
bool mask_has(const Mask *mask, unsigned thread);
void mask_fill(Mask *mask, unsigned threads); /* the first so many */
unsigned mask_first(const Mask *mask);
unsigned active_threads(const Agent *agent); /* of this agent */
unsigned active_by(const Agent *agent, By by);
bool agent_leads(const Agent *agent); /* it has the scope's first active thread */
static inline const Mask *agent_mask(const Agent *agent)
{
  return &agent->masks[agent->mask];
}

/* memory.c */
typedef struct Region {
  unsigned place; /* in the machine */
  const Tile *tile;
  unsigned slot, block;
  int32_t low[PROTOCOL_MAX_RANK], high[PROTOCOL_MAX_RANK];
} Region;
Region region_of(Machine *m, Agent *agent, const Reference *reference, unsigned block);
int64_t region_bytes(const Region *region);
/* Checks an access against all earlier ones and records it; async_proxy: by TMA or a product. */
bool memory_access(Machine *m, Agent *agent, const Step *step, const Region *region, AccessKind kind, How how,
                   bool record);
void memory_complete(Machine *m, Agent *agent, How how, unsigned group);
void memory_land(Machine *m, const Flight *flight, unsigned component, Tick tick);
/* Products of this agent that read a block's memory and are in flight are done when that block's barrier, whose component this is,
 * ends the phase of this tick: who has waited for that knows. */
void memory_promise(Machine *m, Agent *agent, unsigned block, unsigned component, Tick tick);
void memory_fence(Machine *m, Agent *agent);
/* The agent steps on from a slot: what it has read there it may not read again until somebody fills it. */
void memory_step(Machine *m, const Agent *agent, const IrOp *channel, unsigned slot);

/* barrier.c */
Barrier *barrier_at(Machine *m, Agent *agent, const BarrierReference *reference, unsigned block,
                    const Step *step);
bool barrier_arrive(Machine *m, Agent *agent, const Step *step, Barrier *barrier, unsigned count,
                    int64_t bytes);
bool barrier_passed(const Barrier *barrier, unsigned parity);
bool barrier_flight(Machine *m, Agent *agent, const Step *step, Barrier *barrier, unsigned place,
                    int64_t bytes, unsigned copy);
bool barrier_land(Machine *m, unsigned flight);
bool named_arrive(Machine *m, Agent *agent, const Step *step, unsigned id, unsigned threads, unsigned needed,
                  bool wait);
void agent_release(Machine *m, Agent *agent, Tick *into);
bool cluster_arrive(Machine *m, Agent *agent, const Step *step, bool relaxed);
void cluster_complete(Machine *m);
void remote_note(Machine *m, Agent *agent, const Step *step, unsigned block);

/* products.c */
/* Does a product in flight write a register tile that this step touches, or read one that it writes? Then false, and a fault. */
bool product_untouched(Machine *m, Agent *agent, const Step *step);
bool product_start(Machine *m, Agent *agent, const Step *step);
/* A group that arrives at a block's barrier does so when it is done, which nobody may rely on before the phase has ended. Those
 * who wait for products that another block has issued have none of their own in the group, and wait for it all the same. */
bool product_commit(Machine *m, Agent *agent, const Step *step, unsigned block);
/* The agent's groups of products whose arrivals ended phases of a barrier are done when it has waited for the phase. */
void product_complete(Machine *m, Agent *agent, const Barrier *barrier);

/* partials.c */
bool program_has_partials(const Program *program);
/* Blocks that add a number of parts which is known divide the grid evenly, into so many slices of every tile;
 * 1: there are none. */
unsigned program_slices(const Program *program);
/* A loop over k steps that scenarios with partials cut short: other scenarios show what the ring does. */
bool program_is_inner_loop(const Step *step);
void partial_store(Machine *m, Agent *agent, const Step *step);
void partial_add(Machine *m, Agent *agent, const Step *step);
void partial_post(Machine *m, Agent *agent, const Step *step);
void partial_await(Machine *m, Agent *agent, const Step *step);
/* Runs all blocks of small grids, one after the other, and checks what they leave for each other. */
bool partials_check(Program *program, const int64_t *dims, unsigned *phases, unsigned step_limit,
                    GError **error);

/* execute.c: true if it ran (or failed: m->failed), false if the agent must wait */
bool execute_step(Machine *m, Agent *agent);

/* machine.c */
typedef struct Ending {
  bool ended;     /* all agents came to their end */
  int64_t walked; /* else, tiles of a walk that was longer than the scenario allows; 0: none was */
} Ending;
bool machine_run(Program *program, const Scenario *scenario, unsigned *phases, Ending *ending,
                 GError **error);
char *agent_name(const Machine *m, const Agent *agent);
void machine_fault(Machine *m, const Agent *agent, const Step *step, const char *code, const char *hint,
                   const char *format, ...) G_GNUC_PRINTF(6, 7);
void fault_note(Machine *m, unsigned step, const char *format, ...) G_GNUC_PRINTF(3, 4);
