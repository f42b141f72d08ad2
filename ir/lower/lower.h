/* STAGED -> THREAD: what the files of ir/lower/ share. Private to the pass `lower`.
 *
 * The walk emits THREAD ops into a tree of scopes, one per region being written. Pure integer and predicate
 * arithmetic (coordinates, addresses, conditions) goes through lower_scalar(), which folds constants, reuses
 * an equal value that is already in scope, and moves what does not change in an innermost loop in front of
 * it. Everything else is emitted in place. Tiles become one expression a register (LowerTile), registers
 * numbered by their layout. */
#pragma once
#include "ir/ir.h"
#include "ir/mechanism.h"
#include "ir/pass.h"

/* ---- State ---- */

typedef struct LowerScope LowerScope;
struct LowerScope {
  LowerScope *parent;
  IrRegion *region; /* being written, at its end */
  IrOp *owner;      /* THREAD op that owns the region; NULL for the kernel's body */
  bool leaf_loop;   /* body of a loop without inner loops: what it does not change moves in front of it */
  unsigned depth;   /* 1 for the kernel's body; a value's id is the depth of its scope while lowering runs */
  GHashTable *numbers; /* NumberKey -> IrExpr*: values of pure ops in scope */
};

/* Where the threads of the present role (or of its instance) are. */
typedef struct LowerRole {
  unsigned first, warps; /* of the block: the role's */
  unsigned instances, instance_warps;
  IrExpr *thread, *warp; /* index within the instance */
  IrExpr *role_warp, *instance;
  bool whole_block; /* all warps of the block, one instance: a block barrier serves */
} LowerRole;

typedef struct LowerCursor {
  IrValue *slot, *phase; /* variables */
  unsigned slots;
} LowerCursor;

/* Selectors of widen_nibbles: a byte of its word, and none; the byte in both halves. */
enum { LOWER_FIRST_BYTE = 0x4440, LOWER_NEXT_BYTE = 1, LOWER_FIRST_TWICE = 0x4040, LOWER_NEXT_TWICE = 0x101 };

/* Registers of a tile. `pair[i]`, where known, is one 32-bit register that holds registers 2i and 2i+1; of
 * packed 8-bit elements it holds four. */
typedef struct LowerTile {
  const Layout *layout;
  NumberType element;
  unsigned n;
  IrExpr **reg;
  IrExpr **pair;
  IrExpr **twin; /* where known, twin[i] is one 16-bit register that holds the 8-bit floats 2i and 2i+1 */
  IrExpr **
      loaded; /* where known, loaded[i] is the register that elements 2i and 2i+1 were read into: of 8 bits in its low half, of
                 4 in the byte that `picked` selects */
  IrExpr **quads; /* where known, quads[i] is the word that elements 4i to 4i+3 of 8 bits were read into */
  unsigned *bits; /* not NULL: elements 2i and 2i+1 of 4 bits begin at this bit of both halves of loaded[i] */
  IrExpr *picked; /* LOWER_FIRST_BYTE + byte * LOWER_NEXT_BYTE; NULL: the lowest byte */
  IrValue *array; /* a variable's register array; NULL for a value, or when each register is a variable */
  bool packed; /* a variable of 16-bit floats, or the fragments of a product: only the words of `pair` exist
                  (the variable's array is these), registers come from lower_tile_read() */
} LowerTile;

typedef struct LowerPart LowerPart;

typedef struct Lower {
  IrModule *module;
  Arena *arena;
  IrFunction *kernel;
  const IrPassContext *context;
  GError **error;
  bool failed;
  Mark mark; /* of the STAGED op being lowered */
  LowerScope *scope;
  LowerRole *role;
  unsigned block_warps;
  unsigned sums;                 /* registers of a thread's largest variable tile: what products add up in */
  bool plain;                    /* a tile of a ring has no swizzle: its fragments come element by element */
  IrExpr *thread, *lane, *warp;  /* of the block; lane of the warp */
  GHashTable *tiles;             /* STAGED tile value -> LowerTile* */
  GHashTable *fenced;            /* tile values that asynchronous products take from registers */
  GHashTable *scalars;           /* STAGED scalar value -> IrExpr* */
  GHashTable *cursors;           /* STAGED cursor value -> LowerCursor* */
  GHashTable *variables;         /* THREAD variable -> LowerVariable* */
  GHashTable *registers;         /* Layout* -> coordinates of its registers */
  LowerPart *parts;              /* lower_part_of(): what was found, newest first */
  struct LowerExtreme *extremes; /* of a thread's elements (reduce.c), newest first */
  unsigned clock;                /* counts changes of variables */
  unsigned exchanges;            /* reductions through shared memory so far */
} Lower;

