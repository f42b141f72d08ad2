/* The pseudo-assembly: one language, one text syntax, one opcode table for three levels.
 *
 *   TILE    what the kernel does to tiles. No threads, addresses, barriers or layouts.
 *   STAGED  every tile has a layout, every copy and product names its mechanism; roles, channels, waits explicit.
 *   THREAD  virtual registers, addresses, one instruction a row of the back end.
 *
 * A module holds functions; a function holds a region; a region is a list of operations; an operation has results
 * (values), operands (expressions), attributes (keyword + expression) and nested regions. Control flow is structured
 * at every level: the back end makes the branches. Docs: docs/ir.md, whose opcode list is printed from the table.
 *
 * Everything lives in the module's arena. A module belongs to one thread at a time. */
#pragma once
#include "base/arena.h"
#include "base/diagnostic.h"
#include "base/number.h"
#include "ir/layout.h"
#include <stdbool.h>
#include <stdint.h>

#define IR_MAX_RANK     8
#define IR_TEXT_VERSION 1

typedef struct IrModule IrModule;
typedef struct IrFunction IrFunction;
typedef struct IrRegion IrRegion;
typedef struct IrOp IrOp;
typedef struct IrValue IrValue;
typedef struct IrExpr IrExpr;

typedef enum { IR_TILE = 1, IR_STAGED = 2, IR_THREAD = 4 } IrLevel;

/* ---- Expressions ---- */

/* Operands are expressions. Which kinds are legal where is the opcode table's business. Immutable once made.
 */
typedef enum {
  EXPR_INT,    /* 64 */
  EXPR_FLOAT,  /* 1.5, inf, nan, -inf */
  EXPR_VALUE,  /* %x */
  EXPR_SYMBOL, /* @ab: a channel, shared tile, barrier, tensor map, role, function */
  EXPR_DIM, /* M: a run-time scalar of the kernel, bound at launch (a bare identifier declared by the kernel)
             */
  EXPR_PARAMETER, /* $bm: a template parameter; none is left after instantiation */
  EXPR_NAME,      /* a keyword value of an attribute: tma, relaxed, evict_first */
  EXPR_UNARY,     /* -x  ~x  !x */
  EXPR_BINARY,    /* + - * / % & | ^ << >> < <= > >= == != && || ; integer division truncates */
  EXPR_SELECT,    /* c ? a : b */
  EXPR_CALL,  /* ceil_div(a, b)  min(a, b)  max(a, b)  and special(name) such as lane(), warp(), block(0) */
  EXPR_FIELD, /* @ab.a   @ab.full   %cursor.slot */
  EXPR_INDEX, /* A[m, k]   @ab.a[%w]   %acc[3]  (base, then indices) */
  EXPR_RANGE, /* lo .. hi (half open), inside an index: a sub-tile */
  EXPR_LIST,  /* [a, b, c] */
  EXPR_TRANSPOSED /* x^T: the tile with its two dimensions exchanged; no data move */
} IrExprKind;

typedef enum {
  OPERATOR_NEG,
  OPERATOR_NOT,
  OPERATOR_LNOT,
  OPERATOR_ADD,
  OPERATOR_SUB,
  OPERATOR_MUL,
  OPERATOR_DIV,
  OPERATOR_MOD,
  OPERATOR_AND,
  OPERATOR_OR,
  OPERATOR_XOR,
  OPERATOR_SHL,
  OPERATOR_SHR,
  OPERATOR_LT,
  OPERATOR_LE,
  OPERATOR_GT,
  OPERATOR_GE,
  OPERATOR_EQ,
  OPERATOR_NE,
  OPERATOR_LAND,
  OPERATOR_LOR,
  OPERATOR_COUNT
} IrOperator;

struct IrExpr {
  IrExprKind kind;
  IrOperator operator_;
  int64_t integer;
  double number;
  const char *name; /* symbol, dim, parameter, name, call, field */
  IrValue *value;
  IrExpr *
      *items; /* children: unary 1, binary 2, select 3, call args, field base, index base + indices, list */
  unsigned n;
  Mark mark;
};

/* ---- Types and values ---- */

