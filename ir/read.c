/* The reader: statements, functions, the module. Generic over the opcode table: no opcode has code of its own
 * here. */
#include "ir/former.h"
#include "ir/reader.h"
#include <stdarg.h>
#include <string.h>

/* ---- Scopes ---- */

static void open_scope(Reader *reader)
{
  g_ptr_array_add(reader->scopes, NULL);
}

static void close_scope(Reader *reader)
{
  for (;;) {
    char *name = g_ptr_array_remove_index(reader->scopes, reader->scopes->len - 1);
    if (!name) return;
    g_hash_table_remove(reader->values, name);
  }
}

static bool define(Reader *reader, IrValue *value, const Mark *mark)
{
  if (g_hash_table_contains(reader->values, value->name))
    return read_fail(reader, mark, "redefined", NULL, "`%%%s` is defined already", value->name);
  g_hash_table_insert(reader->values, (gpointer)value->name, value);
  g_ptr_array_add(reader->scopes, (gpointer)value->name);
  return true;
}

static bool skip_newlines(Reader *reader)
{
  while (reader->lexer.token.kind == TOKEN_NEWLINE)
    read_next(reader);
  return true;
}

static bool at_line_end(const Reader *reader)
{
  TokenKind kind = reader->lexer.token.kind;
  return kind == TOKEN_NEWLINE || kind == TOKEN_END || read_at(reader, "{") || read_at(reader, "}");
}

/* ---- A statement in the making ---- */

typedef struct Named { /* a result or region argument */
  const char *name;
  Mark mark;
  IrType type;
  bool typed;
} Named;

typedef struct Statement {
  IrOpcode code;
  Mark mark;
  GArray *results, *arguments; /* Named */
  GPtrArray *operands;
  const char *symbol;
  IrType *declared;
} Statement;

/* `%a, %b: f32, %i: s32`: a name without a type has the next one's to the right. */
static bool read_names(Reader *reader, GArray *names)
{
  do {
    const Token *token = &reader->lexer.token;
    if (token->kind != TOKEN_VALUE) return read_expected(reader, "a value such as %x");
    Named named = {.name = read_text(reader), .mark = token->mark};
    read_next(reader);
    if (read_accept(reader, ":")) {
      named.typed = true;
      if (!read_type(reader, &named.type)) return false;
      for (guint i = names->len; i-- && !g_array_index(names, Named, i).typed;) {
        g_array_index(names, Named, i).typed = true;
        g_array_index(names, Named, i).type = named.type;
      }
    }
    g_array_append_val(names, named);
  } while (read_accept(reader, ","));
  return true;
}

static bool add_operand(Statement *statement, IrExpr *operand)
{
  if (operand) g_ptr_array_add(statement->operands, operand);
  return operand;
}

static bool read_keyword(Reader *reader, Statement *statement, const FormatItem *item)
{
  const Token *token = &reader->lexer.token;
  if (token->kind != TOKEN_WORD) return read_expected(reader, "a keyword");
  const char *word = read_text(reader);
  if (!g_strv_contains(item->names, word)) {
    g_autofree char *all = g_strjoinv(" ", (char **)item->names);
    g_autofree char *hint = g_strdup_printf("one of: %s", all);
    return read_fail(reader, &token->mark, "keyword", hint, "`%s` is not what `%s` takes", word,
                     ir_op_info(statement->code)->name);
  }
  IrExpr *name = ir_name(reader->module, word);
  name->mark = token->mark;
  read_next(reader);
  return add_operand(statement, name);
}

