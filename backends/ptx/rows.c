/* The row table: parsed once, searched by opcode, types and attributes, and expanded into instructions. */
#include "backends/ptx/internal.h"
#include <string.h>

static const PtxRow rows[] = {
#define ROW(code, signature, attributes, family, version, text)                                              \
  {OP_##code, signature, attributes, family, version, text},
#include "backends/ptx/rows.def"
#undef ROW
};

#define MAX_TOKENS     8
#define MAX_CONDITIONS 8

typedef enum {
  TOKEN_TYPE,
  TOKEN_GLOBAL,
  TOKEN_SHARED,
  TOKEN_MAP,
  TOKEN_LIST,
  TOKEN_TENSOR,
  TOKEN_DIM,
  TOKEN_WORD
} TokenKind;

typedef struct Token {
  TokenKind kind;
  uint32_t types; /* TOKEN_TYPE: bit set of NumberType */
  bool star;
  const char *name; /* without the star */
} Token;

typedef struct Condition {
  IrAttributeKey key;
  const char *value; /* NULL: any */
  bool optional;
} Condition;

typedef struct ParsedRow {
  const PtxRow *row;
  const RowText *text;
  Token results[MAX_TOKENS], operands[MAX_TOKENS];
  unsigned n_results, n_operands, n_conditions;
  Condition conditions[MAX_CONDITIONS];
} ParsedRow;

typedef struct RowTable {
  ParsedRow rows[G_N_ELEMENTS(rows)];
  unsigned first[IR_OPCODE_COUNT], count[IR_OPCODE_COUNT]; /* indices into order[] */
  unsigned order[G_N_ELEMENTS(rows)];
  char *fault; /* first malformed row, or NULL */
} RowTable;

#define BIT(type) (1u << NUMBER_##type)
static const struct {
  const char *name;
  uint32_t types;
} type_classes[] = {
    {"s32", BIT(S32)},
    {"s64", BIT(S64)},
    {"f32", BIT(F32)},
    {"f64", BIT(F64)},
    {"f16", BIT(F16)},
    {"bf16", BIT(BF16)},
    {"tf32", BIT(TF32)},
    {"pred", BIT(BOOL)},
    {"i8", BIT(S8) | BIT(U8)},
    {"f8", BIT(E4M3) | BIT(E5M2)},
    {"i16", BIT(S16) | BIT(U16) | BIT(B16)},
    {"i32", BIT(S32) | BIT(U32) | BIT(B32)},
    {"i64", BIT(S64) | BIT(U64) | BIT(B64)},
    {"int", BIT(S8) | BIT(U8) | BIT(S16) | BIT(U16) | BIT(B16) | BIT(S32) | BIT(U32) | BIT(B32) | BIT(S64) |
                BIT(U64) | BIT(B64)},
    {"b16", BIT(S16) | BIT(U16) | BIT(B16) | BIT(F16) | BIT(BF16)},
    {"b32", BIT(S32) | BIT(U32) | BIT(B32) | BIT(F32) | BIT(TF32)},
    {"b64", BIT(S64) | BIT(U64) | BIT(B64) | BIT(F64)},
};
#undef BIT

static Token token_parse(const char *text)
{
  static const char *const kinds[] = {"", "global", "shared", "map", "list", "tensor", "dim"};
  size_t length = strlen(text);
  Token token = {.kind = TOKEN_WORD, .star = length > 0 && text[length - 1] == '*'};
  g_autofree char *name = g_strndup(text, token.star ? length - 1 : length);
  token.name = g_intern_string(name);
  for (unsigned i = 1; i < G_N_ELEMENTS(kinds); i++)
    if (strcmp(kinds[i], token.name) == 0) token.kind = i;
  for (unsigned i = 0; i < G_N_ELEMENTS(type_classes); i++)
    if (strcmp(type_classes[i].name, token.name) == 0) {
      token.kind = TOKEN_TYPE;
      token.types = type_classes[i].types;
    }
  return token;
}

static bool conditions_parse(ParsedRow *parsed)
{
  g_auto(GStrv) words = g_strsplit(parsed->row->attributes, " ", -1);
  for (unsigned i = 0; words[i] != NULL; i++) {
    char *word = words[i], *equals = strchr(word, '=');
    if (*word == '\0') continue;
    if (parsed->n_conditions == MAX_CONDITIONS) return false;
    Condition *condition = &parsed->conditions[parsed->n_conditions++];
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    condition->optional = equals == NULL && word[length - 1] == '?';
    if (condition->optional) length--;
    condition->value = equals != NULL ? g_intern_string(equals + 1) : NULL;
    if (!attribute_key_parse(word, length, &condition->key)) return false;
  }
  return true;
}

static bool row_parse(ParsedRow *parsed)
{
  g_auto(GStrv) words = g_strsplit(parsed->row->signature, " ", -1);
  bool arrow = false;
  for (unsigned i = 0; words[i] != NULL; i++) {
    if (strcmp(words[i], "<-") == 0) {
      arrow = true;
      continue;
    }
    unsigned *n = arrow ? &parsed->n_operands : &parsed->n_results;
    if (*n == MAX_TOKENS) return false;
    (arrow ? parsed->operands : parsed->results)[(*n)++] = token_parse(words[i]);
  }
  parsed->text = row_text_new(parsed->row, parsed->n_operands);
  return arrow && conditions_parse(parsed);
}

static gpointer table_make(gpointer unused)
{
  RowTable *table = g_new0(RowTable, 1);
  unsigned at = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
    table->rows[i].row = &rows[i];
    if (!row_parse(&table->rows[i]) && table->fault == NULL)
      table->fault =
          g_strdup_printf("row '%s' of %s is malformed", rows[i].signature, ir_op_info(rows[i].code)->name);
  }
  for (unsigned code = 0; code < IR_OPCODE_COUNT; code++) {
    table->first[code] = at;
    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
      if (rows[i].code == code) table->order[at++] = i;
    table->count[code] = at - table->first[code];
  }
  return table;
}

