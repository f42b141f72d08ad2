/* The machine: decoded instructions, registers, warps, blocks, clusters, memory. Internal to simulator/.
 *
 * A register is one or two slots of 32 lanes x 32 bits (a 64-bit register is 32 x 64 bits in two slots), so
 * that an instruction is one loop over lanes. A predicate is one 32-bit lane mask in the first word of its
 * slot. Constants live in slots of their own, shared by all warps, so a handler never asks what kind an
 * operand is. */
#pragma once
#include "simulator/formats.h"
#include "simulator/ptx.h"
#include "simulator/simulator.h"

#define LANES            32
#define FULL             0xffffffffu
#define SLOT_BYTES       128
#define OPERAND_CONSTANT 0x80000000u
#define OPERAND_NONE     0xffffffffu
#define NO_PC            0xffffffffu

/* windows of the generic address space; global buffer i lives at (i + 1) << 36, so a stray pointer hits
 * nothing */
#define BUFFER_SHIFT    36
#define WINDOW_SHARED   0x7f0000000000ull
#define WINDOW_LOCAL    0x7e0000000000ull
#define WINDOW_PARAM    0x7d0000000000ull
#define WINDOW_CONST    0x7c0000000000ull
#define WINDOW_CODE     0x7b0000000000ull /* addresses of functions */
#define VARIABLE_BUFFER 1024              /* module variables are buffers from this index on */
#define RANK_SHIFT      24 /* shared::cluster address: (rank + 1) << 24 | offset; rank part 0 is the own block */

typedef struct Warp Warp;
typedef struct Block Block;
typedef struct Cluster Cluster;
typedef struct Run Run;
typedef struct Session Session;
typedef enum { CLUSTER_FINISHED, CLUSTER_STALLED, CLUSTER_STOPPED, CLUSTER_YIELD } ClusterState;
typedef struct Inst Inst;
typedef struct Observed Observed;

typedef enum {
  STEP_NEXT,      /* go on behind the instruction */
  STEP_JUMP,      /* the handler has set the group's pc */
  STEP_WAIT,      /* blocked; runs again when the wait is over */
  STEP_WAIT_NEXT, /* blocked; goes on behind it when the wait is over */
  STEP_GONE,      /* the groups of the warp have changed */
  STEP_STOP,      /* the run ends */
} Step;

typedef Step (*Handler)(Warp *w, const Inst *in, uint32_t mask);

/* What an access or fence orders, and towards whom. A weak access has SCOPE_NONE. */
typedef enum { ORDER_WEAK, ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE, ORDER_BOTH } MemoryOrder;
typedef enum {
  SCOPE_NONE,
  SCOPE_BLOCK,
  SCOPE_CLUSTER,
  SCOPE_GPU
} MemoryScope; /* the system's: as the GPU's */

enum {                     /* Inst.flags */
       INST_BRANCH = 1,    /* guard decides a jump */
       INST_ALIGNED = 2,   /* all live lanes of the warp must be here together */
       INST_CUSTOM = 4,    /* handler keeps the undefined bits of its destinations itself */
       INST_COPY = 8,      /* a mov: carries the in-flight mark instead of faulting */
       INST_ASYNC = 16,    /* may touch in-flight registers (wgmma itself) */
       INST_MEMBERS = 32,  /* target is the operand with the lanes that must be here together */
       INST_ANYWHERE = 64, /* lanes of the same members may meet at different instructions of this kind */
};

/* How undefined bytes go through an instruction: definedness.h. */
typedef enum {
  SPREAD_WHOLE, /* all of the result is undefined */
  SPREAD_COPY,
  SPREAD_LOGIC,
  SPREAD_LEFT,
  SPREAD_RIGHT,
  SPREAD_FUNNEL,
  SPREAD_EXTRACT,
  SPREAD_INSERT,
  SPREAD_PERMUTE,
  SPREAD_CONVERT,
  SPREAD_PARTS, /* packed values, each by itself */
} SpreadKind;

typedef struct Spread {
  uint8_t kind, bytes, from; /* bytes of the result and of the sources */
  uint8_t unit, table;       /* of parts: their bytes; of logic: the truth table */
  bool is_signed;
} Spread;

