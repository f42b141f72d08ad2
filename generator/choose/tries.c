#include "generator/choose/tries.h"
#include "ir/calls.h"
#include <string.h>

typedef enum {
  CODE_SLOT, /* a number, a fact, a word, a parameter that a line gave, or what was computed of facts alone */
  CODE_DERIVE, /* a parameter that follows from others */
  CODE_UNARY,
  CODE_BINARY,
  CODE_AND,
  CODE_OR,
  CODE_EQUAL,
  CODE_LESS,
  CODE_AT_MOST,
  CODE_CALL,
  CODE_SELECT,
  CODE_LIST,
} CodeKind;

typedef struct Code {
  CodeKind kind;
  IrOperator op;
  bool known;    /* hangs on numbers and facts only */
  unsigned slot; /* also the parameter that is derived */
  bool (*fold)(int64_t a, int64_t b, int64_t *result);
  const struct Code *a, *b, *c;    /* operands */
  const struct Code *const *items; /* of a list */
  unsigned n;
} Code;

typedef struct Line {
  IrTryKind kind;
  unsigned slots[4], n;
  unsigned given; /* parameters that have values before this line */
  const Code *values, *high, *step, *condition, *most;
  const Code
      *kept[4]; /* what the template says of values but the default; NULL: nothing that is known here */
} Line;

typedef struct Block {
  Line *lines;
  unsigned n;
  unsigned *given, n_given;
} Block;

typedef struct Ahead { /* computed once a walk */
  const Code *code;
  unsigned slot;
} Ahead;

/* Slots are parameters, then facts, then words, numbers and what is computed ahead. */
struct Tries {
  Arena *arena;
  const IrModule *head;
  const char *const *facts;
  unsigned n_facts;
  GArray *initial; /* int64_t, by slot: defaults, and numbers */
  Block *blocks;
  GArray *ahead; /* Ahead */
};

/* ---- Names ---- */

typedef struct Resolving {
  Tries *tries;
  GHashTable *words; /* slot + 1, by name: of the block at hand */
  GError **error;
  const Block *block; /* what was given so far */
} Resolving;

static bool parameter_index(const IrModule *head, const char *name, unsigned *index)
{
  const IrParameter *parameter = ir_parameter_find(head, name);
  if (parameter) *index = (unsigned)(parameter - head->parameters);
  return parameter != NULL;
}

static bool in_key(const IrModule *head, const char *name)
{
  for (unsigned i = 0; i < head->n_key; i++)
    if (!strcmp(head->key[i], name)) return true;
  return false;
}

static bool is_given(const Block *block, unsigned parameter)
{
  for (unsigned i = 0; i < block->n_given; i++)
    if (block->given[i] == parameter) return true;
  return false;
}

static Code *code_new(const Resolving *at, CodeKind kind)
{
  Code *code = arena_new_object(at->tries->arena, Code);
  code->kind = kind;
  return code;
}

static Code *slot_code(const Resolving *at, unsigned slot, bool known)
{
  Code *code = code_new(at, CODE_SLOT);
  code->slot = slot;
  code->known = known;
  return code;
}

static unsigned slot_new(Tries *tries, int64_t initial)
{
  g_array_append_val(tries->initial, initial);
  return tries->initial->len - 1;
}

static Code *number_code(const Resolving *at, int64_t number)
{
  return slot_code(at, slot_new(at->tries, number), true);
}

static int64_t default_of(const IrModule *head, unsigned parameter)
{
  int64_t value;
  const IrExpr *otherwise = head->parameters[parameter].value;
  return otherwise && ir_expr_is_int(otherwise, &value) ? value : 0;
}

static bool gives(const IrTry *block, const char *name)
{
  for (unsigned i = 0; i < block->n; i++)
    for (unsigned j = 0; block->lines[i].kind != TRY_LET && j < block->lines[i].n; j++)
      if (!strcmp(block->lines[i].names[j], name)) return true;
  return false;
}

/* A parameter that every block of the head gives, and no line of this one so far; NULL: none. What follows from parameters
 * follows from those. */