/* ---- emit.c: ops, value numbers, scopes ---- */

/* Reports once; the walk stops at the next op. Returns a harmless constant so that callers need no checks. */
IrExpr *lower_fail(Lower *lower, ErrorCode code, const char *code_id, const char *hint, const char *format,
                   ...) G_GNUC_PRINTF(5, 6);

LowerScope *lower_scope_open(Lower *lower, IrOp *owner, IrRegion *region, bool leaf_loop);
void lower_scope_close(Lower *lower);
IrBuilder lower_builder(Lower *lower); /* at the end of the present region */

/* An op in place. */
IrOp *lower_emit(Lower *lower, IrOpcode code, unsigned n, ...);
IrOp *lower_emit_array(Lower *lower, IrOpcode code, unsigned n, IrExpr *const *operands);
IrExpr *lower_result(Lower *lower, IrOp *op, const char *hint, IrType type);
IrExpr *lower_value(Lower *lower, IrOpcode code, IrType type, const char *hint, unsigned n, ...);

/* A pure op: folded, numbered, moved out of an innermost loop if it can be. */
IrExpr *lower_scalar(Lower *lower, IrOpcode code, IrType type, const char *hint, unsigned n, ...);
unsigned lower_depth(Lower *lower,
                     const IrExpr *expr); /* depth of the scope from which on the value exists */

/* Arithmetic through lower_scalar with algebra: x + 0, (x + 1) + 2, x * 8, ... `type` is the register's. */
IrExpr *lower_add(Lower *lower, NumberType type, IrExpr *a, IrExpr *b);
IrExpr *lower_sub(Lower *lower, NumberType type, IrExpr *a, IrExpr *b);
IrExpr *lower_mul(Lower *lower, NumberType type, IrExpr *a, IrExpr *b);
IrExpr *lower_shl(Lower *lower, NumberType type, IrExpr *a, unsigned bits);
IrExpr *lower_shr(Lower *lower, NumberType type, IrExpr *a, unsigned bits);
IrExpr *lower_bits(Lower *lower, IrOpcode code, NumberType type, IrExpr *a, IrExpr *b); /* and or xor */
IrExpr *lower_mul_wide(Lower *lower, IrExpr *a, IrExpr *b);                             /* s32 x s32 -> s64 */
IrExpr *lower_mad_wide(Lower *lower, IrExpr *a, IrExpr *b, IrExpr *c, NumberType type);
IrExpr *lower_compare(Lower *lower, IrOpcode code, IrExpr *a,
                      IrExpr *b); /* predicate; constants fold to 0 or 1 */
/* Predicates: NULL stands for "always". */
IrExpr *lower_and(Lower *lower, IrExpr *a, IrExpr *b);
IrExpr *lower_not(Lower *lower, IrExpr *a);
bool lower_is_int(const IrExpr *expr, int64_t *value);
IrExpr *lower_int(Lower *lower, int64_t value);
/* `when` of an op; NULL leaves it unconditional. */
void lower_when(IrOp *op, IrExpr *predicate);

IrValue *lower_variable(Lower *lower, const char *hint, IrType type, IrExpr *initial);
void lower_set(Lower *lower, IrExpr *target, IrExpr *value);
/* Variables that a STAGED region writes change from here on: for loops, before the body and after it. */
void lower_changes(Lower *lower, const IrRegion *staged);

/* ---- expressions.c: STAGED scalar expressions ---- */

typedef struct LowerScalar {
  IrExpr *x;       /* register or constant */
  NumberType type; /* NUMBER_BOOL: a predicate */
} LowerScalar;

LowerScalar lower_expr(Lower *lower, const IrExpr *expr);
IrExpr *lower_as(Lower *lower, LowerScalar scalar, NumberType type); /* converted */
IrExpr *lower_s32(Lower *lower, const IrExpr *expr);
IrExpr *lower_condition(Lower *lower, const IrExpr *expr); /* a predicate, or the constant 0 or 1 */
IrExpr *lower_elected(Lower *lower);
/* a / y, of type s32 or u32, or what is left, of an s32 that is not negative and a positive y. */
IrExpr *lower_natural_division(Lower *lower, IrExpr *a, int64_t y, NumberType type, bool remainder);
/* A number that is known not to be negative: of tiles, and what natural numbers give of these, in types that hold it. */
bool lower_counts(const IrExpr *expr);
IrExpr *lower_dim(Lower *lower, const char *name, NumberType *type);