struct Inst {
  Handler run;
  uint32_t guard;
  bool guard_negated;
  uint8_t flags, type, type2, space, vector, bytes, operation, rounding;
  bool ftz, saturate, negate, wide;
  bool synchronises;    /* an mbarrier operation: its order is that of the barrier, not of the word */
  uint8_t order, scope; /* of a memory access or fence: MemoryOrder, MemoryScope */
  bool read_only;       /* a load through the path for data that no thread of the grid writes */
  uint32_t d[2], a[5];
  uint32_t *list; /* operands of variable number: vectors, fragments */
  uint16_t n_list, n_reads, n_writes;
  uint32_t *reads, *writes; /* register slots, for the checkers */
  int64_t immediate;
  uint64_t more; /* per-instruction extras */
  Spread spread;
  uint32_t target, reconverge; /* branch; reconverge: immediate post-dominator */
  const PtxInstruction *source;
  void *data;
};

typedef struct SpecialUse {
  const char *name;
  uint32_t slot;
  PtxType type;
} SpecialUse;

typedef struct SharedVariable {
  const char *name;
  uint64_t begin, end; /* addresses */
} SharedVariable;

typedef struct Kernel {
  const PtxModule *module;
  const PtxFunction *function;
  Arena *arena;
  Inst *code;
  uint32_t n_code, n_slots;
  uint8_t *constants;
  uint32_t n_constants;
  SpecialUse *specials;
  uint32_t n_specials;
  SharedVariable *shared_variables;
  unsigned n_shared_variables;
  uint64_t shared_static, local_bytes, shared_base; /* local_bytes: of one thread, its stack included */
  struct Routine **routines;                        /* functions that are called, not inlined: call.c */
  unsigned n_routines;
  uint32_t stack_top; /* 64-bit slot of the entry: where the thread's stack begins; 0: there is none */
  uint64_t stack_start;
  uint8_t *slot_bytes; /* per slot: see PtxFunction */
  bool cooperative;    /* asks for the workspace of a cooperative launch */
  bool allocates;      /* calls malloc */
  bool has_products;   /* asynchronous ones */
  bool global_order;   /* uses global atomics or flags: blocks run in one thread, in a fixed order */
} Kernel;

typedef enum {
  WAIT_NONE,
  WAIT_JOIN,  /* at a post-dominator, for the other lanes */
  WAIT_LANES, /* at a .sync instruction, for the other lanes */
  WAIT_BARRIER,
  WAIT_CLUSTER,
  WAIT_MBARRIER,
  WAIT_SPIN,    /* polls several things: runs again when anything changed, or when nothing else can */
  WAIT_MEMORY,  /* polls memory (Wait.needed: lanes): runs again when it changed, or when nothing else can */
  WAIT_LAUNCH,  /* for the launches before it to end */
  WAIT_PRODUCT, /* for the other warps of the warpgroup to issue the same products */
  WAIT_POOL,    /* setmaxnreg.inc */
} WaitKind;

typedef struct Wait {
  WaitKind kind;
  Block *block;    /* where the barrier is */
  uint32_t id;     /* barrier number or shared offset */
  uint64_t value;  /* generation, phase or progress count */
  uint32_t needed; /* lanes */
} Wait;

typedef struct Group {
  uint32_t mask, pc;
  struct Activation *frame; /* of the function the lanes are in, NULL: the entry */
  int join;                 /* index into warp->joins, -1: none */
  Wait wait;
  uint32_t tried; /* pc + 1 of a try_wait that has just failed: the next attempt blocks */
  bool resumed;   /* second run of an instruction that waited */
} Group;

/* Where lanes that have diverged meet again. */
typedef struct Join {
  uint32_t pc, expected, arrived;
  int parent;
  struct Activation *frame; /* a recursive function meets at the same pc in each of its activations */
  bool used;
} Join;

typedef struct AsyncCopy AsyncCopy;