/* `@f(a, b)`, `$f(a, b)`, `raster(a, b)`: the callee becomes the first operand. */
static bool read_callee(Reader *reader, Statement *statement)
{
  const Token *token = &reader->lexer.token;
  IrExpr *callee;
  if (token->kind == TOKEN_SYMBOL)
    callee = ir_symbol(reader->module, read_text(reader));
  else if (token->kind == TOKEN_PARAMETER)
    callee = ir_parameter(reader->module, read_text(reader));
  else if (token->kind == TOKEN_WORD)
    callee = ir_name(reader->module, read_text(reader));
  else
    return read_expected(reader, "a call such as @f(%x)");
  callee->mark = token->mark;
  read_next(reader);
  g_ptr_array_add(statement->operands, callee);
  if (!read_expect(reader, "(")) return false;
  while (!read_at(reader, ")")) {
    if (!add_operand(statement, read_expr(reader))) return false;
    if (!read_at(reader, ")") && !read_expect(reader, ",")) return false;
  }
  read_next(reader);
  return true;
}

/* Where operands may be left out the first attribute may follow: a word that is no tensor or dim. */
static bool at_attribute(const Reader *reader, const Statement *statement)
{
  const Token *token = &reader->lexer.token;
  if (token->kind != TOKEN_WORD) return false;
  g_autofree char *word = g_strndup(token->text, token->length);
  IrAttributeKey key;
  return attribute_parse(word, &key) && op_format(statement->code)->takes[key] &&
         !g_hash_table_contains(reader->names, word);
}

static bool read_operand_list(Reader *reader, Statement *statement)
{
  if (at_line_end(reader) || at_attribute(reader, statement)) return true;
  do {
    if (!add_operand(statement, read_expr(reader))) return false;
  } while (read_accept(reader, ","));
  return true;
}

static bool read_new_symbol(Reader *reader, Statement *statement, bool typed)
{
  if (reader->lexer.token.kind != TOKEN_SYMBOL) return read_expected(reader, "a symbol such as @x");
  statement->symbol = read_text(reader);
  read_next(reader);
  if (!typed) return true;
  if (!read_expect(reader, ":")) return false;
  statement->declared = arena_new_object(reader->module->arena, IrType);
  return read_type(reader, statement->declared);
}

static bool read_item(Reader *reader, Statement *statement, const FormatItem *item, const FormatItem *after)
{
  switch (item->kind) {
  case FORMAT_EXPR: return add_operand(statement, read_expr(reader));
  case FORMAT_POSTFIX: return add_operand(statement, read_postfix(reader));
  case FORMAT_OPTIONAL:
    if (at_line_end(reader) || at_attribute(reader, statement)) return true;
    return add_operand(statement, read_expr(reader));
  case FORMAT_LIST: return read_operand_list(reader, statement);
  case FORMAT_CALL: return read_callee(reader, statement);
  case FORMAT_SYMBOL: return read_new_symbol(reader, statement, false);
  case FORMAT_TYPED_SYMBOL: return read_new_symbol(reader, statement, true);
  case FORMAT_ARGUMENTS: return read_names(reader, statement->arguments);
  case FORMAT_NAME: return read_keyword(reader, statement, item);
  case FORMAT_EXPR_OR_NAME: {
    g_autofree char *word = g_strndup(reader->lexer.token.text, reader->lexer.token.length);
    if (reader->lexer.token.kind == TOKEN_WORD && g_strv_contains(item->names, word))
      return read_keyword(reader, statement, item);
    return add_operand(statement, read_expr(reader));
  }
  case FORMAT_DEFAULTED:
    if (!read_accept(reader, item->text))
      return add_operand(statement, ir_int(reader->module, item->otherwise));
    return add_operand(statement, read_expr(reader));
  case FORMAT_LITERAL:
    /* A comma before an empty list is left out. */
    if (after && after->kind == FORMAT_LIST && !strcmp(item->text, ",") && !read_at(reader, ",")) return true;
    return read_expect(reader, item->text);
  }
  return false;
}

static bool read_operands(Reader *reader, Statement *statement)
{
  const OpFormat *format = op_format(statement->code);
  for (unsigned i = 0; i < format->n_items; i++) {
    const FormatItem *after = i + 1 < format->n_items ? &format->items[i + 1] : NULL;
    bool skipped = after && after->kind == FORMAT_LIST && !read_at(reader, ",") &&
                   format->items[i].kind == FORMAT_LITERAL && !strcmp(format->items[i].text, ",");
    if (!read_item(reader, statement, &format->items[i], after)) return false;
    if (skipped) i++;
  }
  return true;
}