/* ---- index.c: layouts as index arithmetic ---- */

/* SOURCE_LANE_CROSSED: its lowest digit is the exclusive or of the lane's third and fourth (fragments.c). */
typedef enum { SOURCE_LANE, SOURCE_WARP, SOURCE_THREAD, SOURCE_LANE_CROSSED } LowerSource;

/* One digit of a thread's index and how it moves the tile coordinates. */
typedef struct LowerDigit {
  LowerSource source;
  unsigned divisor, size; /* digit = index / divisor % size */
  unsigned limit;         /* the index is below it */
  unsigned step[LAYOUT_MAX_DIMS];
} LowerDigit;

#define LOWER_MAX_DIGITS 40
typedef struct LowerMap {
  unsigned n;
  LowerDigit digit[LOWER_MAX_DIGITS];
} LowerMap;

void lower_map_add(LowerMap *map, LowerSource source, unsigned divisor, unsigned size, unsigned limit,
                   unsigned dim, unsigned step);
/* Lane and warp digits of a register layout. */
LowerMap lower_map_of(const Layout *layout);
/* Only those of the warps. */
LowerMap lower_map_of_warps(const Layout *layout);
void lower_place_thread(Lower *lower); /* sets the thread, lane and warp of the block */
IrExpr *lower_source(Lower *lower, LowerSource source);
/* Coordinate along dim of the thread's first element. */
IrExpr *lower_map_coordinate(Lower *lower, const LowerMap *map, unsigned dim);
/* Sum of digit * weight over the digits of a map. */
IrExpr *lower_weighted_sum(Lower *lower, const LowerMap *map, const unsigned *weight);
/* Coordinates of register r at lane 0 of warp 0: [r * LAYOUT_MAX_DIMS + dim]. */
const unsigned *lower_registers(Lower *lower, const Layout *layout);
/* The register whose element at lane 0 of warp 0 has these coordinates; the count of registers if none has.
 */
unsigned lower_register_at(Lower *lower, const Layout *layout, unsigned row, unsigned column);
/* Predicate that is true in one of the threads that hold the same elements; NULL if no two do. */
IrExpr *lower_map_owner(Lower *lower, const Layout *layout);
/* For each register of `to`, the register of `from` with the same element (an extent of 1 in `from` stands
 * for all); NULL if the layouts do not agree on the threads. */
const unsigned *lower_correspondence(Lower *lower, const Layout *from, const Layout *to);
/* The same where `to` is the part of `from` that starts at a coordinate. */
const unsigned *lower_part_of(Lower *lower, const Layout *from, const Layout *to, const unsigned *corner);

/* ---- shared.c: tiles in shared memory ---- */

typedef struct LowerShared {
  const Layout *layout;
  NumberType element;
  IrExpr *base;  /* u32 register: start of the tile but for `offset` */
  IrExpr *fixed; /* the same without the part of the slot, slot * stride */
  IrExpr *slot;  /* NULL if constant */
  int64_t stride;
  int64_t offset; /* constant bytes */
  bool apart;     /* what a lane adds is kept apart from the slot, so that it is the same in all slots */
  unsigned rank;
  unsigned origin[LAYOUT_MAX_DIMS], extent[LAYOUT_MAX_DIMS]; /* the part that is meant */
} LowerShared;

typedef struct LowerAddress {
  IrExpr *base;
  int64_t offset;
} LowerAddress;

IrExpr *lower_address(Lower *lower, LowerAddress address); /* register + constant, as memory ops take it */
IrExpr *lower_address_register(Lower *lower, LowerAddress address, NumberType type);
IrExpr *lower_shared_start(Lower *lower);
bool lower_shared_operand(Lower *lower, const IrExpr *expr, LowerShared *shared);
bool lower_is_shared(Lower *lower, const IrExpr *expr);
/* Byte offset of an element without the swizzle. */
int64_t lower_shared_linear(const LowerShared *shared, const unsigned *coordinate);
int64_t lower_shared_offset(const LowerShared *shared, const unsigned *coordinate); /* with it */
/* Address of the element at the thread's coordinates (map) plus a constant coordinate. */
LowerAddress lower_shared_at(Lower *lower, const LowerShared *shared, const LowerMap *map,
                             const unsigned *constant);