typedef enum {
  TYPE_NONE,
  TYPE_SCALAR,   /* f32; with count > 1 (THREAD) a register array f32[128], indexed by constants only */
  TYPE_TILE,     /* tile<f32>[128, 256]; at STAGED with a layout */
  TYPE_TENSOR,   /* tensor<bf16>[M, K] strides [K, 1]: a kernel parameter in global memory */
  TYPE_CURSOR,   /* a position in a channel: slot and phase */
  TYPE_PREDICATE /* a truth value in a register (comparison results at THREAD) */
} IrTypeKind;

typedef struct IrType {
  IrTypeKind kind;
  NumberType element;
  IrExpr *element_parameter; /* $ta: the element type is a template parameter; NULL after instantiation */
  unsigned count;            /* scalar: registers in the array, else 1 */
  unsigned rank;
  IrExpr *dims[IR_MAX_RANK];    /* tensor and tile extents; a tile's are EXPR_INT after instantiation */
  IrExpr *strides[IR_MAX_RANK]; /* tensor: elements; defaults to row-major */
  unsigned align;               /* tensor: bytes its address is known to be aligned to; 0 = its element */
  bool constant;                /* tensor: no kernel that this one may overlap with writes it */
  const Layout *layout;         /* tile, from STAGED on; NULL before */
} IrType;

struct IrValue {
  const char *name; /* without the sigil; unique in its function (the printer makes it so) */
  IrType type;
  IrOp *def;             /* NULL for function parameters and region arguments */
  IrRegion *argument_of; /* region argument: its region */
  bool variable;         /* declared by `var`: may be written again (set, mma, in-place ops) */
  unsigned id;           /* dense within the function after ir_number_values() */
};

/* ---- Operations ---- */

/* Enum, names, formats, levels, attributes and checks all derive from ir/opcodes.def. */
typedef enum {
#define OP(id, ...) OP_##id,
#include "ir/opcodes.def"
#undef OP
  IR_OPCODE_COUNT
} IrOpcode;

/* Attribute keywords: ir/attributes.def. */
typedef enum {
#define ATTRIBUTE(id, name, kind, doc) ATTR_##id,
#include "ir/attributes.def"
#undef ATTRIBUTE
  IR_ATTRIBUTE_COUNT
} IrAttributeKey;

typedef struct IrAttribute {
  IrAttributeKey key;
  IrExpr *value; /* NULL for a flag */
} IrAttribute;

struct IrOp {
  IrOpcode code;
  IrOp *previous, *next;
  IrRegion *parent;
  IrValue **results;
  unsigned n_results;
  IrExpr **operands;
  unsigned n_operands;
  IrAttribute *attributes; /* in the table's order when printed */
  unsigned n_attributes;
  IrRegion **regions;
  unsigned n_regions;
  const char
      *symbol;      /* what a declaration (channel, shared, barrier, map, role) declares, without the sigil */
  IrType *declared; /* type of what `symbol` declares (tile, shared), or NULL */
  Mark mark;        /* place in the template or file it came from; kept through all passes */
};

struct IrRegion {
  IrOp *first, *last;
  IrOp *owner; /* NULL for a function's body */
  IrFunction *function;
  IrValue **arguments; /* loop variables */
  unsigned n_arguments;
};

typedef struct IrDim { /* a run-time scalar of the kernel */
  const char *name;
  NumberType type;  /* s32 for coordinates, s64 for strides that may exceed it */
  IrExpr *launch;   /* how the launcher computes it from the graph's symbols; NULL: it is a symbol itself */
  int64_t multiple; /* it is known to be a multiple of this (a guard of the variant); 0 = 1 */
  int64_t maximum;  /* largest value the variant's guard admits; 0 = unknown */
} IrDim;

struct IrFunction {
  const char *name;
  bool is_kernel; /* kernel: entry point; else a sub-kernel, inlined at its calls */
  IrModule *module;
  IrValue **parameters; /* tensors and tiles and scalars in order of appearance */
  unsigned n_parameters;
  IrDim *dims; /* kernel: its run-time scalars, in order of appearance */
  unsigned n_dims;
  IrType *results; /* sub-kernel result types */
  unsigned n_results;
  IrRegion *body;
  /* kernel: launch facts, printed as `launch key value ...` after the signature; ATTR_GRID, ATTR_THREADS, ...
   */
  IrAttribute *launch;
  unsigned n_launch;
  Mark mark;
};

typedef struct
    IrDomain { /* values of an int parameter: `in 16 .. 256 step 16`, both ends too, or `in [1, 2, 4]` */
  int64_t least, most, step;
  const int64_t *values; /* NULL: every step-th from least to most */
  unsigned n;
} IrDomain;