static const RowTable *row_table(void)
{
  static GOnce once = G_ONCE_INIT; /* immutable once made */
  g_once(&once, table_make, NULL);
  return once.retval;
}

const PtxRow *ptx_rows(unsigned *n)
{
  *n = G_N_ELEMENTS(rows);
  return rows;
}

/* ---- Matching ---- */

static bool operand_fits(const Operand *operand, const Token *token)
{
  switch (token->kind) {
  case TOKEN_WORD: return operand->kind == OPERAND_NAME && strcmp(operand->name, token->name) == 0;
  case TOKEN_TENSOR: return operand->kind == OPERAND_TENSOR;
  case TOKEN_DIM: return operand->kind == OPERAND_DIM;
  case TOKEN_LIST: return operand->kind == OPERAND_REGISTERS && !operand->sum;
  case TOKEN_MAP:
    return operand->kind == OPERAND_MAP || (operand->kind == OPERAND_REGISTERS && operand->n == 1 &&
                                            operand->registers[0].class_ == CLASS_B64);
  case TOKEN_SHARED:
    if (operand->kind == OPERAND_SHARED || operand->kind == OPERAND_INT) return true;
    return operand->kind == OPERAND_REGISTERS && operand->n == 1 && operand->registers[0].class_ == CLASS_B32;
  case TOKEN_GLOBAL:
    return operand->kind == OPERAND_REGISTERS && operand->n == 1 && operand->registers[0].class_ == CLASS_B64;
  case TOKEN_TYPE: break;
  }
  bool predicate = token->types == 1u << NUMBER_BOOL;
  switch (operand->kind) {
  case OPERAND_REGISTERS: return operand->n == 1 && (token->types >> operand->registers[0].type & 1) != 0;
  case OPERAND_INT: return !predicate || operand->integer == 0 || operand->integer == 1;
  case OPERAND_FLOAT:
    return (token->types & (1u << NUMBER_F32 | 1u << NUMBER_F64 | 1u << NUMBER_F16 | 1u << NUMBER_BF16 |
                            1u << NUMBER_E4M3 | 1u << NUMBER_E5M2)) != 0;
  case OPERAND_SHARED: return (token->types >> NUMBER_U32 & 1) != 0;
  default: return false;
  }
}

static bool star_count_is_legal(const Token *token, unsigned n)
{
  bool coordinates = strcmp(token->name, "i32") == 0;
  return coordinates ? n >= 1 && n <= 5 : n == 1 || n == 2 || n == 4;
}

/* Deals n operands to the tokens; a star takes what the others leave. */
static bool operands_fit(const Token *tokens, unsigned n_tokens, const Operand *operands, unsigned n,
                         RowMatch *match)
{
  unsigned stars = 0, at = 0;
  for (unsigned i = 0; i < n_tokens; i++)
    stars += tokens[i].star;
  if (stars == 0 ? n != n_tokens : n < n_tokens) return false;
  for (unsigned i = 0; i < n_tokens; i++) {
    unsigned take = tokens[i].star ? n - (n_tokens - 1) : 1;
    if (tokens[i].star && !star_count_is_legal(&tokens[i], take)) return false;
    for (unsigned k = 0; k < take; k++)
      if (!operand_fits(&operands[at + k], &tokens[i])) return false;
    match->tokens[i].name = tokens[i].name;
    match->tokens[i].operands = operands + at;
    match->tokens[i].n = take;
    at += take;
  }
  match->n_tokens = n_tokens;
  return true;
}