static const char *not_yet_given(const Resolving *at)
{
  const IrModule *head = at->tries->head;
  for (unsigned i = 0; i < head->n_key; i++) {
    unsigned index = 0, blocks = 0;
    for (unsigned j = 0; j < head->n_tries; j++)
      blocks += gives(&head->tries[j], head->key[i]);
    if (blocks == head->n_tries && parameter_index(head, head->key[i], &index) && !is_given(at->block, index))
      return head->key[i];
  }
  return NULL;
}

static Code *resolve_parameter(const Resolving *at, const IrExpr *expr)
{
  const IrModule *head = at->tries->head;
  unsigned index = 0;
  parameter_index(head, expr->name, &index); /* the reader has seen to it */
  bool given = is_given(at->block, index);
  if (!given && in_key(head, expr->name)) return number_code(at, default_of(head, index));
  Code *code = slot_code(at, index, false);
  if (given) return code;
  code->kind = CODE_DERIVE;
  const char *missing = not_yet_given(at);
  if (!missing) return code;
  error_set(at->error, ERROR_INPUT, &expr->mark, "try", NULL,
            "`$%s` follows from parameters that are tried, and no line up to here gives `%s`", expr->name,
            missing);
  return NULL;
}

static Code *resolve_fact(const Resolving *at, const IrExpr *expr)
{
  bool field = expr->kind == EXPR_FIELD;
  g_autofree char *name = field && expr->items[0]->kind == EXPR_DIM
                              ? g_strconcat(expr->items[0]->name, ".", expr->name, NULL)
                          : field ? g_strconcat("?.", expr->name, NULL)
                                  : g_strdup(expr->name);
  unsigned slot = GPOINTER_TO_UINT(g_hash_table_lookup(at->words, name));
  if (slot) return slot_code(at, slot - 1, false);
  for (unsigned i = 0; i < at->tries->n_facts; i++)
    if (!strcmp(at->tries->facts[i], name)) return slot_code(at, at->tries->head->n_parameters + i, true);
  const char *nearest = nearest_name(name, at->tries->facts);
  g_autofree char *hint = nearest ? g_strdup_printf("did you mean `%s`?", nearest) : NULL;
  error_set(at->error, ERROR_INPUT, &expr->mark, "try", hint,
            "`%s` is neither a fact that choosing knows nor a word of the lines above", name);
  return NULL;
}

/* ---- Expressions ---- */

static Code *resolve(const Resolving *at, const IrExpr *expr);

/* What hangs on facts alone is computed once a walk. */
static const Code *put_ahead(const Resolving *at, const Code *code)
{
  if (!code->known || code->kind == CODE_SLOT || code->kind == CODE_LIST) return code;
  Ahead ahead = {code, slot_new(at->tries, 0)};
  g_array_append_val(at->tries->ahead, ahead);
  return slot_code(at, ahead.slot, true);
}

static Code *resolve_list(const Resolving *at, const IrExpr *expr)
{
  Code *code = code_new(at, CODE_LIST);
  const Code **items = arena_new_array(at->tries->arena, const Code *, expr->n);
  for (unsigned i = 0; i < expr->n; i++) {
    const Code *item = resolve(at, expr->items[i]);
    if (!item) return NULL;
    items[i] = put_ahead(at, item);
  }
  code->items = items;
  code->n = expr->n;
  return code;
}

/* Comparisons are the commonest; of a > b and a >= b the operands change places. */
static CodeKind binary_kind(IrOperator op, bool *exchanged)
{
  *exchanged = op == OPERATOR_GT || op == OPERATOR_GE;
  switch ((unsigned)op) {
  case OPERATOR_LAND: return CODE_AND;
  case OPERATOR_LOR: return CODE_OR;
  case OPERATOR_EQ: return CODE_EQUAL;
  case OPERATOR_LT:
  case OPERATOR_GT: return CODE_LESS;
  case OPERATOR_LE:
  case OPERATOR_GE: return CODE_AT_MOST;
  default: return CODE_BINARY;
  }
}

