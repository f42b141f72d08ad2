/* What the files of the PTX back end share. */
#pragma once
#include "backends/ptx/ptx.h"
#include "ir/pass.h"

/* Register classes; each has its own numbering: %r0, %rd0, %f0, %fd0, %h0, %p0. */
typedef enum {
  CLASS_B32,
  CLASS_B64,
  CLASS_F32,
  CLASS_F64,
  CLASS_B16,
  CLASS_PREDICATE,
  CLASS_COUNT
} RegisterClass;
extern const char *const register_prefix[CLASS_COUNT]; /* "%r", "%rd", ... */
extern const char *const register_type[CLASS_COUNT];   /* ".b32", ... */

typedef struct Register {
  RegisterClass class_;
  NumberType type; /* of a predicate: NUMBER_BOOL */
  unsigned index;
} Register;

RegisterClass register_class(const IrType *type);

typedef enum {
  OPERAND_REGISTERS, /* one, or a list; an address: one and an offset */
  OPERAND_INT,
  OPERAND_FLOAT,
  OPERAND_NAME,   /* a keyword */
  OPERAND_MAP,    /* a tensor map */
  OPERAND_TENSOR, /* a tensor of the signature */
  OPERAND_DIM,    /* a run-time scalar of the kernel */
  OPERAND_SHARED  /* the start of shared memory */
} OperandKind;

typedef struct Operand {
  OperandKind kind;
  const Register *registers;
  unsigned n;
  bool negated;    /* predicate */
  bool sum;        /* register + offset */
  int64_t integer; /* constant, or offset */
  double number;
  const char *name;
} Operand;

typedef struct PtxRow {
  IrOpcode code;
  const char *signature, *attributes, *family;
  unsigned version;
  const char *text;
} PtxRow;

typedef struct Emitter {
  const Gpu *gpu;
  const IrModule *module;
  const IrFunction *kernel;
  GString *body;      /* instructions so far */
  GString *prologue;  /* what the body asked to be computed at entry: policies, tensor map addresses, truth */
  GHashTable *values; /* IrValue* -> Register* (an array's first) */
  GHashTable *once;   /* text of a prologue request -> Register* */
  unsigned used[CLASS_COUNT];
  unsigned labels;
  unsigned version; /* highest that a row needed */
  bool uses_shared;
  GPtrArray *loop_ends; /* labels that break_if goes to, innermost last */
  /* Of the op in hand, kept from one to the next: its operands (Operand), results (Register), and the line
   * that a row expands to. */
  GArray *operands, *results;
  GString *line;
  Arena *arena; /* of this emission */
  GError **error;
  bool failed;
} Emitter;

/* registers.c: registers and operands. */
Register register_new(Emitter *e, RegisterClass class_, NumberType type);
Register *registers_of_value(Emitter *e, const IrValue *value); /* allocates at the first call */
const char *register_text(Emitter *e, Register reg);
/* Resolves an operand; false after an error. An index or range gives that part of an array. */
/* The number that a call at THREAD level stands for in this encoding (encoding.c); false: it is no such call. */
bool encoded_constant(const IrExpr *call, int64_t *value);
bool operand_resolve(Emitter *e, const IrOp *op, const IrExpr *expr, Operand *operand);
/* A list of registers from several operands; each may itself be a list. */
bool operand_concat(Emitter *e, const IrOp *op, IrExpr *const *exprs, unsigned n, GArray *operands);
/* A constant as the type writes it: 12, 0f3F800000. */
const char *constant_text(Emitter *e, const Operand *operand, NumberType type);
/* Registers computed once at entry. */
Register register_policy(Emitter *e, const char *cache);
Register register_map(Emitter *e, const char *map);
Register register_true(Emitter *e, bool value);

/* text.c: lines in columns (guard, mnemonic, operands), long lists wrapped. */
void text_line(GString *out, const char *guard, const char *instruction);
void text_label(GString *out, const char *label, const char *comment);
void text_comment(GString *out, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* rows.c */
const PtxRow *ptx_rows(unsigned *n);
/* Emits an op by its row. guard: "@%p1", "@!%p1" or "". */
bool row_emit(Emitter *e, const IrOp *op, const char *guard);
/* Moves an operand into a register by the row of `move`. */
bool row_move(Emitter *e, const IrOp *op, Register to, const Operand *from, const char *guard);

/* fields.c: placeholders that are computed from attributes. false if unknown; *text is NULL after an error.
 */
typedef struct RowMatch RowMatch;
struct RowMatch {
  const PtxRow *row;
  const IrOp *op;
  const Register *results;
  unsigned n_results;
  unsigned n_tokens; /* operand tokens */
  struct {
    const char *name; /* token text without the star */
    const Operand *operands;
    unsigned n;
  } tokens[8];
  Register scratch[CLASS_COUNT][4];
  bool has_scratch[CLASS_COUNT][4];
  unsigned label;
};
bool field_computed(Emitter *e, RowMatch *match, const char *name, const char **text);
bool field_known(const char *name); /* for the check of the rows */
const char *operand_text(Emitter *e, const Operand *operand, const char *token, NumberType hint);
NumberType match_type(const RowMatch *match, unsigned token); /* type seen by an operand token */
bool products_check(Emitter *e, const IrOp *op);
bool attribute_value_is(const IrOp *op, IrAttributeKey key, const char *value);
bool attribute_key_parse(const char *name, size_t length, IrAttributeKey *key);