static bool results_fit(const ParsedRow *parsed, const Register *results, unsigned n)
{
  if (parsed->n_results == 1 && parsed->results[0].star) {
    if (!star_count_is_legal(&parsed->results[0], n)) return false;
    for (unsigned i = 0; i < n; i++)
      if ((parsed->results[0].types >> results[i].type & 1) == 0) return false;
    return true;
  }
  if (n != parsed->n_results) return false;
  for (unsigned i = 0; i < n; i++)
    if ((parsed->results[i].types >> results[i].type & 1) == 0) return false;
  return true;
}

bool attribute_value_is(const IrOp *op, IrAttributeKey key, const char *value)
{
  const IrExpr *have = ir_attribute_value(op, key);
  if (have == NULL) return false;
  if (key == ATTR_TYPES) { /* what kind of numbers A has */
    NumberType a;
    if (have->n == 0 || have->items[0]->name == NULL || !number_parse(have->items[0]->name, &a)) return false;
    bool sixteen = number_bits(a) == 16, integer = number_class(a) != NUMBER_FLOAT;
    return strcmp(value, sixteen ? "16" : integer ? "integer" : "other") == 0;
  }
  int64_t number;
  if (ir_expr_is_int(have, &number)) return number == g_ascii_strtoll(value, NULL, 10);
  return have->name != NULL && strcmp(have->name, value) == 0;
}

static bool attributes_fit(const ParsedRow *parsed, const IrOp *op)
{
  for (unsigned i = 0; i < parsed->n_conditions; i++) {
    const Condition *condition = &parsed->conditions[i];
    if (condition->optional) continue;
    if (ir_attribute(op, condition->key) == NULL) return false;
    if (condition->value != NULL && !attribute_value_is(op, condition->key, condition->value)) return false;
  }
  for (unsigned i = 0; i < op->n_attributes; i++) {
    bool named = op->attributes[i].key == ATTR_WHEN;
    for (unsigned k = 0; k < parsed->n_conditions && !named; k++)
      named = parsed->conditions[k].key == op->attributes[i].key;
    if (!named) return false;
  }
  return true;
}

static bool family_listed(const Gpu *gpu, const char *family)
{
  if (*family == '\0' || gpu_has(gpu, family)) return true;
  return !strcmp(family, "float8") && gpu_converts_float8(gpu);
}

static const char *describe_operand(Emitter *e, const Operand *operand)
{
  switch (operand->kind) {
  case OPERAND_REGISTERS:
    if (operand->n == 1) return number_name(operand->registers[0].type);
    return arena_printf(e->arena, "%s[%u]", operand->n ? number_name(operand->registers[0].type) : "",
                        operand->n);
  case OPERAND_INT: return arena_printf(e->arena, "%" G_GINT64_FORMAT, operand->integer);
  case OPERAND_FLOAT: return "a float constant";
  case OPERAND_NAME: return operand->name;
  case OPERAND_MAP: return "tensor map";
  case OPERAND_TENSOR: return "tensor";
  case OPERAND_DIM: return "dim";
  case OPERAND_SHARED: return "shared";
  }
  return "?";
}

/* "no PTX instruction for `min f16 <- f16 f64 nan`" with the rows that there are. */
static void report_no_row(Emitter *e, const IrOp *op, const Register *results, unsigned n_results,
                          const Operand *operands, unsigned n)
{
  const RowTable *table = row_table();
  g_autoptr(GString) what = g_string_new(ir_op_info(op->code)->name);
  g_autoptr(GString) hint = g_string_new("rows of this opcode:");
  for (unsigned i = 0; i < n_results; i++)
    g_string_append_printf(what, " %s", number_name(results[i].type));
  g_string_append(what, " <-");
  for (unsigned i = 0; i < n; i++)
    g_string_append_printf(what, " %s", describe_operand(e, &operands[i]));
  for (unsigned i = 0; i < op->n_attributes; i++) {
    const IrExpr *value = op->attributes[i].value;
    if (op->attributes[i].key == ATTR_WHEN) continue;
    g_string_append_printf(what, " %s", ir_attribute_name(op->attributes[i].key));
    if (value != NULL && value->name != NULL) g_string_append_printf(what, " %s", value->name);
    if (value != NULL && value->kind == EXPR_INT)
      g_string_append_printf(what, " %" G_GINT64_FORMAT, value->integer);
  }
  for (unsigned i = 0; i < table->count[op->code]; i++) {
    const PtxRow *row = table->rows[table->order[table->first[op->code] + i]].row;
    g_string_append_printf(hint, "%s '%s%s%s'", i ? "," : "", row->signature, *row->attributes ? " " : "",
                           row->attributes);
  }
  error_set(e->error, ERROR_UNSUPPORTED, &op->mark, "no-instruction", hint->str,
            "no PTX instruction for '%s'", what->str);
}

