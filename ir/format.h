/* The opcode table, parsed: what the reader, the printer and the verifier walk instead of the row's strings.
 * Made once on first use and immutable from then on. */
#pragma once
#include "ir/ir.h"

typedef enum {
  FORMAT_EXPR,         /* e        any expression */
  FORMAT_POSTFIX,      /* p        postfix expression: no bare infix */
  FORMAT_OPTIONAL,     /* e?       expression, may be missing at the statement's end */
  FORMAT_LIST,         /* *        comma list of expressions, possibly empty */
  FORMAT_CALL,         /* c        f(e, ...): operand 0 the callee, the rest its arguments */
  FORMAT_SYMBOL,       /* @        the new symbol */
  FORMAT_TYPED_SYMBOL, /* @:       the new symbol, a colon and its type */
  FORMAT_ARGUMENTS,    /* A        region arguments */
  FORMAT_NAME,         /* n:a|b    one of the keywords */
  FORMAT_EXPR_OR_NAME, /* e:a|b    any expression, or one of the keywords */
  FORMAT_DEFAULTED,    /* word=1   the word and an expression; missing means the number */
  FORMAT_LITERAL,      /* anything else stands for itself */
} FormatKind;

#define FORMAT_MAX_ITEMS  12
#define FORMAT_MAX_NAMES  24
#define FORMAT_MAX_NEEDED 8

typedef struct FormatItem {
  FormatKind kind;
  const char *text;         /* literal or the word of a defaulted operand */
  int64_t otherwise;        /* FORMAT_DEFAULTED */
  const char *const *names; /* keywords, NULL-terminated */
} FormatItem;

typedef enum {
  ATTRIBUTE_flag,  /* no value */
  ATTRIBUTE_int,   /* an integer expression */
  ATTRIBUTE_expr,  /* any expression */
  ATTRIBUTE_name,  /* a keyword */
  ATTRIBUTE_word,  /* an expression or a keyword */
  ATTRIBUTE_list,  /* [e, ...] */
  ATTRIBUTE_names, /* [keyword, ...] */
  ATTRIBUTE_range, /* e .. e, or a list */
} AttributeKind;

typedef struct OpFormat {
  unsigned n_items;
  FormatItem items[FORMAT_MAX_ITEMS];
  unsigned effects;
  unsigned fixed; /* operands apart from what a list or a call takes */
  bool variadic;  /* has FORMAT_LIST or FORMAT_CALL */
  unsigned regions_min, regions_max;
  bool takes[IR_ATTRIBUTE_COUNT];
  IrAttributeKey needs[FORMAT_MAX_NEEDED]; /* ascending */
  unsigned n_needs;
  const char *const *values[IR_ATTRIBUTE_COUNT]; /* legal keywords of a name attribute; NULL = any */
} OpFormat;

const OpFormat *op_format(IrOpcode code);
AttributeKind attribute_kind(IrAttributeKey key);
bool attribute_parse(const char *name, IrAttributeKey *key);
/* Operands a format item takes, given how many the op has in all (a list takes what the fixed items leave).
 */
unsigned format_operands(const OpFormat *format, const FormatItem *item, unsigned n_operands);
/* NULL-terminated names for did-you-mean. */
const char *nearest_key(const char *name, GHashTable *table); /* among a table's keys; NULL if none is near */
const char *const *opcode_names(void);
const char *const *attribute_names(void);
