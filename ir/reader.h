/* The reader's state, shared by its files: expressions and types (ir/read_expr.c), statements and functions
 * (ir/read.c). The first fault ends the reading. */
#pragma once
#include "ir/format.h"
#include "ir/lexer.h"

#define READ_MAX_DEPTH 200  /* nested parentheses, or nested regions */
#define READ_MAX_NODES 1000 /* operators in one expression: bounds the depth of its tree */

typedef struct DimUse { /* a bare name in a signature, resolved when the dims are known */
  const char *name;
  Mark mark;
} DimUse;

typedef struct Reader {
  IrModule *module;
  Lexer lexer;
  GError **error;
  bool failed;
  unsigned depth, nodes;
  IrFunction *function; /* being read */
  GHashTable *values;   /* %name -> IrValue*, what is visible */
  GHashTable *names;    /* bare name -> IrExpr*: tensors and dims */
  GPtrArray *scopes;    /* names defined in the open regions, innermost last; NULL opens a region */
  GArray *dim_uses;     /* DimUse: while a signature is read, else NULL */
  GPtrArray *ahead;     /* IrExpr*: in pipelined loops, values named before the operation that gives them */
  unsigned pipelined;   /* open loops of that kind */
  bool words_allowed;   /* an unknown bare name is a keyword here */
  bool facts_allowed;   /* an unknown bare name is a fact here, which the reader of the module knows */
  bool tries_skipped;   /* nobody asks what is tried */
  bool head_only;       /* the module's functions are left unread */
} Reader;

/* Reports at a place; always false. Only the first fault counts. */
bool read_fail(Reader *reader, const Mark *mark, const char *code, const char *hint, const char *format, ...)
    G_GNUC_PRINTF(5, 6);
bool read_expected(Reader *reader, const char *what);  /* "expected WHAT, found TOKEN" */
bool read_at(const Reader *reader, const char *token); /* the current token is this one */
bool read_accept(Reader *reader, const char *token);   /* and steps over it */
bool read_expect(Reader *reader, const char *token);
const char *read_text(Reader *reader); /* the current token's text, in the arena */
void read_next(Reader *reader);
/* "did you mean" among the NULL-terminated candidates, or NULL; g_free. */
char *read_nearest(const char *name, const char *const *candidates);

/* A value that is not defined is the reader's fault; NULL. */
IrExpr *read_unknown_value(Reader *reader, const char *name, const Mark *mark);
IrExpr *read_expr(Reader *reader);    /* NULL after a fault */
IrExpr *read_postfix(Reader *reader); /* no bare infix */
IrExpr *read_list(Reader *reader);    /* [e, ...]: EXPR_LIST */
IrExpr *read_range(Reader *reader);   /* e .. e */
bool read_type(Reader *reader, IrType *type);
/* What follows `param` or (`outside`) `axis`, `bound`, `key` and `alike`: ir/read_parameter.c. */
bool read_template_parameter(Reader *reader, bool outside);
bool read_bound_parameter(Reader *reader);
bool read_parameter_names(Reader *reader, const char ***names, unsigned *n);
bool read_try(Reader *reader); /* what follows `try`: ir/read_try.c */