/* ---- Attributes ---- */

static IrExpr *read_attribute_name(Reader *reader, IrAttributeKey key, const char *const *values)
{
  const Token *token = &reader->lexer.token;
  if (token->kind == TOKEN_PARAMETER) return read_postfix(reader);
  if (token->kind != TOKEN_WORD) {
    g_autofree char *what = g_strdup_printf("a keyword for `%s`", ir_attribute_name(key));
    read_expected(reader, what);
    return NULL;
  }
  const char *word = read_text(reader);
  if (values && !g_strv_contains(values, word)) {
    g_autofree char *all = g_strjoinv(" ", (char **)values);
    g_autofree char *hint = g_strdup_printf("one of: %s", all);
    read_fail(reader, &token->mark, "keyword", hint, "`%s` is not what `%s` takes here", word,
              ir_attribute_name(key));
    return NULL;
  }
  IrExpr *name = ir_name(reader->module, word);
  name->mark = token->mark;
  read_next(reader);
  return name;
}

static IrExpr *read_attribute_value(Reader *reader, IrAttributeKey key, const char *const *values)
{
  switch (attribute_kind(key)) {
  case ATTRIBUTE_name: return read_attribute_name(reader, key, values);
  case ATTRIBUTE_list: return read_list(reader);
  case ATTRIBUTE_range: return read_at(reader, "[") ? read_list(reader) : read_range(reader);
  case ATTRIBUTE_names:
  case ATTRIBUTE_word: {
    reader->words_allowed = true;
    IrExpr *value = attribute_kind(key) == ATTRIBUTE_word ? read_expr(reader) : read_list(reader);
    reader->words_allowed = false;
    return value;
  }
  default: return read_expr(reader);
  }
}

static bool unknown_attribute(Reader *reader, const char *name, const Mark *mark, const char *owner,
                              const bool *takes)
{
  const char *candidates[IR_ATTRIBUTE_COUNT + 1];
  unsigned n = 0;
  for (unsigned i = 0; i < IR_ATTRIBUTE_COUNT; i++)
    if (takes[i]) candidates[n++] = ir_attribute_name(i);
  candidates[n] = NULL;
  g_autofree char *hint = read_nearest(name, candidates);
  if (!hint && n) {
    g_autofree char *all = g_strjoinv(" ", (char **)candidates);
    hint = g_strdup_printf("it takes: %s", all);
  }
  return read_fail(reader, mark, "unknown-attribute", hint, "`%s` has no attribute `%s`", owner, name);
}

/* The attribute of a name, or of what had it before. */
static bool find_attribute(const char *name, const bool *takes, IrAttributeKey *key)
{
  if (attribute_parse(name, key) && takes[*key]) return true;
  const char *today = ir_former_name(name);
  return today && attribute_parse(today, key) && takes[*key];
}

/* One `key value`; the caller stands on a word. */
static bool read_attribute(Reader *reader, const char *owner, const bool *takes,
                           const char *const *const *values, IrAttribute *attribute)
{
  Mark mark = reader->lexer.token.mark;
  const char *name = read_text(reader);
  if (!find_attribute(name, takes, &attribute->key))
    return unknown_attribute(reader, name, &mark, owner, takes);
  read_next(reader);
  attribute->value = NULL;
  if (attribute_kind(attribute->key) == ATTRIBUTE_flag) return true;
  attribute->value = read_attribute_value(reader, attribute->key, values ? values[attribute->key] : NULL);
  return attribute->value;
}

static bool read_attributes(Reader *reader, IrOp *op)
{
  const OpFormat *format = op_format(op->code);
  while (reader->lexer.token.kind == TOKEN_WORD) {
    Mark mark = reader->lexer.token.mark;
    IrAttribute attribute;
    if (!read_attribute(reader, ir_op_info(op->code)->name, format->takes, format->values, &attribute))
      return false;
    if (ir_attribute(op, attribute.key))
      return read_fail(reader, &mark, "duplicate-attribute", NULL, "`%s` is given twice",
                       ir_attribute_name(attribute.key));
    ir_attribute_set(op, attribute.key, attribute.value);
  }
  return true;
}