typedef struct IrParameter { /* a template parameter: `param bm: int = 128 in 1 .. 1024 if $split == 1` */
  const char *name;
  const char *kind;       /* "int", "type", "name", "function" */
  IrExpr *value;          /* default or bound */
  const IrDomain *domain; /* NULL: any value */
  IrExpr *condition;      /* NULL: always; where it does not hold, the parameter has its default */
  const char *decided_by; /* NULL: free; else what decides its value, which nobody can set */
  bool outside;           /* `axis`: whoever fills the template in reads it, the body does not */
  Mark mark;
} IrParameter;

typedef enum {
  TRY_VALUES, /* `bm, bn in [[64, 32], [64, 64]] if ... most 2`: each of these in turn */
  TRY_SET,    /* `blocks = 1` */
  TRY_LET,    /* `let tiles = ...`: a word for the lines below */
  TRY_IF      /* `if $bm > 64`: else nothing of this is tried */
} IrTryKind;

typedef struct IrTryLine {
  IrTryKind kind;
  const char **names; /* parameters of the key; TRY_LET: the word */
  unsigned n;
  IrExpr *
      values; /* TRY_VALUES: a list, a select between lists, or an EXPR_RANGE, both ends too; else the value */
  IrExpr *step;      /* of a range; NULL: 1 */
  IrExpr *condition; /* NULL: always */
  IrExpr *most;      /* of the values for which the condition holds so many are tried; NULL: all */
  Mark mark;
} IrTryLine;

typedef struct
    IrTry { /* which values of the key are tried together: lines nest, the last one's change fastest */
  IrTryLine *lines;
  unsigned n;
  bool measured; /* by those who measure only: what no price is known of */
  Mark mark;
} IrTry;

struct IrModule {
  Arena *arena; /* owned */
  IrLevel level;
  const char *gpu; /* description name, header line `gpu NAME HASH`, may be NULL */
  const char *gpu_hash;
  const char *after_pass; /* header line `after PASS`: where --start-after goes on */
  IrParameter *parameters;
  unsigned n_parameters;
  const char *
      *key; /* parameters that tell one kernel of the template from another, `key bm bn ...`, in this order */
  unsigned n_key;
  const char **alike; /* of these any two values above the default make kernels of one kind: `alike bn ...` */
  unsigned n_alike;
  IrTry *tries; /* in the order in which they are tried */
  unsigned n_tries;
  IrFunction **functions;
  unsigned n_functions;
  Source *source;     /* referenced; may be NULL for generated modules */
  IrParameter *bound; /* what ir_instantiate() bound, printed as header lines `bound NAME: KIND = VALUE` */
  unsigned n_bound;
  unsigned registers; /* measure_pressure: what the assembler is expected to need; 0: not measured */
  const struct Mechanism *mechanisms; /* ir/mechanism.h: rows of the run at hand; NULL: those of any GPU */
  unsigned n_mechanisms;
  GPtrArray *sources; /* owned references on further sources that marks point into (linked libraries) */
};

/* ---- Opcode table ---- */

typedef enum { /* what an op does beyond computing its results */
               EFFECT_NONE = 0,
               EFFECT_READ = 1,     /* reads memory */
               EFFECT_WRITE = 2,    /* writes memory */
               EFFECT_SYNC = 4,     /* orders threads or agents: nothing moves across */
               EFFECT_UPDATE = 8,   /* writes operand 0, a variable */
               EFFECT_DECLARE = 16, /* declares a symbol */
               EFFECT_CONTROL = 32, /* owns regions or leaves one */
} IrEffect;

typedef struct IrOpInfo {
  const char *name;
  unsigned levels; /* IrLevel bits where it is legal */
  int results;     /* number, or -1 = any, -2 = 0 or 1 */
  const char
      *format; /* operand syntax, blank-separated: e expression; p postfix expression (no bare infix, so that
                  `*` and `<-` can follow); e? optional last operand; * comma list of e, possibly empty;
                  c a call `@f(e, ...)`: operand 0 is the callee, the rest its arguments; @ a new symbol;
                  @: a new symbol, a colon and its type; A region arguments `%i[: type], ...`;
                  n:a|b one of the keywords; e:a|b an expression or one of the keywords; word=1 the word and
                  an expression, missing means 1; `*` after an operand is the literal product sign;
                  anything else is a literal token (`<-`, `+=`, `in`, `..`, `of`, `at`) */
  const char *effects;    /* letters, see opcodes.def; ir_op_effects() gives IrEffect bits */
  const char *attributes; /* space-separated attribute keywords it takes; '!' before one that is required;
                             key=a|b limits a name attribute to these keywords */
  const char *regions;    /* "" none, "body", "body else?" ... */
  const char *latency;    /* latency class: a fact path of the GPU description, or "" */
  const char *doc;        /* one line */
} IrOpInfo;

