/* The verifier's state, shared by its files: structure and scopes (ir/verify.c), expressions
 * (ir/verify_expr.c), what single operations demand (ir/verify_ops.c). Every fault is collected. */
#pragma once
#include "ir/format.h"
#include "ir/mechanism.h"

#define VERIFY_MAX_FAULTS  50
#define VERIFY_MAX_SYMBOLS 1000 /* they are found by walking the function */

typedef struct Verifier {
  const IrModule *module;
  const IrFunction *function;
  const char *after;
  GError **error;
  unsigned faults;
  bool templated;      /* parameters or a sub-kernel's dims may still stand for constants */
  GHashTable *symbols; /* name -> IrOp* that declares it */
  GPtrArray *values;   /* by id */
  GByteArray *visible; /* by id: defined at this point */
  unsigned loops;      /* open loops */
  const IrOp *rows;    /* the open `tiles` whose tiles may have the extent of a row; NULL: none */
  GHashTable *used;    /* names of the template's parameters that something reads */
} Verifier;

/* One fault at a place. The hint may be NULL. */
void verify_fault(Verifier *verifier, const Mark *mark, const char *code, const char *hint,
                  const char *format, ...) G_GNUC_PRINTF(5, 6);

/* What may stand where an expression is expected. */
typedef enum {
  ALLOW_WORDS = 1,    /* a keyword */
  ALLOW_RANGE = 2,    /* lo .. hi */
  ALLOW_LIST = 4,     /* [a, b] */
  ALLOW_SEVERAL = 16, /* what `[i]` picks one of */
  ALLOW_TILES = 8,    /* tiles, tensors, symbols: not only scalars */
} ExprAllowed;

void verify_expr(Verifier *verifier, const IrExpr *expr, const IrOp *op, unsigned allowed);
void verify_type(Verifier *verifier, const IrType *type, const Mark *mark, const char *what);
void verify_rows(Verifier *verifier, const IrOp *tiles); /* how `tiles` holds rows: ir/verify_rows.c */
void verify_walk(Verifier *verifier, const IrOp *tiles); /* ir/verify_scheduler.c */
void verify_thread(Verifier *verifier, const IrOp *op);  /* ir/verify_thread.c */
void verify_sort(Verifier *verifier, const IrOp *op);    /* ir/verify_sort.c */
void verify_pick(Verifier *verifier, const IrOp *op);
void verify_count(Verifier *verifier, const IrOp *op);
/* Two tiles of one shape and element type. */
void verify_same_tile(Verifier *verifier, const IrOp *op, const IrType *a, const IrType *b);
void verify_turn(Verifier *verifier, const IrOp *op); /* ir/verify_turn.c */
/* ir/verify_scheduler.c: a variable that is kept; what a sub-kernel gives `tiles`. */
void verify_kept(Verifier *verifier, const IrOp *op);
void verify_lanes(Verifier *verifier, const IrOp *op);
void verify_scheduler(Verifier *verifier, const IrOp *tiles, const IrFunction *scheduler);
void verify_memory(Verifier *verifier, const IrFunction *kernel); /* ir/verify_memory.c */
/* Threads of who fills a channel's slots, or puts a product's operand into some. ir/verify_thread.c */
void verify_role_threads(Verifier *verifier, const IrOp *op);
/* What leaves a `turn` or a `take` in the middle: a fault, "`break_if` leaves CONSEQUENCE". ir/verify_turn.c */
void verify_not_left(Verifier *verifier, const IrOp *section, const char *consequence);
void verify_op_rules(Verifier *verifier, const IrOp *op);
bool verify_is_constant_later(const Verifier *verifier,
                              const IrExpr *expr); /* a constant once instantiated */