/* ---- Statements ---- */

static bool read_region(Reader *reader, IrRegion *region);

static bool add_results(Reader *reader, Statement *statement, IrOp *op)
{
  for (guint i = 0; i < statement->results->len; i++) {
    Named *named = &g_array_index(statement->results, Named, i);
    if (!named->typed && !ir_infer_result(op, i, &named->type))
      return read_fail(reader, &named->mark, "type-missing", NULL,
                       "the type of `%%%s` cannot be derived from `%s`; write `%%%s: TYPE`", named->name,
                       ir_op_info(op->code)->name, named->name);
    IrValue *value = ir_result(op, NULL, named->type);
    value->name = named->name;
    if (!define(reader, value, &named->mark)) return false;
  }
  return true;
}

static bool add_arguments(Reader *reader, Statement *statement, IrRegion *region)
{
  for (guint i = 0; i < statement->arguments->len; i++) {
    Named *named = &g_array_index(statement->arguments, Named, i);
    IrType type = named->typed ? named->type : ir_scalar(NUMBER_S32);
    IrValue *value = ir_argument_add(region, NULL, type);
    value->name = named->name;
    if (!define(reader, value, &named->mark)) return false;
  }
  return true;
}

static bool read_body(Reader *reader, Statement *statement, IrRegion *region)
{
  if (!read_at(reader, "{")) return read_expected(reader, "`{`");
  if (++reader->depth > READ_MAX_DEPTH)
    return read_fail(reader, &reader->lexer.token.mark, "too-deep", NULL, "regions are nested deeper than %d",
                     READ_MAX_DEPTH);
  bool section = region->owner && region->owner->code == OP_TURN; /* its values are known behind it */
  if (!section) open_scope(reader);
  bool ok = (!statement || add_arguments(reader, statement, region)) && read_region(reader, region);
  if (!section) close_scope(reader);
  reader->depth--;
  return ok;
}

/* The value of that name that an operation of the body gives, or NULL. */
static IrValue *find_result(const IrRegion *body, const char *name)
{
  for (const IrOp *op = body->first; op; op = op->next)
    for (unsigned i = 0; i < op->n_results; i++)
      if (g_str_equal(op->results[i]->name, name)) return op->results[i];
  return NULL;
}

/* A body in whose text values may be named before the operations that give them. */
static bool read_pipelined(Reader *reader, Statement *statement, IrOp *loop)
{
  guint first = reader->ahead->len;
  IrRegion *body = ir_region_add(loop);
  reader->pipelined++;
  bool ok = read_body(reader, statement, body);
  reader->pipelined--;
  for (guint i = first; ok && i < reader->ahead->len; i++) {
    IrExpr *expr = reader->ahead->pdata[i];
    IrValue *value = find_result(body, expr->value->name);
    if (!value) return read_unknown_value(reader, expr->value->name, &expr->mark) != NULL;
    expr->value = value;
  }
  g_ptr_array_set_size(reader->ahead, (int)first);
  return ok;
}

static bool read_regions(Reader *reader, Statement *statement, IrOp *op)
{
  const OpFormat *format = op_format(op->code);
  if (!format->regions_max) {
    if (read_at(reader, "{"))
      return read_fail(reader, &reader->lexer.token.mark, "syntax", NULL, "`%s` has no body",
                       ir_op_info(op->code)->name);
    return true;
  }
  if (!format->regions_min && !read_at(reader, "{")) return true;
  if (ir_attribute(op, ATTR_PIPELINED)) return read_pipelined(reader, statement, op);
  if (!read_body(reader, statement, ir_region_add(op))) return false;
  if (format->regions_max < 2) return true;
  Lexer ahead = reader->lexer; /* `else` may stand on the next line */
  while (ahead.token.kind == TOKEN_NEWLINE)
    lexer_next(&ahead);
  if (!token_is(&ahead.token, "else")) return true;
  reader->lexer = ahead;
  read_next(reader);
  return read_body(reader, NULL, ir_region_add(op));
}