const IrOpInfo *ir_op_info(IrOpcode code);
bool ir_opcode_parse(const char *name, IrOpcode *code);
unsigned ir_op_effects(IrOpcode code); /* IrEffect bits */
bool ir_op_is_elementwise(
    IrOpcode code); /* arithmetic, comparisons, selection, casts: element by element on tiles */
const char *ir_attribute_name(IrAttributeKey key);
const char *ir_attribute_doc(IrAttributeKey key);

/* ---- Building ---- */

IrModule *ir_module_new(IrLevel level);
void ir_module_free(IrModule *module);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IrModule, ir_module_free)
IrFunction *ir_function_new(IrModule *module, const char *name, bool is_kernel);
IrFunction *ir_function_find(const IrModule *module, const char *name);
IrFunction *ir_kernel(const IrModule *module); /* the module's only kernel, or NULL */
IrValue *ir_parameter_new(IrFunction *function, const char *name, IrType type);
IrDim *ir_dim_new(IrFunction *function, const char *name, NumberType type);
const IrDim *ir_dim_find(const IrFunction *function, const char *name);
void ir_launch_set(IrFunction *function, IrAttributeKey key, IrExpr *value);
IrExpr *ir_launch_get(const IrFunction *function, IrAttributeKey key); /* NULL if absent */

IrType ir_scalar(NumberType element);
IrType ir_registers(NumberType element, unsigned count);
IrType ir_predicate(void);
IrType ir_tile(IrModule *module, NumberType element, unsigned rank, const int64_t *extents,
               const Layout *layout);
bool ir_type_equal(const IrType *a, const IrType *b);
int64_t ir_tile_extent(const IrType *tile, unsigned dim); /* constant extent; breaks on a non-constant */
int64_t ir_tile_elements(const IrType *tile);

/* Expressions; constants fold as they are built (2 + 3 gives 5, x * 1 gives x, x + 0 gives x). */
IrExpr *ir_int(IrModule *module, int64_t value);
IrExpr *ir_float(IrModule *module, double value);
IrExpr *ir_value(IrModule *module, IrValue *value);
IrExpr *ir_symbol(IrModule *module, const char *name);
IrExpr *ir_dim(IrModule *module, const char *name);
IrExpr *ir_name(IrModule *module, const char *name);
IrExpr *ir_parameter(IrModule *module, const char *name);
IrExpr *ir_unary(IrModule *module, IrOperator op, IrExpr *x);
IrExpr *ir_binary(IrModule *module, IrOperator op, IrExpr *a, IrExpr *b);
IrExpr *ir_select(IrModule *module, IrExpr *condition, IrExpr *a, IrExpr *b);
IrExpr *ir_call(IrModule *module, const char *name, unsigned n, ...); /* n IrExpr* follow */
IrExpr *ir_call_array(IrModule *module, const char *name, unsigned n, IrExpr *const *arguments);
IrExpr *ir_field(IrModule *module, IrExpr *base, const char *name);
IrExpr *ir_index(IrModule *module, IrExpr *base, unsigned n, ...);
IrExpr *ir_index_array(IrModule *module, IrExpr *base, unsigned n, IrExpr *const *indices);
IrExpr *ir_range(IrModule *module, IrExpr *low, IrExpr *high);
IrExpr *ir_list(IrModule *module, unsigned n, IrExpr **items);
IrExpr *ir_transposed(IrModule *module, IrExpr *x);
bool ir_expr_is_int(const IrExpr *expr, int64_t *value);
bool ir_expr_equal(const IrExpr *a, const IrExpr *b);
/* A copy in which every value, dim, parameter and symbol went through `map` (which returns NULL to keep it).
 */