/* The largest power of two that all bytes by which threads, and the tile's largest steps along a dimension,
 * move an address are multiples of; 1 where threads' offsets do not add up. */
int64_t lower_shared_step(const LowerShared *shared, const LowerMap *map);
/* Elements contiguous along dim, a power of two, that start at every multiple of themselves. */
unsigned lower_shared_vector(const LowerShared *shared, unsigned dim);
unsigned lower_shared_inner(const LowerShared *shared);
unsigned lower_swizzle_bytes(const Layout *layout);

/* ---- fragments.c: operands of warp MMAs ---- */

/* The four registers of A at (row, k), rows 0 and 8 at k, then at k + half an instruction's k; the two, or
 * with two neighbouring `pieces` of eight columns four, registers of B at (k, column). b32, or of the
 * element's register type where elements of 32 bits are read one by one. */
void lower_fragment_a(Lower *lower, const LowerShared *shared, const LowerMap *warps, unsigned row,
                      unsigned k, IrExpr **out);
void lower_fragment_b(Lower *lower, const LowerShared *shared, const LowerMap *warps, unsigned k,
                      unsigned column, unsigned pieces, IrExpr **out);
enum { LOWER_RUN_WORDS = 4 }; /* 16 bytes */
/* Eight neighbours along k of B, 16 bits each, from (k, column) on in the first of the four lanes of a column, and so
 * many elements further on in each next one: words of two. */
void lower_fragment_run(Lower *lower, const LowerShared *shared, const LowerMap *warps, unsigned run,
                        unsigned k, unsigned column, IrExpr **out);
/* Is it the layout of a warp MMA's operand (mma.a, mma.b)? */
bool lower_is_fragment(NumberType element, const Layout *layout);
/* A tile in such a layout. */
LowerTile *lower_fragments(Lower *lower, NumberType element, const Layout *layout, const LowerShared *shared);
/* Is it that of a warpgroup MMA's bytes that lie across k (group.a_across), whose registers take bytes of two
 * matrices? */
bool lower_is_crossed(NumberType element, const Layout *layout);
/* A tile in it; NULL where the shared tile is not contiguous along its rows, or nothing loads matrices. */
LowerTile *lower_crossed(Lower *lower, NumberType element, const Layout *layout, const LowerShared *shared);
/* Tiles in layout_turned by matrices, from a tile that lies the other way round and to one of layout_shared_paired; NULL, false: no
 * such mechanism or tile. */
LowerTile *lower_get_turned(Lower *lower, NumberType element, const Layout *layout,
                            const LowerShared *shared);
bool lower_put_turned(Lower *lower, LowerTile *tile, const LowerShared *shared);

/* Is the op's mechanism one that the lanes of a warp issue together: matrices, shuffles? */
bool lower_by_warp(const IrOp *op);
void lower_put(Lower *lower, IrOp *op);
void lower_clear_rows(Lower *lower, const IrOp *op); /* clear.c */
void lower_get(Lower *lower, IrOp *op);
void lower_convert(Lower *lower, IrOp *op);
void lower_block_barrier(Lower *lower, const IrOp *op); /* all threads of the role or instance meet */

/* ---- tiles.c: register tiles ---- */

NumberType lower_register_type(NumberType element); /* what one element is held in */
LowerTile *lower_tile_new(Lower *lower, NumberType element, const Layout *layout);
LowerTile *lower_tile(Lower *lower, const IrExpr *expr); /* of a STAGED value; fails if it is none */
/* The same, packed if it is kept so. */
LowerTile *lower_tile_as_kept(Lower *lower, const IrExpr *expr);
LowerTile *lower_tile_read(Lower *lower, LowerTile *tile); /* with its registers as they are now */
unsigned lower_tile_words(const LowerTile *tile);          /* how many words of `pair` a packed tile has */
void lower_find_fenced(IrOp *op, void *data);              /* visits ops: data is `fenced` */
/* Names a value. Registers of variables are copied, so that later writes do not show. */
void lower_tile_bind(Lower *lower, const IrValue *value, LowerTile *tile);
void lower_scalar_bind(Lower *lower, const IrValue *value, IrExpr *x);
IrExpr *lower_constant(Lower *lower, NumberType element, double value);
IrExpr *lower_literal(Lower *lower, const IrExpr *expr, NumberType element); /* in the form its type wants */
void lower_make_pairs(Lower *lower, LowerTile *tile);
IrExpr *lower_pair(Lower *lower, LowerTile *tile, unsigned low,
                   unsigned high);                                           /* b32 of two 16-bit registers */