static bool read_opcode(Reader *reader, Statement *statement)
{
  const Token *token = &reader->lexer.token;
  if (token->kind != TOKEN_WORD) return read_expected(reader, "an operation");
  const char *name = read_text(reader);
  if (!ir_opcode_parse(name, &statement->code)) {
    g_autofree char *hint = read_nearest(name, opcode_names());
    return read_fail(reader, &token->mark, "unknown-operation", hint, "there is no operation `%s`", name);
  }
  read_next(reader);
  return true;
}

static bool read_statement_into(Reader *reader, IrRegion *region, Statement *statement)
{
  statement->mark = reader->lexer.token.mark;
  reader->nodes = 0;
  if (reader->lexer.token.kind == TOKEN_VALUE &&
      (!read_names(reader, statement->results) || !read_expect(reader, "=")))
    return false;
  if (!read_opcode(reader, statement) || !read_operands(reader, statement)) return false;
  IrBuilder builder = ir_builder_at_end(region);
  builder.mark = statement->mark;
  IrOp *op = ir_emit_array(&builder, statement->code, statement->operands->len,
                           (IrExpr *const *)statement->operands->pdata);
  op->symbol = statement->symbol;
  op->declared = statement->declared;
  if (!read_attributes(reader, op) || !read_regions(reader, statement, op)) return false;
  if (!add_results(reader, statement, op)) return false;
  if (read_at(reader, "}")) return true;
  TokenKind kind = reader->lexer.token.kind;
  return kind == TOKEN_NEWLINE || kind == TOKEN_END || read_expected(reader, "the end of the statement");
}

static bool read_statement(Reader *reader, IrRegion *region)
{
  Statement statement = {.results = g_array_new(FALSE, FALSE, sizeof(Named)),
                         .arguments = g_array_new(FALSE, FALSE, sizeof(Named)),
                         .operands = g_ptr_array_new()};
  bool ok = read_statement_into(reader, region, &statement);
  g_array_unref(statement.results);
  g_array_unref(statement.arguments);
  g_ptr_array_unref(statement.operands);
  return ok;
}

/* From `{` to behind `}`. */
static bool read_region(Reader *reader, IrRegion *region)
{
  read_next(reader);
  for (skip_newlines(reader); !read_at(reader, "}"); skip_newlines(reader)) {
    if (reader->lexer.token.kind == TOKEN_END) return read_expected(reader, "`}`");
    if (!read_statement(reader, region)) return false;
  }
  read_next(reader);
  return true;
}

/* ---- Functions ---- */

static bool define_bare(Reader *reader, const char *name, IrExpr *what, const Mark *mark)
{
  if (!strcmp(name, "inf") || !strcmp(name, "nan"))
    return read_fail(reader, mark, "reserved", NULL, "`%s` is a number", name);
  if (g_hash_table_contains(reader->names, name))
    return read_fail(reader, mark, "redefined", NULL, "`%s` is defined already", name);
  g_hash_table_insert(reader->names, (gpointer)name, what);
  return true;
}

static bool read_parameter_value(Reader *reader)
{
  const Token *token = &reader->lexer.token;
  bool bare = token->kind == TOKEN_WORD;
  if (!bare && token->kind != TOKEN_VALUE)
    return read_expected(reader, "a parameter such as A: tensor<f32>[M] or %x: f32");
  Mark mark = token->mark;
  const char *name = read_text(reader);
  IrType type;
  read_next(reader);
  reader->nodes = 0;
  if (!read_expect(reader, ":") || !read_type(reader, &type)) return false;
  if (bare != (type.kind == TYPE_TENSOR))
    return read_fail(reader, &mark, "sigil", NULL,
                     bare ? "`%s` is not a tensor: write `%%%s`" : "`%s` is a tensor: write it without %s",
                     name, bare ? name : "the sigil");
  IrValue *value = ir_parameter_new(reader->function, NULL, type);
  value->name = name;
  if (!bare) return define(reader, value, &mark);
  return define_bare(reader, name, ir_value(reader->module, value), &mark);
}