static bool row_find(Emitter *e, const IrOp *op, const Register *results, unsigned n_results,
                     const Operand *operands, unsigned n, RowMatch *match)
{
  const RowTable *table = row_table();
  const PtxRow *lacking = NULL;
  for (unsigned i = 0; i < table->count[op->code]; i++) {
    const ParsedRow *parsed = &table->rows[table->order[table->first[op->code] + i]];
    if (!results_fit(parsed, results, n_results)) continue;
    if (!operands_fit(parsed->operands, parsed->n_operands, operands, n, match)) continue;
    if (!attributes_fit(parsed, op)) continue;
    if (!family_listed(e->gpu, parsed->row->family)) {
      lacking = lacking != NULL ? lacking : parsed->row;
      continue;
    }
    match->row = parsed->row;
    match->text = parsed->text;
    return true;
  }
  e->failed = true;
  if (lacking != NULL)
    error_set(e->error, ERROR_UNSUPPORTED, &op->mark, "missing-family", NULL,
              "%s needs the instruction family '%s', which the description of %s does not list (%s)",
              ir_op_info(op->code)->name, lacking->family, e->gpu->name, e->gpu->file);
  else
    report_no_row(e, op, results, n_results, operands, n);
  return false;
}

/* ---- Emission ---- */

/* What a predicated load leaves in its registers when it does not run. */
static bool emit_fill(Emitter *e, const IrOp *op, const Register *results, unsigned n)
{
  const IrExpr *fill = ir_attribute_value(op, ATTR_FILL);
  Operand operand;
  if (fill == NULL) return true;
  if (!operand_resolve(e, op, fill, &operand)) return false;
  for (unsigned i = 0; i < n; i++) {
    const char *value = operand.kind == OPERAND_INT
                            ? arena_printf(e->arena, "0x%" G_GINT64_MODIFIER "X", (guint64)operand.integer)
                            : operand_text(e, &operand, "b32", results[i].type);
    unsigned bits = MAX(number_bits(results[i].type), 16u);
    text_line(e->body, "",
              arena_printf(e->arena, "mov.b%u %s, %s;", bits, register_text(e, results[i]), value));
  }
  return true;
}

bool row_emit(Emitter *e, const IrOp *op, const char *guard)
{
  bool lists = op->code == OP_PRODUCT_WARP || op->code == OP_PRODUCT_GROUP;
  GArray *operands = e->operands, *results = e->results;
  g_array_set_size(operands, 0);
  g_array_set_size(results, 0);
  if (lists) {
    g_array_set_size(operands, op->n_operands);
    for (unsigned i = 0; i < op->n_operands; i++)
      if (!operand_resolve(e, op, op->operands[i], &g_array_index(operands, Operand, i))) return false;
  } else if (!operand_concat(e, op, op->operands, op->n_operands, operands)) {
    return false;
  }
  for (unsigned i = 0; i < op->n_results; i++)
    g_array_append_vals(results, registers_of_value(e, op->results[i]), MAX(op->results[i]->type.count, 1));
  RowMatch match = {.op = op, .results = (const Register *)(void *)results->data, .n_results = results->len};
  if (!row_find(e, op, match.results, match.n_results, (const Operand *)(void *)operands->data, operands->len,
                &match))
    return false;
  if (lists && !products_check(e, op)) return false;
  if (op->code == OP_LOAD_GLOBAL && !emit_fill(e, op, match.results, match.n_results)) return false;
  return row_expand(e, &match, guard) && !e->failed;
}

bool row_move(Emitter *e, const IrOp *op, Register to, const Operand *from, const char *guard)
{
  IrOp move = {.code = OP_MOVE, .mark = op->mark};
  RowMatch match = {.op = &move, .results = &to, .n_results = 1};
  if (!row_find(e, &move, &to, 1, from, 1, &match)) return false;
  return row_expand(e, &match, guard) && !e->failed;
}

/* ---- The table's own check ---- */

char *ptx_check_rows(void)
{
  const RowTable *table = row_table();
  if (table->fault != NULL) return g_strdup(table->fault);
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
    char *fault = row_text_check(table->rows[i].text, &rows[i], table->rows[i].n_results);
    if (fault != NULL) return fault;
  }
  for (unsigned code = 0; code < IR_OPCODE_COUNT; code++) {
    const IrOpInfo *info = ir_op_info(code);
    bool own = code == OP_VAR || code == OP_SET || code == OP_LET || code == OP_EXIT || code == OP_TRAP;
    bool control = (ir_op_effects(code) & (EFFECT_CONTROL | EFFECT_DECLARE)) != 0;
    if ((info->levels & IR_THREAD) != 0 && !own && !control && table->count[code] == 0)
      return g_strdup_printf("no row for %s", info->name);
  }
  return NULL;
}
