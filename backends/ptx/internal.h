/* What the files of the PTX back end share. */
#pragma once
#include "backends/ptx/ptx.h"
#include "ir/pass.h"
#include <string.h>

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
  GString *body;     /* instructions so far */
  GString *prologue; /* what the body asked to be computed at entry: policies, tensor map addresses, truth */
  Register **values; /* by value id: a value's registers, NULL before its first use */
  GHashTable *once;  /* text of a prologue request -> Register* */
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
void register_put(GString *out, Register reg); /* the same, appended */
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
/* Appends what fits without the detour of a call. */
static inline void text_put(GString *out, const char *text, size_t length)
{
  if (out->len + length >= out->allocated_len) {
    g_string_append_len(out, text, (gssize)length);
    return;
  }
  memcpy(out->str + out->len, text, length);
  out->len += length;
  out->str[out->len] = '\0';
}
void text_line(GString *out, const char *guard, const char *instruction);
void text_label(GString *out, const char *label, const char *comment);
void text_comment(GString *out, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* rows.c */
const PtxRow *ptx_rows(unsigned *n);
/* Emits an op by its row. guard: "@%p1", "@!%p1" or "". */
bool row_emit(Emitter *e, const IrOp *op, const char *guard);
/* Moves an operand into a register by the row of `move`. */
bool row_move(Emitter *e, const IrOp *op, Register to, const Operand *from, const char *guard);

/* expand.c: a row's text taken apart, for tables that live as long as the program. row_text_check: what is wrong
 * with its placeholders, where the row has so many results; NULL if nothing. */
typedef struct RowText RowText;
RowText *row_text_new(const PtxRow *row, unsigned n_operands);
char *row_text_check(const RowText *text, const PtxRow *row, unsigned n_results);

typedef struct RowMatch {
  const PtxRow *row;
  const RowText *text;
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
} RowMatch;
/* Writes the row's instructions; false after an error. */
bool row_expand(Emitter *e, RowMatch *match, const char *guard);

/* fields.c: placeholders that are computed from attributes. */
#define FIELD_UNKNOWN G_MAXUINT
unsigned field_find(const char *name);
const char *field_text(Emitter *e, RowMatch *match, unsigned field); /* NULL after an error */
/* A register as it is, which reads the same wherever it stands; most operands are that. */
static inline bool operand_is_plain(const Operand *operand)
{
  return operand->kind == OPERAND_REGISTERS && operand->integer == 0 && !operand->negated;
}
const char *operand_text(Emitter *e, const Operand *operand, const char *token, NumberType hint);
NumberType match_type(const RowMatch *match, unsigned token); /* type seen by an operand token */
bool products_check(Emitter *e, const IrOp *op);
bool attribute_value_is(const IrOp *op, IrAttributeKey key, const char *value);
bool attribute_key_parse(const char *name, size_t length, IrAttributeKey *key);