struct Warp {
  uint8_t *registers;
  const uint8_t *constants;
  uint32_t *undefined;    /* per slot: lanes whose value has bytes that nobody has written */
  uint32_t (*unknown)[4]; /* and which of its bytes: definedness.h */
  uint8_t *in_flight;     /* per slot: wgmma token number modulo 255 + 1, 0: free */
  Block *block;
  uint32_t id, live, exited;
  Group groups[LANES];
  unsigned n_groups, next_group;
  Join *joins;
  unsigned n_joins;
  GPtrArray *activations; /* NULL: nothing has been called */
  uint8_t *local;         /* local_bytes per lane */
  uint64_t instructions;
  /* cp.async groups are per thread */
  uint32_t copy_groups[LANES];
  GArray *copies;  /* AsyncCopy */
  GPtrArray *bulk; /* BulkOperation: copies out of shared memory */
  uint32_t bulk_groups[LANES];
  uint64_t bulk_sequence;
  GArray *products; /* Product: wgmma in flight */
  uint32_t product_groups, product_count;
  uint32_t *write_time; /* per slot, NULL: the kernel has no asynchronous products */
  uint32_t time, fence_time, clock;
  struct Polls *polls;      /* poll.c */
  uint32_t collectives;     /* instructions of all its lanes together, so far */
  uint32_t cluster_arrived; /* lanes that have arrived and not yet waited */
  uint32_t cluster_pending; /* of these, lanes that have arrived for the phase that is not complete yet */
  uint32_t registers_owned; /* setmaxnreg */
  void *check;
};

typedef struct Barrier {
  uint32_t expected, arrived, result_popc, result_and, result_or;
  uint64_t generation;
  uint32_t last_popc, last_and, last_or;
  bool undefined, last_undefined; /* some predicate of a reduction was never given a value */
  bool full;                      /* counts the whole block */
  uint32_t partial[32];           /* per warp: lanes that have arrived while others of it have not */
} Barrier;

typedef struct Mbarrier {
  uint32_t offset, count, pending, index;
  int64_t transactions;
  uint64_t phase, observed; /* observed: the latest phase somebody has seen complete */
  bool live;
  const Inst *initialised;
  Warp *last_arrival;
  Warp *partial_warp; /* who arrived last, for which phase, with which lanes */
  Warp *initialiser;
  uint32_t initialised_at; /* its clock then */
  const Inst *left_out;    /* a multicast copy whose mask leaves this block out, NULL: none */
  uint32_t left_out_mask;
  bool fenced; /* the initialiser has made it visible to the async proxy */
  uint64_t partial_phase;
  uint32_t partial_lanes;
  void *check;
} Mbarrier;

#define PRODUCT_LOG 64
typedef struct ProductLog {
  uint32_t count; /* of the warp that wrote it, plus 1 */
  const Inst *in;
  uint64_t a, b;
  bool scale_d;
} ProductLog;

struct Block {
  struct ProductCache **product_cache;    /* per warpgroup */
  ProductLog (*product_log)[PRODUCT_LOG]; /* per warpgroup: its latest products, NULL: none in the kernel */
  Cluster *cluster;
  uint32_t rank; /* in the cluster */
  uint32_t id[3];
  uint8_t *shared;
  uint64_t shared_bytes; /* window size, the base's reserved part included */
  uint64_t shared_base;  /* as the kernel's: where it begins */
  uint64_t *defined;     /* bit per byte of shared, NULL: not tracked */
  Warp *warps;
  unsigned n_warps, threads;
  Barrier barriers[16];
  GArray *mbarriers;                     /* Mbarrier */
  uint64_t mbarrier_begin, mbarrier_end; /* between them they all lie */
  uint16_t
      *layouts;  /* per 16 bytes of shared: 1 + index in boxes of the one loaded there last; NULL: no boxes */
  GArray *boxes; /* LoadedBox: layout.c; NULL: none */
  unsigned live_warps;
  bool triggered; /* it has allowed dependent launches to start, or has ended */
  int64_t register_pool;
  uint8_t *memory; /* one allocation for registers and the like */
  void *check;
};

typedef struct ClusterBarrier {
  uint32_t arrived, expected;
  uint64_t generation;
} ClusterBarrier;