/* An operator or function of up to three operands. */
static Code *resolve_operands(const Resolving *at, const IrExpr *expr, CodeKind kind)
{
  const Code *operands[3] = {NULL};
  bool exchanged = false;
  Code *code = code_new(at, kind == CODE_BINARY ? binary_kind(expr->operator_, &exchanged) : kind);
  code->op = expr->operator_;
  if (kind == CODE_CALL) code->fold = ir_call_info(expr->name)->fold; /* the reader has seen to it */
  code->known = true;
  for (unsigned i = 0; i < expr->n; i++) {
    if (!(operands[i] = resolve(at, expr->items[i]))) return NULL;
    code->known &= operands[i]->known;
  }
  for (unsigned i = 0; i < expr->n && !code->known; i++)
    operands[i] = put_ahead(at, operands[i]);
  code->a = operands[exchanged];
  code->b = operands[!exchanged];
  code->c = operands[2];
  return code;
}

static Code *resolve(const Resolving *at, const IrExpr *expr)
{
  switch ((unsigned)expr->kind) {
  case EXPR_INT: return number_code(at, expr->integer);
  case EXPR_PARAMETER: return resolve_parameter(at, expr);
  case EXPR_DIM:
  case EXPR_FIELD: return resolve_fact(at, expr);
  case EXPR_UNARY: return resolve_operands(at, expr, CODE_UNARY);
  case EXPR_BINARY: return resolve_operands(at, expr, CODE_BINARY);
  case EXPR_CALL: return resolve_operands(at, expr, CODE_CALL);
  case EXPR_SELECT: return resolve_operands(at, expr, CODE_SELECT);
  case EXPR_LIST: return resolve_list(at, expr);
  default:
    error_set(at->error, ERROR_INPUT, &expr->mark, "try", NULL,
              "what is tried is computed of whole numbers, parameters and facts");
    return NULL;
  }
}

/* NULL for what is not there; false: *error. */
static bool resolve_clause(const Resolving *at, const IrExpr *expr, const Code **clause)
{
  const Code *code = expr ? resolve(at, expr) : NULL;
  *clause = code ? put_ahead(at, code) : NULL;
  return !expr || code;
}

/* ---- Lines ---- */

static void give(Resolving *at, Block *block, const IrTryLine *source, Line *line)
{
  for (unsigned i = 0; i < source->n; i++) {
    if (source->kind == TRY_LET) {
      line->slots[i] = slot_new(at->tries, 0);
      g_hash_table_insert(at->words, (gpointer)source->names[i], GUINT_TO_POINTER(line->slots[i] + 1));
      continue;
    }
    parameter_index(at->tries->head, source->names[i], &line->slots[i]);
    block->given[block->n_given++] = line->slots[i];
  }
}

typedef struct Asking {
  const Resolving *at;
  bool known;
} Asking;

static void ask_given(const IrExpr *leaf, void *data)
{
  Asking *asking = data;
  unsigned index;
  if (leaf->kind == EXPR_PARAMETER && parameter_index(asking->at->tries->head, leaf->name, &index))
    asking->known &= is_given(asking->at->block, index);
}

/* Conditions of the line's parameters that ask for facts and for what lines gave: what is against them is not tried, so that
 * `most` does not count it. Others are for whoever takes what was tried. */
static bool resolve_kept(const Resolving *at, const IrTryLine *source, Line *line)
{
  g_autoptr(GHashTable) none = g_hash_table_new(g_str_hash, g_str_equal);
  const Resolving facts = {at->tries, none, at->error, at->block};
  for (unsigned i = 0; source->kind == TRY_VALUES && i < source->n; i++) {
    const IrExpr *condition = at->tries->head->parameters[line->slots[i]].condition;
    Asking asking = {at, condition != NULL};
    if (condition) ir_expr_visit(condition, ask_given, &asking);
    if (asking.known && !resolve_clause(&facts, condition, &line->kept[i])) return false;
  }
  return true;
}

static bool resolve_line(Resolving *at, Block *block, const IrTryLine *source, Line *line)
{
  const IrExpr *values = source->values;
  bool range = values && values->kind == EXPR_RANGE;
  *line = (Line){.kind = source->kind, .n = source->n, .given = block->n_given};
  if (!resolve_clause(at, range ? values->items[0] : values, &line->values) ||
      !resolve_clause(at, range ? values->items[1] : NULL, &line->high) ||
      !resolve_clause(at, source->step, &line->step))
    return false;
  give(at, block, source, line); /* the condition is of the values that the line gives */
  return resolve_clause(at, source->condition, &line->condition) &&
         resolve_clause(at, source->most, &line->most) && resolve_kept(at, source, line);
}