IrExpr *lower_byte_quad(Lower *lower, LowerTile *tile, const unsigned *reg); /* b32 of four 8-bit elements */
void lower_tile_var(Lower *lower, IrOp *op);
void lower_tile_set(Lower *lower, IrOp *op);
/* The element of 4 bits that begins at a bit of a word. */
IrExpr *lower_quarter(Lower *lower, IrExpr *word, NumberType element, IrExpr *bit);
/* Moves `count` consecutive elements between registers of a tile and memory words. */
void lower_load_vector(Lower *lower, IrOpcode code, LowerAddress address, LowerTile *tile,
                       const unsigned *reg, unsigned count, IrExpr *when, const IrExpr *fill,
                       const IrExpr *cache);
IrOp *lower_store_vector(Lower *lower, IrOpcode code, LowerAddress address, LowerTile *tile,
                         const unsigned *reg, unsigned count, IrExpr *when, const IrExpr *cache);

/* A vector that may reach over either end of a row: whole it is one access, else what lies inside goes element by element. */
typedef struct LowerEdge {
  const struct LowerAccess *access;
  const unsigned *at; /* its first element */
  const unsigned *reg;
  unsigned count;
  bool even; /* vectors begin where the row does, or whole ones behind it: none reaches over its beginning */
  LowerAddress address;
  IrExpr *whole, *part; /* all of it lies inside; some, but not all (NULL: never) */
  IrExpr *word[4];      /* of a load: variables that hold it */
  LowerTile *own;       /* with what lies inside where not all does */
} LowerEdge;
/* The whole vectors of an edge, */
void lower_load_edge(Lower *lower, const LowerTile *tile, LowerEdge *edge, const IrExpr *fill,
                     const IrExpr *cache);
/* and the others, element by element: all threads have the loads, of which few load anything. In a branch they would be asked for once what lies whole
 * has come, since the assembler computes with that in front of it, and a row's ends would take two latencies. */
void lower_ask_edge_part(Lower *lower, const LowerTile *tile, LowerEdge *edge, const IrExpr *fill,
                         const IrExpr *cache);
/* and put together behind these. */
void lower_take_edge_part(Lower *lower, LowerTile *tile, LowerEdge *edge);
void lower_store_edge_part(Lower *lower, LowerTile *tile, const LowerEdge *edge, const IrExpr *cache);

/* All vectors of a tile, at edges or not (edges.c). `owner`: of threads that hold the same elements, one stores; NULL: none do. */
void lower_load_edges(Lower *lower, const IrOp *op, LowerTile *tile, unsigned n, LowerEdge *edges);
void lower_store_edges(Lower *lower, const IrOp *op, LowerTile *tile, unsigned n, LowerEdge *edges,
                       IrExpr *owner);
/* The corner of the vectors, `by` elements behind the first ones, that `op` puts its tile's together of, */
IrExpr *lower_slid_corner(Lower *lower, const IrOp *op, unsigned by);
/* has the tensor one row for all, whose beginning is a whole vector's? */
bool lower_slides_one_row(const IrOp *op);
/* and all vectors of the tile, of both; those at its ends (`own`) go element by element. */
void lower_load_slid(Lower *lower, const IrOp *op, LowerTile *tile, unsigned n, LowerEdge *const edges[2],
                     const LowerEdge *own);
/* The elements of a vector that lie inside, one by one: whoever predicates eight accesses more beside vectors that are put together takes longer. */
void lower_load_edge_elements(Lower *lower, LowerTile *tile, const LowerEdge *edge, const IrExpr *fill,
                              const IrExpr *cache);
/* A vector of a tile, of two that follow one another in memory, the same registers of other tiles: from element `from` of the first on. */
void lower_slide_vector(Lower *lower, LowerTile *tile, const unsigned *reg, unsigned count,
                        LowerTile *const pair[2], IrExpr *from);

/* ---- known.c ---- */

