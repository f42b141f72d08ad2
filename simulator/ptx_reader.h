/* Inside of the PTX reader: the cursor over the text, shared by the lexical part and the grammar. */
#pragma once
#include "simulator/ptx.h"

typedef struct Scope Scope;
struct Scope {
  Scope *parent;
  GHashTable *names; /* name -> PtxSymbol */
};

typedef struct Reader {
  PtxModule *module;
  Source *source;
  const char *p, *line_start, *end;
  unsigned line;
  Scope *scope;      /* innermost */
  GPtrArray *scopes; /* all of the function, freed with it: labels are resolved at its end */
  PtxFunction *function;
  GArray *code;            /* PtxInstruction */
  GPtrArray *code_scopes;  /* Scope of each instruction: labels may stand further down */
  GByteArray *slot_bytes;  /* PtxFunction.slot_bytes */
  GPtrArray *target_lists; /* TargetList: names to be resolved at the end of the function */
  PtxSymbol *last_label;
  GPtrArray *aliases;   /* PtxAlias */
  GPtrArray *variables; /* PtxSymbol: of the module, also those that stand in functions */
  Mark target_mark;     /* of the .target that the module is for */
  unsigned depth;
  GError **error;
} Reader;

/* cursor */
void reader_space(Reader *r);
Mark reader_mark(const Reader *r);
bool reader_fail(Reader *r, const Mark *mark, const char *code, const char *format, ...) G_GNUC_PRINTF(4, 5);
/* It is PTX, but nothing the simulator runs. */
bool reader_unsupported(Reader *r, const Mark *mark, const char *format, ...) G_GNUC_PRINTF(3, 4);
bool reader_accept(Reader *r, char c);
bool reader_expect(Reader *r, char c);
bool reader_at_name(Reader *r);
const char *reader_name(Reader *r); /* NULL and an error if there is none */
char *reader_string_literal(Reader *r);
bool reader_number(Reader *r, PtxOperand *out);
bool reader_constant(Reader *r, int64_t *value); /* integer constant expression */

/* names */
PtxSymbol *reader_lookup(Reader *r, const char *name);
bool reader_declare(Reader *r, PtxSymbol *symbol);
void reader_push_scope(Reader *r);

/* ptx_link.c: names that are resolved later */
bool reader_initialiser_address(Reader *r, PtxSymbol *variable, GArray *relocations, uint64_t offset);
bool reader_target_list(Reader *r); /* behind .branchtargets or .calltargets */
bool reader_resolve_targets(Reader *r);
bool reader_alias(Reader *r);                            /* behind .alias */
bool reader_link(Reader *r, const GPtrArray *variables); /* at the end of the module */
PtxType reader_special_type(const char *name);           /* TYPE_NONE: no special register */

/* One register of a parameter list, behind ".reg": NULL and an error if there is none. */
PtxSymbol *reader_register(Reader *r);

/* body of a function, after its '{' */
bool reader_body(Reader *r);
bool reader_variable(Reader *r, Space space, bool is_extern, bool parameter, PtxSymbol **out);