static bool read_parameters(Reader *reader)
{
  if (!read_expect(reader, "(")) return false;
  while (!read_at(reader, ")")) {
    if (!read_parameter_value(reader)) return false;
    if (!read_at(reader, ")") && !read_expect(reader, ",")) return false;
  }
  read_next(reader);
  return true;
}

static bool read_results(Reader *reader)
{
  if (!read_accept(reader, "->")) return true;
  Mark mark = reader->lexer.token.mark;
  g_autoptr(GArray) types = g_array_new(FALSE, FALSE, sizeof(IrType));
  do {
    IrType type;
    if (!read_type(reader, &type)) return false;
    g_array_append_val(types, type);
  } while (read_accept(reader, ","));
  if (reader->function->is_kernel)
    return read_fail(reader, &mark, "kernel-result", NULL, "a kernel has no results");
  reader->function->n_results = types->len;
  reader->function->results = arena_memdup(reader->module->arena, types->data, types->len * sizeof(IrType));
  return true;
}

/* `multiple 8`, `maximum 4096`: what is known of a dim. */
static bool read_fact(Reader *reader, const char *word, int64_t *fact)
{
  if (!read_accept(reader, word)) return true;
  const Token *token = &reader->lexer.token;
  if (token->kind != TOKEN_INT || token->integer < 1) return read_expected(reader, "a positive number");
  *fact = token->integer;
  read_next(reader);
  return true;
}

static bool read_dim(Reader *reader)
{
  const Token *token = &reader->lexer.token;
  if (token->kind != TOKEN_WORD) return read_expected(reader, "a dim's name");
  Mark mark = token->mark;
  const char *name = read_text(reader);
  IrType type = {0};
  read_next(reader);
  if (!read_expect(reader, ":") || !read_type(reader, &type)) return false;
  if (type.kind != TYPE_SCALAR || type.count != 1 || type.element_parameter)
    return read_fail(reader, &mark, "type", NULL, "dim `%s` must have a scalar type", name);
  ir_dim_new(reader->function, name, type.element);
  if (!define_bare(reader, name, ir_dim(reader->module, name), &mark)) return false;
  IrDim *dim = &reader->function->dims[reader->function->n_dims - 1];
  if (!read_fact(reader, "multiple", &dim->multiple) || !read_fact(reader, "maximum", &dim->maximum))
    return false;
  if (!read_accept(reader, "=")) return true;
  dim->launch = read_expr(reader);
  return dim->launch;
}

/* The bare names of the signature: a kernel must declare them, a sub-kernel takes them from its arguments. */
static bool resolve_dims(Reader *reader, GArray *uses)
{
  for (guint i = 0; i < uses->len; i++) {
    const DimUse *use = &g_array_index(uses, DimUse, i);
    const IrExpr *known = g_hash_table_lookup(reader->names, use->name);
    if (known && known->kind == EXPR_DIM) continue;
    if (known)
      return read_fail(reader, &use->mark, "not-a-dim", NULL, "`%s` is a tensor, not a dim", use->name);
    if (reader->function->is_kernel) {
      g_autofree char *hint = g_strdup_printf("declare it: dims %s: s32", use->name);
      return read_fail(reader, &use->mark, "undefined", hint, "dim `%s` is not declared", use->name);
    }
    ir_dim_new(reader->function, use->name, NUMBER_S32);
    if (!define_bare(reader, use->name, ir_dim(reader->module, use->name), &use->mark)) return false;
  }
  return true;
}