struct Cluster {
  Run *run;
  Block *blocks;
  unsigned n_blocks;
  uint32_t id[3];
  ClusterBarrier barrier;
  GQueue pending; /* asynchronous operations that have not landed: PendingOperation */
  uint64_t index;
  uint64_t progress; /* grows whenever something happens that a spinning warp might wait for */
  uint64_t instructions, random;
  unsigned live_blocks;
  bool stopped, finished;
  bool give_way; /* others should run now: they may have become able to start */
  unsigned spins, switches;
  GString *printed;              /* NULL: nothing yet */
  GHashTable *edge_stores;       /* store_edge.c; NULL: none yet */
  struct OperandCache *operands; /* of products of one warp: exec_matrix.c; NULL: none yet */
  void *check;
};

typedef struct Buffer {
  const char *name;
  uint8_t *data;
  uint64_t bytes, address;
  uint64_t *defined; /* bit per byte, NULL: all defined */
  bool owned, variable, output;
  bool borrowed; /* `defined` is the caller's */
  bool carries;  /* what nobody has written may be stored here, too */
  SimWritten written;
  void *check;
} Buffer;

/* What the launches of one simulation share. Launches that may overlap are a group, numbered and ordered
 * together; groups run one after the other. */
struct Session {
  const SimOptions *options;
  SimResult *result;
  Buffer *buffers;
  unsigned n_buffers;
  GPtrArray *memory; /* Buffer: of the launches and of their modules */
  Run *runs;         /* of the group that runs now */
  unsigned n_runs;
  GMutex lock;
  GPtrArray *left;  /* uint8_t*: memory of blocks that have ended, for others; block.c, under the lock */
  GHashTable *seen; /* faults already reported */
  uint64_t instructions, progress, random, heap_used;
  int stop; /* atomic */
  int64_t deadline;
  unsigned schedule; /* which of the schedules runs now */
  bool ordered;      /* clusters share one thread and may meet in global memory */
  bool threads;      /* several threads run clusters */
  bool track_races;
  bool may_start;        /* a launch has been allowed to start */
  GHashTable *locations; /* race_order.c: words of global memory used for synchronisation */
};

/* One launch. */
struct Run {
  Session *session;
  const Kernel *kernel;
  const SimOptions *options;
  uint32_t grid[3], block[3], cluster[3];
  uint64_t dynamic_shared;
  Buffer *buffers; /* of the session */
  unsigned n_buffers;
  Buffer *variables; /* of the module */
  unsigned n_variables;
  bool owns_variables; /* it is the module's first launch */
  uint8_t *parameters, *constants;
  uint64_t parameter_bytes, constant_bytes;
  uint64_t threads, clusters, next_cluster;
  uint64_t instructions; /* warp-instructions of its clusters that are gone; atomic */
  unsigned registers_per_thread, sm_count;
  uint64_t shared_end, seed;
  unsigned schedule;                       /* which of the schedules runs now */
  bool track_undefined, track_races, ours; /* ours: emitted by adlgen, held to stricter rules */
  SimLanding landing;
  uint64_t workspace;      /* of a cooperative launch: address of its buffer, 0: the kernel asks for none */
  GArray *printed;         /* Printed: print.c */
  const Gpu *gpu;          /* may be NULL */
  struct Stops *watched;   /* NULL: no breaks */
  Observed *observed;      /* as kernel->code; NULL: nobody watches */
  const char *name;        /* of the launch, NULL: it is the only one */
  const SimEdge *after;    /* launches it depends on, by index in the list */
  unsigned n_after, index; /* its own index in the list */
  uint64_t fitting;        /* clusters that are resident at once, 0: no limit is known */
  uint64_t active, ended_clusters;          /* clusters that run; that have ended */
  uint64_t triggered;                       /* blocks that let dependent launches start, or have ended */
  bool starts_late;                         /* only after the end of what it may overlap with */
  uint32_t first_uid;                       /* clusters are numbered through the launches of a group */
  struct Knowledge *known_at_start, *ended; /* what its clusters begin with; what its end makes known */
};