static bool resolve_block(Tries *tries, const IrTry *source, Block *block, GError **error)
{
  g_autoptr(GHashTable) words = g_hash_table_new(g_str_hash, g_str_equal);
  Resolving at = {tries, words, error, block};
  block->n = source->n;
  block->lines = arena_new_array(tries->arena, Line, source->n);
  block->given = arena_new_array(tries->arena, unsigned, tries->head->n_parameters);
  for (unsigned i = 0; i < source->n; i++)
    if (!resolve_line(&at, block, &source->lines[i], &block->lines[i])) return false;
  return true;
}

Tries *tries_resolve(const IrModule *head, const char *const *facts, GError **error)
{
  g_autoptr(Tries) tries = g_new0(Tries, 1);
  tries->arena = arena_new();
  tries->head = head;
  tries->facts = facts;
  tries->n_facts = g_strv_length((char **)facts);
  tries->ahead = g_array_new(FALSE, FALSE, sizeof(Ahead));
  tries->initial = g_array_new(FALSE, FALSE, sizeof(int64_t));
  for (unsigned i = 0; i < head->n_parameters + tries->n_facts; i++)
    slot_new(tries, i < head->n_parameters ? default_of(head, i) : 0);
  tries->blocks = arena_new_array(tries->arena, Block, head->n_tries);
  for (unsigned i = 0; i < head->n_tries; i++)
    if (!resolve_block(tries, &head->tries[i], &tries->blocks[i], error)) return NULL;
  return g_steal_pointer(&tries);
}

void tries_free(Tries *tries)
{
  if (!tries) return;
  g_array_unref(tries->initial);
  g_array_unref(tries->ahead);
  arena_free(tries->arena);
  g_free(tries);
}

/* ---- A walk ---- */

typedef struct Walk {
  const TryWalk *asked;
  const IrModule *head;
  const Block *block;
  const Line *line; /* at hand */
  int64_t *slots;
  bool failed; /* a number that cannot be computed: divided by nothing, too large */
} Walk;

static int64_t compute(Walk *walk, const Code *code);

/* Most operands are at hand. */
static inline int64_t evaluate(Walk *walk, const Code *code)
{
  return code->kind == CODE_SLOT ? walk->slots[code->slot] : compute(walk, code);
}

static __attribute__((noinline)) int64_t derive(const Walk *walk, const Code *code)
{
  if (!walk->asked->derive) return walk->slots[code->slot];
  const TryValues values = {walk->slots, walk->block->given, walk->line->given};
  return walk->asked->derive(&values, code->slot, walk->asked->data);
}

/* An operator that may fail. */
static __attribute__((noinline)) int64_t fold(Walk *walk, const Code *code)
{
  int64_t a = evaluate(walk, code->a), result = 0;
  bool folded = code->kind == CODE_UNARY  ? ir_fold_unary(code->op, a, &result)
                : code->kind == CODE_CALL ? code->fold(a, evaluate(walk, code->b), &result)
                                          : ir_fold_binary(code->op, a, evaluate(walk, code->b), &result);
  walk->failed |= !folded;
  return result;
}

static int64_t compute(Walk *walk, const Code *code)
{
  switch (code->kind) {
  case CODE_SLOT: return walk->slots[code->slot];
  case CODE_DERIVE: return derive(walk, code);
  case CODE_AND: return evaluate(walk, code->a) && evaluate(walk, code->b);
  case CODE_OR: return evaluate(walk, code->a) || evaluate(walk, code->b);
  case CODE_EQUAL: return evaluate(walk, code->a) == evaluate(walk, code->b);
  case CODE_LESS: return evaluate(walk, code->a) < evaluate(walk, code->b);
  case CODE_AT_MOST: return evaluate(walk, code->a) <= evaluate(walk, code->b);
  case CODE_SELECT: return evaluate(walk, evaluate(walk, code->a) ? code->b : code->c);
  case CODE_UNARY:
  case CODE_BINARY:
  case CODE_CALL: return fold(walk, code);
  case CODE_LIST: break;
  }
  g_assert_not_reached();
}