static bool read_signature(Reader *reader)
{
  g_autoptr(GArray) uses = g_array_new(FALSE, FALSE, sizeof(DimUse));
  reader->dim_uses = uses;
  bool ok = read_parameters(reader) && read_results(reader);
  Mark mark = reader->lexer.token.mark;
  if (ok && read_accept(reader, "dims")) {
    if (!reader->function->is_kernel)
      ok = read_fail(reader, &mark, "dims", NULL, "only a kernel declares dims");
    do
      ok = ok && read_dim(reader);
    while (ok && read_accept(reader, ","));
  }
  reader->dim_uses = NULL;
  return ok && resolve_dims(reader, uses);
}

static const bool *launch_attributes(void)
{
  static const bool takes[IR_ATTRIBUTE_COUNT] = {
      [ATTR_GRID] = true,         [ATTR_THREADS] = true,    [ATTR_CLUSTER] = true,
      [ATTR_SHARED_BYTES] = true, [ATTR_MIN_BLOCKS] = true, [ATTR_ENTRY_REGISTERS] = true,
      [ATTR_PARTS] = true,        [ATTR_FLAGS] = true,      [ATTR_OVERLAP] = true,
      [ATTR_PACE] = true,         [ATTR_TOGETHER] = true,
  };
  return takes;
}

static bool read_launch(Reader *reader)
{
  Mark mark = reader->lexer.token.mark;
  if (!read_accept(reader, "launch")) return true;
  if (!reader->function->is_kernel)
    return read_fail(reader, &mark, "launch", NULL, "only a kernel has launch facts");
  while (reader->lexer.token.kind == TOKEN_WORD) {
    IrAttribute attribute;
    mark = reader->lexer.token.mark;
    if (!read_attribute(reader, "launch", launch_attributes(), NULL, &attribute)) return false;
    if (ir_launch_get(reader->function, attribute.key))
      return read_fail(reader, &mark, "duplicate-attribute", NULL, "`%s` is given twice",
                       ir_attribute_name(attribute.key));
    ir_launch_set(reader->function, attribute.key, attribute.value);
  }
  return true;
}

static bool read_function(Reader *reader, bool is_kernel)
{
  read_next(reader);
  const Token *token = &reader->lexer.token;
  if (token->kind != TOKEN_WORD) return read_expected(reader, "a function's name");
  const char *name = read_text(reader);
  if (ir_function_find(reader->module, name))
    return read_fail(reader, &token->mark, "redefined", NULL, "function `%s` is defined already", name);
  reader->function = ir_function_new(reader->module, name, is_kernel);
  reader->function->mark = token->mark;
  g_hash_table_remove_all(reader->values);
  g_hash_table_remove_all(reader->names);
  g_ptr_array_set_size(reader->scopes, 0);
  reader->lexer.free_form = true;
  read_next(reader);
  if (!read_signature(reader) || !read_launch(reader)) return false;
  reader->lexer.free_form = false;
  return read_body(reader, NULL, reader->function->body);
}

/* ---- The module ---- */

static bool read_word_into(Reader *reader, const char *what, const char **word)
{
  TokenKind kind = reader->lexer.token.kind;
  if (kind != TOKEN_WORD && kind != TOKEN_INT) return read_expected(reader, what);
  const char *start = reader->lexer.token.text, *end = start;
  while (end < reader->lexer.end && !g_ascii_isspace(*end) && *end != ';')
    end++;
  *word = arena_strndup(reader->module->arena, start, (gsize)(end - start));
  reader->lexer.at = end;
  read_next(reader);
  return true;
}