/* The least and the largest that an integer is known to be; false: nothing says. */
bool lower_known_range(const Lower *lower, const IrExpr *expr, int64_t *least, int64_t *most);
/* The same where loops between constants count, too. */
bool lower_counted_range(const Lower *lower, const IrExpr *expr, int64_t *least, int64_t *most);
/* Is a value that is known to be below 0 at times part of it? */
bool lower_from_below(const Lower *lower, const IrExpr *expr);
/* Is a comparison of rows' and columns' numbers and constants the same for all threads in a register of its tile? */
bool lower_known_truth(const Lower *lower, const IrOp *op, const Layout *layout, unsigned reg, bool *truth);
/* Is a comparison of such numbers with a bound the same in two registers of each thread? */
bool lower_same_truth(const Lower *lower, const IrOp *op, const Layout *layout, unsigned reg, unsigned other);

/* ---- elementwise.c ---- */
/* Of an op that widens: from which type of 8 bits or 4 into which of 16. */
void lower_set_widening(const Lower *lower, IrOp *widen, NumberType from, NumberType into);

bool lower_is_elementwise(IrOpcode code);
void lower_elementwise(Lower *lower, IrOp *op);

/* Whether any lane of the warp has a true element. */
void lower_some(Lower *lower, const IrOp *op);
void lower_lanes(Lower *lower, const IrOp *op);

void lower_cast(Lower *lower, IrOp *op);
void lower_splat(Lower *lower, IrOp *op);
void lower_iota(Lower *lower, IrOp *op);
/* Register values of an operand for each register of a result layout. */
IrExpr **lower_spread(Lower *lower, const IrExpr *operand, const Layout *layout, NumberType element);
LowerTile *lower_spread_tile(Lower *lower, const IrExpr *operand, const Layout *layout, NumberType element);
IrExpr *lower_cast_register(Lower *lower, IrExpr *x, NumberType from, NumberType to, const IrOp *op);
IrExpr *lower_combine(Lower *lower, const char *with, NumberType element, IrExpr *a, IrExpr *b);

/* ---- the rest, by topic ---- */

void lower_region(Lower *lower, const IrRegion *region);
const IrOp *lower_roles(Lower *lower, const IrOp *op); /* roles.c; the last role it took */
void lower_enter_role(Lower *lower, LowerRole *role, unsigned first, unsigned warps, unsigned instances);
void lower_for(Lower *lower, const IrOp *op); /* control.c */
void lower_loop(Lower *lower, const IrOp *op);
void lower_if(Lower *lower, const IrOp *op);
void lower_turn(Lower *lower, const IrOp *op);

void lower_cursor(Lower *lower, IrOp *op); /* channels.c */
void lower_advance(Lower *lower, IrOp *op);
void lower_skip(Lower *lower, IrOp *op);
void lower_init_barriers(Lower *lower, IrOp *op);
void lower_await(Lower *lower, IrOp *op);
void lower_arrive(Lower *lower, IrOp *op);
void lower_expect(Lower *lower, IrOp *op);
LowerAddress lower_barrier(Lower *lower, const IrExpr *expr);
IrExpr *lower_slot(Lower *lower, const IrExpr *index); /* slot number of a cursor or expression */
LowerCursor *lower_cursor_of(Lower *lower, const IrExpr *expr);

void lower_load(Lower *lower, IrOp *op); /* global.c */
void lower_store(Lower *lower, IrOp *op);
/* What op stores, with its `where` and `cache`: the tile at a corner of its own. */
void lower_store_tile(Lower *lower, IrOp *op, const IrExpr *corner, LowerTile *tile);
IrExpr *lower_fill_of(Lower *lower, const IrOp *op); /* of an op with `fill`; NULL: it has none */
void lower_gather(Lower *lower, IrOp *op);
void lower_scatter(Lower *lower, IrOp *op);

/* An access to a tensor whose element (r, c, ...) of a tile is T[corner + (r, c, ...)]: thread part and
 * register part. */
typedef struct LowerAccess {
  const IrType *tensor;
  unsigned rank, tile_rank;
  IrExpr *address; /* u64: of the thread's element 0; of elements of 4 bits how many lie before it */
  int64_t offset;  /* constant bytes; of elements of 4 bits elements */
  IrExpr *start;   /* u64: of the tensor, where elements are of 4 bits */
  IrExpr *stride[IR_MAX_RANK]; /* elements; constant or register */
  NumberType stride_type[IR_MAX_RANK];
  IrExpr *coordinate[IR_MAX_RANK]; /* of the thread's element 0; NULL if never outside */
  IrExpr *bound[IR_MAX_RANK];
  bool from_below[IR_MAX_RANK]; /* the coordinate may be below 0, */
  bool ranged[IR_MAX_RANK];     /* and is known to lie between these: */
  int64_t least[IR_MAX_RANK], most[IR_MAX_RANK];
} LowerAccess;
/* map: coordinates of the thread within the tile (NULL: none). extent: the tile's. */
bool lower_access_open(Lower *lower, const IrExpr *expr, const LowerMap *map, unsigned tile_rank,
                       const unsigned *extent, LowerAccess *access);