/* A number that cannot be computed is that of nothing that is tried. */
static bool computes(Walk *walk, const Code *code, int64_t *value)
{
  walk->failed = false;
  *value = evaluate(walk, code);
  return !walk->failed;
}

static bool holds(Walk *walk, const Code *condition)
{
  int64_t value;
  return !condition || (computes(walk, condition, &value) && value);
}

static bool keeps(Walk *walk, const Line *line)
{
  for (unsigned i = 0; i < line->n; i++)
    if (line->kept[i] && walk->slots[line->slots[i]] != default_of(walk->head, line->slots[i]) &&
        !holds(walk, line->kept[i]))
      return false;
  return true;
}

static void walk_from(Walk *walk, unsigned first);

/* The line's parameters have values: goes on with them; false: enough were tried. */
static bool go_on(Walk *walk, const Line *line, unsigned *tried)
{
  int64_t most;
  walk->line = line;
  if (!holds(walk, line->condition) || !keeps(walk, line)) return true;
  if (line->most && (!computes(walk, line->most, &most) || *tried >= most)) return false;
  ++*tried;
  walk_from(walk, (unsigned)(line - walk->block->lines) + 1);
  walk->line = line;
  return true;
}

static bool forced(const Walk *walk, const Line *line)
{
  const TryWalk *asked = walk->asked;
  unsigned parameter = line->slots[0];
  return asked->forced && line->n == 1 &&
         asked->forced(walk->head->parameters[parameter].name, &walk->slots[parameter], asked->data);
}

static void walk_list(Walk *walk, const Line *line)
{
  unsigned tried = 0;
  const Code *list = line->values;
  while (list->kind == CODE_SELECT)
    list = holds(walk, list->a) ? list->b : list->c;
  for (unsigned i = 0; i < list->n; i++) {
    const Code *const *items = line->n > 1 ? list->items[i]->items : &list->items[i];
    bool computed = true;
    for (unsigned j = 0; j < line->n; j++)
      computed &= computes(walk, items[j], &walk->slots[line->slots[j]]);
    if (computed && !go_on(walk, line, &tried)) return;
  }
}

static void walk_range(Walk *walk, const Line *line)
{
  unsigned tried = 0;
  int64_t low, high, step = 1;
  if (!computes(walk, line->values, &low) || !computes(walk, line->high, &high) ||
      (line->step && !computes(walk, line->step, &step)) || step < 1)
    return;
  for (int64_t value = low; value <= high; value += step) {
    walk->slots[line->slots[0]] = value;
    if (!go_on(walk, line, &tried)) return;
  }
}

static void walk_from(Walk *walk, unsigned first)
{
  const Block *block = walk->block;
  for (unsigned i = first; i < block->n; i++) {
    const Line *line = walk->line = &block->lines[i];
    switch (line->kind) {
    case TRY_IF:
      if (!holds(walk, line->condition)) return;
      break;
    case TRY_SET:
    case TRY_LET:
      if (!computes(walk, line->values, &walk->slots[line->slots[0]])) return;
      if (line->kind == TRY_SET) forced(walk, line);
      break;
    case TRY_VALUES:
      if (forced(walk, line) && holds(walk, line->condition)) break;
      (line->high ? walk_range : walk_list)(walk, line);
      return;
    }
  }
  const TryValues values = {walk->slots, block->given, block->n_given};
  walk->asked->take(&values, walk->asked->data);
}

void tries_walk(const Tries *tries, const TryWalk *asked)
{
  unsigned n = tries->head->n_parameters;
  g_autofree int64_t *slots = g_memdup2(tries->initial->data, tries->initial->len * sizeof(int64_t));
  Walk walk = {.asked = asked, .head = tries->head, .slots = slots};
  memcpy(slots + n, asked->facts, tries->n_facts * sizeof *slots);
  for (unsigned i = 0; i < tries->ahead->len; i++) {
    const Ahead *ahead = &g_array_index(tries->ahead, Ahead, i);
    slots[ahead->slot] = evaluate(&walk, ahead->code);
  }
  for (unsigned i = 0; i < tries->head->n_tries; i++) {
    if (tries->head->tries[i].measured != asked->measured) continue;
    walk.block = &tries->blocks[i];
    memcpy(slots, tries->initial->data, n * sizeof *slots);
    walk_from(&walk, 0);
  }
}