/* The read with which a compare-and-swap loop begins may see an old value: the swap finds out. nvcc makes
 * such loops with a plain load, so in foreign code a plain read beside a compare-and-swap is worth knowing
 * only. */
static inline bool begins_swap_loop(const Run *run, const Inst *read, const Inst *write)
{
  if (run->ours || read->scope || !write->source) return false;
  for (unsigned i = 1; i < write->source->n_parts; i++)
    if (strcmp(write->source->parts[i], "cas") == 0) return true;
  return false;
}

static inline void *operand(const Warp *w, uint32_t id)
{
  return id & OPERAND_CONSTANT ? (uint8_t *)w->constants + (size_t)(id & ~OPERAND_CONSTANT) * SLOT_BYTES
                               : w->registers + (size_t)id * SLOT_BYTES;
}

static inline uint32_t predicate(const Warp *w, uint32_t id)
{
  return *(const uint32_t *)operand(w, id);
}

static inline void set_predicate(Warp *w, uint32_t id, uint32_t mask, uint32_t value)
{
  uint32_t *p = operand(w, id);
  *p = (*p & ~mask) | (value & mask);
}

static inline uint32_t lane_u32(const Warp *w, uint32_t id, unsigned lane)
{
  return ((const uint32_t *)operand(w, id))[lane];
}

static inline uint64_t lane_u64(const Warp *w, uint32_t id, unsigned lane)
{
  return ((const uint64_t *)operand(w, id))[lane];
}

static inline unsigned first_lane(uint32_t mask)
{
  return (unsigned)__builtin_ctz(mask);
}

/* Lanes for which some source is undefined. */
static inline uint32_t undefined_lanes(const Warp *w, uint32_t id)
{
  return id == OPERAND_NONE || id & OPERAND_CONSTANT || !w->undefined ? 0 : w->undefined[id];
}

static inline void set_undefined(Warp *w, uint32_t id, uint32_t mask, uint32_t undefined)
{
  if (!w->undefined || id == OPERAND_NONE) return;
  undefined &= mask;
  w->undefined[id] = (w->undefined[id] & ~mask) | undefined;
  for (unsigned i = 0; undefined && i < 4; i++)
    w->unknown[id][i] |= undefined;
}