/* Of elements of 4 bits the byte that the element lies in, */
LowerAddress lower_access_at(Lower *lower, const LowerAccess *access, const unsigned *constant);
/* and the bit of it where it begins. */
IrExpr *lower_access_bit(Lower *lower, const LowerAccess *access, const unsigned *constant);
IrExpr *lower_access_inside(Lower *lower, const LowerAccess *access,
                            const unsigned *constant); /* NULL: always */
/* Sets `whole` and `part` of a vector of the access. */
void lower_access_edge(Lower *lower, LowerEdge *edge);
/* Does an element of one of which some lie inside? */
IrExpr *lower_edge_inside(Lower *lower, const LowerEdge *edge, unsigned element);

void lower_store_partial(Lower *lower, IrOp *op); /* streams.c */
void lower_add_partial(Lower *lower, IrOp *op);
/* The tensor that the launch names, or NULL. */
IrValue *lower_named_tensor(const Lower *lower, IrAttributeKey key);
void lower_claim(Lower *lower, IrOp *op); /* posts.c */
void lower_post(Lower *lower, IrOp *op);
void lower_post_step(Lower *lower, IrOp *op);
void lower_await_step(Lower *lower, IrOp *op);
void lower_await_posts(Lower *lower, IrOp *op);

void lower_copy(Lower *lower, IrOp *op);   /* copies.c */
void lower_reduce(Lower *lower, IrOp *op); /* reduce.c */
void lower_scan(Lower *lower, IrOp *op);   /* scan.c */
void lower_sort(Lower *lower, IrOp *op);   /* sort.c */
/* The word from whose halves two neighbours were widened, and of which type; NULL: from none. */
IrExpr *lower_halves_of(const IrExpr *low, const IrExpr *high, NumberType *type); /* reduce.c */
void lower_pick(Lower *lower, IrOp *op);                                          /* pick.c */
void lower_count(Lower *lower, IrOp *op);                                         /* count.c */
void lower_spread_every(Lower *lower, IrOp *op);
void lower_store_reduced(Lower *lower, IrOp *op);

/* One product as its three lowerings see it. */
typedef struct LowerProduct {
  IrOp *op;
  LowerTile *acc;
  const unsigned *acc_at; /* register coordinates */
  unsigned m, n, k;
  bool a_shared, b_shared;
  LowerShared a, b; /* [m, k], [k, n] */
  LowerTile *a_tile, *b_tile;
  NumberType a_type, b_type, acc_type;
} LowerProduct;
void lower_mma(Lower *lower, IrOp *op);                          /* products.c */
void lower_mma_warp(Lower *lower, const LowerProduct *product);  /* products_warp.c */
void lower_mma_group(Lower *lower, const LowerProduct *product); /* products_group.c */
void lower_mma_fma(Lower *lower, const LowerProduct *product);   /* products_fma.c */
/* Register of the accumulator at a coordinate (lane 0 of warp 0). */
unsigned lower_acc_register(Lower *lower, const LowerProduct *product, unsigned row, unsigned column);
/* The 32-bit register of a register operand whose `per` elements along k start at a coordinate, `apart` from each other. */
IrExpr *lower_operand_word(Lower *lower, LowerTile *tile, unsigned per, unsigned k_dim, unsigned apart,
                           const unsigned *at);
/* The same of elements at `per` places along k. */
IrExpr *lower_word_of(Lower *lower, LowerTile *tile, unsigned per, unsigned k_dim, const unsigned *at,
                      const unsigned *k);
/* Distinct row (dim 0) or column offsets of the accumulator's registers that are multiples of `step`,
 * ascending. */
unsigned *lower_acc_offsets(Lower *lower, const LowerProduct *product, unsigned dim, unsigned step,
                            unsigned *n);
/* What `first` of a product asks for, before a product whose instructions can only add: writes zeros. */
void lower_clear_if_first(Lower *lower, const LowerProduct *product);