static bool read_version(Reader *reader)
{
  const Token *token = &reader->lexer.token;
  const char *hint = "the first line is `adlgen-ir 1 LEVEL`, LEVEL one of tile staged thread";
  Mark mark = token->mark;
  const char *word = "";
  if (token->kind == TOKEN_WORD && !read_word_into(reader, "adlgen-ir", &word)) return false;
  if (strcmp(word, "adlgen-ir")) return read_fail(reader, &mark, "header", hint, "this is not an IR text");
  if (token->kind != TOKEN_INT || token->integer != IR_TEXT_VERSION)
    return read_fail(reader, &token->mark, "version", hint, "only version %d of the text is known",
                     IR_TEXT_VERSION);
  read_next(reader);
  static const struct {
    const char *name;
    IrLevel level;
  } levels[] = {{"tile", IR_TILE}, {"staged", IR_STAGED}, {"thread", IR_THREAD}};
  for (unsigned i = 0; i < G_N_ELEMENTS(levels); i++) {
    if (!read_accept(reader, levels[i].name)) continue;
    reader->module->level = levels[i].level;
    return true;
  }
  return read_fail(reader, &token->mark, "level", hint, "the level is missing or unknown");
}

static bool read_top(Reader *reader)
{
  IrModule *module = reader->module;
  bool kernel = read_at(reader, "kernel");
  if (kernel || read_at(reader, "func")) return read_function(reader, kernel);
  if (read_accept(reader, "param")) return read_template_parameter(reader, false);
  if (read_accept(reader, "axis")) return read_template_parameter(reader, true);
  if (read_accept(reader, "bound")) return read_bound_parameter(reader);
  if (read_accept(reader, "key")) return read_parameter_names(reader, &module->key, &module->n_key);
  if (read_accept(reader, "alike")) return read_parameter_names(reader, &module->alike, &module->n_alike);
  if (read_accept(reader, "try")) return read_try(reader);
  if (read_accept(reader, "after")) return read_word_into(reader, "a pass's name", &module->after_pass);
  if (read_accept(reader, "gpu")) {
    if (!read_word_into(reader, "a GPU's name", &module->gpu)) return false;
    return reader->lexer.token.kind == TOKEN_NEWLINE ||
           read_word_into(reader, "the description's hash", &module->gpu_hash);
  }
  return read_expected(reader, "kernel, func, param, axis, key, alike, try, gpu or after");
}

static bool read_module(Reader *reader)
{
  skip_newlines(reader);
  if (!read_version(reader)) return false;
  for (;;) {
    TokenKind kind = reader->lexer.token.kind;
    if (kind == TOKEN_END) return true;
    if (kind != TOKEN_NEWLINE) return read_expected(reader, "the end of the line");
    skip_newlines(reader);
    if (reader->lexer.token.kind == TOKEN_END) return true;
    if (reader->head_only && (read_at(reader, "kernel") || read_at(reader, "func"))) return true;
    if (!read_top(reader)) return false;
  }
}

static IrModule *read_source(Source *source, bool head_only, bool tries_skipped, GError **error)
{
  if (memchr(source->text, 0, source->length)) {
    Mark mark = {source, 1, 1};
    for (const char *c = source->text; *c; c++) {
      mark.column++;
      if (*c == '\n') mark = (Mark){source, mark.line + 1, 1};
    }
    error_set(error, ERROR_INPUT, &mark, "nul-byte", NULL, "a NUL byte");
    return NULL;
  }
  Reader reader = {.module = ir_module_new(IR_TILE),
                   .error = error,
                   .tries_skipped = tries_skipped,
                   .head_only = head_only};
  reader.module->source = source_ref(source);
  reader.values = g_hash_table_new(g_str_hash, g_str_equal);
  reader.names = g_hash_table_new(g_str_hash, g_str_equal);
  reader.scopes = g_ptr_array_new();
  reader.ahead = g_ptr_array_new();
  lexer_init(&reader.lexer, source);
  bool ok = read_module(&reader);
  g_hash_table_unref(reader.values);
  g_hash_table_unref(reader.names);
  g_ptr_array_unref(reader.scopes);
  g_ptr_array_unref(reader.ahead);
  if (ok) return reader.module;
  ir_module_free(reader.module);
  return NULL;
}

IrModule *ir_read(Source *source, GError **error)
{
  return read_source(source, false, false, error);
}

IrModule *ir_read_chosen(Source *source, GError **error)
{
  return read_source(source, false, true, error);
}

IrModule *ir_read_head(Source *source, GError **error)
{
  return read_source(source, true, false, error);
}