typedef IrExpr *(*IrExprMap)(const IrExpr *leaf, void *data);
IrExpr *ir_expr_map(IrModule *module, const IrExpr *expr, IrExprMap map, void *data);
/* Evaluates an integer expression; lookup gives a leaf's value or false. false if something is not known. */
typedef bool (*IrExprLookup)(const IrExpr *leaf, int64_t *value, void *data);
bool ir_expr_evaluate(const IrExpr *expr, IrExprLookup lookup, void *data, int64_t *value);
/* One operator on numbers. false: the result is none, as that of a division by zero. */
bool ir_fold_unary(IrOperator op, int64_t x, int64_t *result);
bool ir_fold_binary(IrOperator op, int64_t a, int64_t b, int64_t *result);
/* Text as the printer writes it, in the arena. */
const char *ir_expr_text(IrModule *module, const IrExpr *expr);
void ir_expr_visit(const IrExpr *expr, void (*visit)(const IrExpr *, void *),
                   void *data); /* every node, pre-order */

/* Where new ops go: before `before`, or at the end of `region` when it is NULL. */
typedef struct IrBuilder {
  IrModule *module;
  IrRegion *region;
  IrOp *before;
  Mark mark; /* given to new ops */
} IrBuilder;

IrBuilder ir_builder_at_end(IrRegion *region);
IrBuilder ir_builder_before(IrOp *op);
IrBuilder ir_builder_after(IrOp *op);
/* A new op with n operands (IrExpr* follow); results and attributes are added with the calls below. */
IrOp *ir_emit(IrBuilder *builder, IrOpcode code, unsigned n, ...);
IrOp *ir_emit_array(IrBuilder *builder, IrOpcode code, unsigned n, IrExpr *const *operands);
/* Appends a result. Names become unique in ir_name_values(), which the printer, ir_number_values() and the
 * pass door call: so a name depends only on the program as it is, not on ops that came and went. */
IrValue *ir_result(IrOp *op, const char *name_hint, IrType type);
IrExpr *ir_emit_value(IrBuilder *builder, IrOpcode code, IrType type, const char *name_hint, unsigned n, ...);
void ir_operand_append(IrOp *op, IrExpr *operand);
void ir_attribute_set(IrOp *op, IrAttributeKey key, IrExpr *value); /* value NULL = flag */
void ir_attribute_remove(IrOp *op, IrAttributeKey key);
const IrAttribute *ir_attribute(const IrOp *op, IrAttributeKey key); /* NULL if absent */
IrExpr *ir_attribute_value(const IrOp *op, IrAttributeKey key);      /* NULL if absent */
int64_t ir_attribute_int(const IrOp *op, IrAttributeKey key, int64_t otherwise);
bool ir_attribute_is(const IrOp *op, IrAttributeKey key, const char *name); /* value is that EXPR_NAME */
IrRegion *ir_region_add(IrOp *op);                                          /* appends an empty region */
IrValue *ir_argument_add(IrRegion *region, const char *name_hint, IrType type);
void ir_op_remove(IrOp *op); /* unlinks; memory stays in the arena */
void ir_op_move(IrOp *op, IrRegion *region, IrOp *before);
/* Copies an op with its regions to the builder's place; values defined inside are new, others as `map` (a
 * GHashTable of IrValue* -> IrExpr*, filled with what the copy defines) says. */
IrOp *ir_op_clone(IrBuilder *builder, const IrOp *op, GHashTable *map);
void ir_region_clone_into(IrBuilder *builder, const IrRegion *region, GHashTable *map);
IrModule *ir_module_clone(const IrModule *module);
/* A copy of a function of any module in this one; marks go on pointing into the other's source, which is
 * kept. */