#define for_lanes(l, mask)                                                                                   \
  for (uint32_t m_##l = (mask), l = 0; m_##l && (l = first_lane(m_##l), 1); m_##l &= m_##l - 1)

/* report.c: a fault, once per kind and instruction; further ones only count. */
void fault(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, uint64_t address, const char *format,
           ...) G_GNUC_PRINTF(6, 7);
void fault_other(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, uint64_t address,
                 const Inst *other, const Warp *other_warp, const char *format, ...) G_GNUC_PRINTF(8, 9);
/* The same, counted once for all instructions at fault for the same cause: an instruction. */
void fault_cause(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, const Inst *cause,
                 const char *format, ...) G_GNUC_PRINTF(6, 7);
/* The same about somebody who may have gone: where and in which launch. */
typedef struct FaultParty {
  const Run *run;
  const Inst *in;
  unsigned block[3], warp;
} FaultParty;
void fault_party(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, bool is_finding, uint64_t address,
                 const FaultParty *other, const char *format, ...) G_GNUC_PRINTF(8, 9);
/* At the end of the last launch: outputs with bytes that nobody has written. */
void report_outputs(const Run *run);
void finding(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, uint64_t address, const char *format,
             ...) G_GNUC_PRINTF(6, 7);

/* memory.c */
/* ACCESS_SAME: a write of the value that is there already */
typedef enum { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC, ACCESS_SAME } AccessKind;
typedef struct Place {
  uint8_t *at;    /* NULL: the access is refused and reported */
  Block *block;   /* shared memory of this block */
  Buffer *buffer; /* global memory */
  uint64_t offset;
  uint64_t *defined;
} Place;
Place memory_place(Warp *w, const Inst *in, unsigned lane, Space space, uint64_t address, unsigned bytes,
                   AccessKind kind);
/* The access is to a peer's shared memory: reports if the peer may not have started, or has ended. */
void memory_peer(Warp *w, const Inst *in, unsigned lane, const Block *b, uint64_t address, AccessKind kind);
Buffer *memory_buffer(const Run *run, uint64_t address);
Block *memory_block(Warp *w, uint32_t shared_address, uint32_t *offset); /* NULL: no such block */
bool memory_is_defined(const Place *p, unsigned bytes);
void memory_define(const Place *p, unsigned bytes, bool defined);

/* schedule.c */
/* Until it has ended, stopped, cannot go on by itself, or has used its share (warp-instructions, 0: none). */
ClusterState cluster_run(Cluster *c, uint64_t share);
/* Nobody could run: lets something late or a polling warp go on. false: a deadlock. */
bool cluster_unblock(Cluster *c);
/* deadlock.c */
void report_deadlock(Cluster **clusters, unsigned n, const char *note);
Step wait_for(Warp *w, WaitKind kind, Block *block, uint32_t id, uint64_t value, Step step);
void cluster_progress(Cluster *c);
uint32_t cluster_random(Cluster *c);
Group *current_group(Warp *w);

/* call.c */
typedef struct Activation Activation;
void call_warp_free(Warp *w);

/* flow.c: a place where the expected lanes meet; index into w->joins */
int flow_join(Warp *w, uint32_t pc, uint32_t expected, int parent, Activation *frame);

/* print.c */
void print_finish_cluster(Cluster *c);
void print_finish_run(Run *run);
/* poll.c: strong reads that wait for a change */
/* Notes what a lane reads; true: as at its last time here. */
bool poll_same(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes);
/* After all lanes: same says whether every lane saw what it saw before. A few such rounds block the group. */
Step poll_end(Warp *w, const Inst *in, uint32_t mask, bool same);
bool poll_changed(const Warp *w, uint32_t id, uint32_t mask);
void poll_describe(GString *out, const Warp *w, uint32_t id, uint32_t mask);
void poll_free(Warp *w);
Step poll_again(Warp *w, const Inst *in); /* something else than memory was polled and has not changed */

/* shared_name.c: "shared 0x418 (full+24), slot 3 of 4" */
typedef struct SharedName {
  char text[128];
} SharedName;
SharedName shared_name(const Block *b, uint64_t offset);

/* session.c */
bool launches_before_ended(const Run *run);
void launch_triggered(Block *b);
/* After an access that may synchronise blocks: by chance the others run now, so that missing waits show.
 * step: what the access gave. */
Step session_switch(Warp *w, Step step);
void session_run(Session *session, Run *runs, unsigned n);

/* block.c */
Cluster *cluster_new(Run *run, uint64_t index);
void cluster_free(Cluster *c);
void block_memory_free(Session *s); /* what blocks that have ended left to others */

/* barrier.c */
void barrier_thread_exit(Warp *w, uint32_t lanes);
Mbarrier *mbarrier_find(Warp *w, const Inst *in, unsigned lane, Block *b, uint32_t offset);
void mbarrier_arrive(Warp *w, const Inst *in, Mbarrier *m, Block *b, uint32_t count, uint32_t lanes);
/* An access by an instruction that is not for mbarriers: a fault where one lives. */
void mbarrier_ordinary_access(Warp *w, const Inst *in, unsigned lane, const Block *b, uint64_t offset,
                              unsigned bytes, AccessKind kind);
void mbarrier_transactions(Warp *w, const Inst *in, Mbarrier *m, Block *b, int64_t bytes);

/* async.c: operations that land later */
typedef struct PendingOperation PendingOperation;
struct PendingOperation {
  void (*land)(PendingOperation *p);
  Warp *warp;
  const Inst *in;
  unsigned lane;
};
void async_submit(PendingOperation *p);
bool async_land_one(Cluster *c);
void async_block_exit(Block *b);
void async_warp_free(Warp *w);
GArray *async_copies_new(void);

/* decode.c */
Kernel *kernel_decode(const PtxModule *module, const PtxFunction *function, GError **error);
void kernel_free(Kernel *kernel);