IrFunction *ir_function_copy(IrModule *module, const IrFunction *function);
/* The same in 64 bits: f64 for f32, s64 for s32, the suffix behind its name and those of what it calls. */
IrFunction *ir_function_widen(IrModule *module, const IrFunction *function, const char *suffix);
/* Does it name several variables of a template, `var ... count n`? Then only `%x[i]` is a value. */
bool ir_is_several(const IrExpr *expr);
/* Finds the op that declares a symbol visible in the function, or NULL. */
IrOp *ir_symbol_find(const IrFunction *function, const char *symbol);
/* Replaces every use of a value inside a region (nested ones too). */
void ir_replace_uses(IrRegion *region, const IrValue *value, IrExpr *with);
/* The same in what stands behind `op` in its region. */
void ir_replace_uses_behind(const IrOp *op, const IrValue *value, IrExpr *with);
/* Where the first use of the op's result stands: at the start of the `if` around all uses, or in front of the op. */
IrBuilder ir_before_first_use(IrOp *op);
/* Visits every op of a region, nested ones too, in order; the visitor may remove the op it is given. */
void ir_region_visit(IrRegion *region, void (*visit)(IrOp *, void *), void *data);
/* Do operands or attributes of an op or of what is in its regions, or of a region's ops, read the value? */
bool ir_op_uses(IrOp *op, const IrValue *value);
bool ir_region_uses(IrRegion *region, const IrValue *value);
/* How many operations of the region read the value, those inside of others too; `user`, if not NULL, gets the last one. */
unsigned ir_region_count_uses(IrRegion *region, const IrValue *value, IrOp **user);
unsigned ir_number_values(IrFunction *function);  /* gives dense ids and unique names; returns how many */
unsigned ir_give_ids(const IrFunction *function); /* the ids alone: what is made later has none */
void ir_name_values(IrFunction *function);        /* makes value names unique: the first keeps its name */
/* A symbol that nothing in the function declares yet: the hint, or the hint and a number. */
const char *ir_symbol_unique(const IrFunction *function, const char *hint);
/* The `tile` of a channel's slot by its name, or NULL. */
IrOp *ir_slot_find(const IrOp *channel, const char *name);
/* Type of an expression: of a value, a symbol's tile, a sub-tile, scalar arithmetic. TYPE_NONE where it has
 * none of its own (literals, keywords, barriers). */
IrType ir_expr_type(const IrFunction *function, const IrExpr *expr);
/* Extent of `lo .. hi`, if it is constant: 64 of `%i * 64 .. %i * 64 + 64`. */
bool ir_range_extent(const IrExpr *range, int64_t *extent);
/* Type of a result that the operands determine ("as operand 0": arithmetic, comparisons, reductions, let). */
bool ir_infer_result(const IrOp *op, unsigned result, IrType *type);
/* Shape two elementwise operands give: an extent of 1 broadcasts. false if the shapes disagree or are not
 * tiles'. */
bool ir_broadcast(const IrType *a, const IrType *b, IrType *shape);

/* ---- Text ---- */

/* Reads a module of any level. Errors carry file:line:col. Name resolution is done here, checks by ir_verify.
 */
IrModule *ir_read(Source *source, GError **error);
/* The same without what is tried: a template whose tile was chosen. */
IrModule *ir_read_chosen(Source *source, GError **error);
/* The same up to the first function: a template's declarations, without what they are for. */
IrModule *ir_read_head(Source *source, GError **error);
char *ir_print(const IrModule *module); /* g_free; reading it back and printing gives the same text */
char *ir_print_op(const IrOp *op);      /* one op, for messages; g_free */
char *ir_type_text(const IrType *type); /* a type, for messages; g_free */

/* Is the value in the domain? NULL is a domain of all. */
bool ir_domain_has(const IrDomain *domain, int64_t value);
/* "from 1 to 16", "from 16 to 256 in steps of 16", "one of 1, 2, 4"; g_free. */
char *ir_domain_text(const IrDomain *domain);
/* Its condition does not hold, but it has another value than `otherwise`, its default. */
void ir_parameter_refuse(const IrParameter *parameter, int64_t otherwise, int64_t value, GError **error);
/* "bm in [64, 128] if $bn > 64"; g_free. */
char *ir_try_line_text(const IrTryLine *line);
const IrParameter *ir_parameter_find(const IrModule *module, const char *name);
/* Binds parameters (name -> IrExpr*, made in this module), evaluates `when`, inlines sub-kernels, folds. The
 * bound parameters must have the declared kinds; every parameter needs a value. Errors name the template's
 * line. */
bool ir_instantiate(IrModule *module, GHashTable *bindings, GError **error);

/* Copies into the module what it calls and lacks from the library (sub-kernels, with what these call). Names
 * that neither has are left for the next library; ir_instantiate() reports what is missing in the end. */
bool ir_link(IrModule *module, const IrModule *library, GError **error);

/* All faults of a module, each at its op: opcodes illegal at the level, operand kinds and types, attributes
 * missing or unknown, uses before definitions, assignments to non-variables, layouts missing at STAGED,
 * shapes that disagree. false and *error (with one diagnostic a fault) if any. `after` names the pass for the
 * message, or NULL. */
bool ir_verify(const IrModule *module, const char *after, GError **error);
