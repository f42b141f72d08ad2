/* The verifier: structure, scopes, attributes. All faults of a module are collected, each at its operation.
 */
#include "ir/verifier.h"
#include <stdarg.h>
#include <string.h>

void verify_fault(Verifier *verifier, const Mark *mark, const char *code, const char *hint,
                  const char *format, ...)
{
  if (++verifier->faults > VERIFY_MAX_FAULTS) return;
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  const char *pass = verifier->after ? verifier->after : "";
  /* What a person wrote is input; what a pass made is our own fault. */
  error_add(verifier->error, verifier->after ? ERROR_INTERNAL : ERROR_INPUT, SEVERITY_ERROR, mark, code, hint,
            verifier->after ? "%s (after pass %s)" : "%s%s", message, pass);
}

/* ---- Numbering and declarations, before the walk ---- */

static void add_value(Verifier *verifier, IrValue *value)
{
  static const guint8 hidden = 0;
  value->id = verifier->values->len;
  g_ptr_array_add(verifier->values, value);
  g_byte_array_append(verifier->visible, &hidden, 1);
}

static void declare(Verifier *verifier, IrOp *op)
{
  if (op->code == OP_SLOT) return;
  if (g_hash_table_size(verifier->symbols) == VERIFY_MAX_SYMBOLS)
    verify_fault(verifier, &op->mark, "too-many", NULL, "a function declares at most %d symbols",
                 VERIFY_MAX_SYMBOLS);
  if (!g_hash_table_insert(verifier->symbols, (gpointer)op->symbol, op))
    verify_fault(verifier, &op->mark, "redefined", NULL, "`@%s` is declared twice", op->symbol);
}

static void collect(Verifier *verifier, const IrRegion *region)
{
  for (unsigned i = 0; i < region->n_arguments; i++)
    add_value(verifier, region->arguments[i]);
  for (IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_results; i++)
      add_value(verifier, op->results[i]);
    if (op->symbol) declare(verifier, op);
    for (unsigned i = 0; i < op->n_regions; i++)
      collect(verifier, op->regions[i]);
  }
}

static void show(Verifier *verifier, const IrValue *value, bool visible)
{
  verifier->visible->data[value->id] = visible;
}

/* ---- One operation against its row ---- */

static void check_counts(Verifier *verifier, const IrOp *op, const IrOpInfo *info, const OpFormat *format)
{
  bool fits =
      info->results == -1 || (info->results == -2 ? op->n_results <= 1 : (int)op->n_results == info->results);
  if (!fits)
    verify_fault(verifier, &op->mark, "result-count", NULL, "`%s` has %d result%s, not %u", info->name,
                 MAX(info->results, 0), info->results == 1 ? "" : "s", op->n_results);
  bool optional = false;
  for (unsigned i = 0; i < format->n_items; i++)
    optional |= format->items[i].kind == FORMAT_OPTIONAL;
  unsigned most = format->variadic ? G_MAXUINT : format->fixed + optional;
  if (op->n_operands < format->fixed || op->n_operands > most)
    verify_fault(verifier, &op->mark, "operand-count", NULL, "`%s` has %u operand%s, not %u", info->name,
                 format->fixed, format->fixed == 1 ? "" : "s", op->n_operands);
  if (op->n_regions < format->regions_min || op->n_regions > format->regions_max)
    verify_fault(verifier, &op->mark, "region-count", NULL, "`%s` has %u regions", info->name, op->n_regions);
}

static void check_keyword(Verifier *verifier, const IrOp *op, const IrExpr *word, const char *const *names)
{
  if (word->kind == EXPR_NAME && g_strv_contains(names, word->name)) return;
  g_autofree char *all = g_strjoinv(" ", (char **)names);
  g_autofree char *hint = g_strdup_printf("one of: %s", all);
  verify_fault(verifier, &op->mark, "keyword", hint, "`%s` takes a keyword", ir_op_info(op->code)->name);
}

static void check_callee(Verifier *verifier, const IrOp *op, const IrExpr *callee)
{
  if (callee->kind == EXPR_PARAMETER) {
    verify_expr(verifier, callee, op, 0);
    return;
  }
  if (callee->kind == EXPR_SYMBOL || (callee->kind == EXPR_NAME && op->code == OP_TILES)) return;
  verify_fault(verifier, &op->mark, "callee", NULL, "only functions can be called");
}

static void check_operands(Verifier *verifier, const IrOp *op, const OpFormat *format)
{
  unsigned at = 0;
  for (unsigned i = 0; i < format->n_items; i++) {
    const FormatItem *item = &format->items[i];
    unsigned n = format_operands(format, item, op->n_operands);
    for (unsigned j = 0; j < n && at < op->n_operands; j++, at++) {
      const IrExpr *operand = op->operands[at];
      if (item->kind == FORMAT_NAME)
        check_keyword(verifier, op, operand, item->names);
      else if (item->kind == FORMAT_EXPR_OR_NAME && operand->kind == EXPR_NAME)
        check_keyword(verifier, op, operand, item->names);
      else if (item->kind == FORMAT_CALL && j == 0)
        check_callee(verifier, op, operand);
      else
        verify_expr(verifier, operand, op, ALLOW_TILES | ALLOW_LIST);
    }
  }
  bool symbol = false;
  for (unsigned i = 0; i < format->n_items; i++)
    symbol |= format->items[i].kind == FORMAT_SYMBOL || format->items[i].kind == FORMAT_TYPED_SYMBOL;
  if (symbol != (op->symbol != NULL))
    verify_fault(verifier, &op->mark, "symbol", NULL, "`%s` %s", ir_op_info(op->code)->name,
                 symbol ? "declares a symbol, which is missing" : "declares no symbol");
}

static bool attribute_fits(const Verifier *verifier, AttributeKind kind, const IrExpr *value)
{
  if (kind == ATTRIBUTE_flag) return !value;
  if (!value) return false;
  switch (kind) {
  case ATTRIBUTE_int: return verify_is_constant_later(verifier, value);
  case ATTRIBUTE_name: return value->kind == EXPR_NAME || value->kind == EXPR_PARAMETER;
  case ATTRIBUTE_list:
  case ATTRIBUTE_names: return value->kind == EXPR_LIST;
  case ATTRIBUTE_range: return value->kind == EXPR_RANGE || value->kind == EXPR_LIST;
  default: return value->kind != EXPR_LIST && value->kind != EXPR_RANGE;
  }
}

static void check_attribute(Verifier *verifier, const IrOp *op, const OpFormat *format,
                            const IrAttribute *attribute)
{
  static const char *const kinds[] = {
      "no value", "a constant",         "an expression",  "a keyword", "an expression or keyword",
      "a list",   "a list of keywords", "a range or list"};
  const char *name = ir_attribute_name(attribute->key);
  AttributeKind kind = attribute_kind(attribute->key);
  if (!format->takes[attribute->key]) {
    verify_fault(verifier, &op->mark, "unknown-attribute", NULL, "`%s` has no attribute `%s`",
                 ir_op_info(op->code)->name, name);
    return;
  }
  if (!attribute_fits(verifier, kind, attribute->value)) {
    verify_fault(verifier, &op->mark, "attribute", NULL, "attribute `%s` takes %s", name, kinds[kind]);
    return;
  }
  const char *const *values = format->values[attribute->key];
  if (values && attribute->value->kind == EXPR_NAME && !g_strv_contains(values, attribute->value->name)) {
    g_autofree char *all = g_strjoinv(" ", (char **)values);
    g_autofree char *hint = g_strdup_printf("one of: %s", all);
    verify_fault(verifier, &op->mark, "keyword", hint, "`%s` is not what `%s` takes here",
                 attribute->value->name, name);
  }
  bool words = kind == ATTRIBUTE_name || kind == ATTRIBUTE_names || kind == ATTRIBUTE_word;
  if (attribute->value)
    verify_expr(verifier, attribute->value, op,
                (words ? ALLOW_WORDS : 0) | ALLOW_LIST | ALLOW_RANGE | ALLOW_TILES);
}

/* `via` names a row of the op's kind: those of the run at hand, or of any GPU. */
static void check_mechanism(Verifier *verifier, const IrOp *op)
{
  MechanismKind kind;
  const IrExpr *via = ir_attribute_value(op, ATTR_VIA);
  if (!via || via->kind != EXPR_NAME || !ir_mechanism_kind(op, &kind) ||
      ir_mechanism_named(verifier->module, kind, via->name))
    return;
  unsigned n;
  const Mechanism *rows = ir_mechanisms(verifier->module, &n);
  g_autoptr(GString) hint = g_string_new("one of:");
  for (unsigned i = 0; i < n; i++)
    if (rows[i].kind == kind) g_string_append_printf(hint, " %s", rows[i].name);
  verify_fault(verifier, &via->mark, "keyword", hint->str, "`%s` is not what `via` takes here", via->name);
}

/* The stages of a pipelined loop are two: what runs ahead, and what follows an iteration behind it. */
static void check_stage(Verifier *verifier, const IrOp *op)
{
  const IrOp *loop = op->parent->owner;
  int64_t stage = ir_attribute_int(op, ATTR_STAGE, 0);
  while (loop && loop->code == OP_FOR && !ir_attribute(loop, ATTR_PIPELINED) &&
         !ir_attribute(loop, ATTR_STAGE))
    loop = loop->parent->owner;
  if (!loop || loop->code != OP_FOR || !ir_attribute(loop, ATTR_PIPELINED) ||
      verifier->module->level != IR_STAGED)
    verify_fault(verifier, &op->mark, "stage", NULL,
                 "`stage` belongs to operations of a pipelined loop at level staged");
  else if (stage < 0 || stage > 1)
    verify_fault(verifier, &op->mark, "stage", NULL, "stage %d: a pipelined loop has the stages 0 and 1",
                 (int)stage);
}

static void check_attributes(Verifier *verifier, const IrOp *op, const OpFormat *format)
{
  if (!op->n_attributes && !format->n_needs) return;
  bool given[IR_ATTRIBUTE_COUNT] = {false};
  for (unsigned i = 0; i < op->n_attributes; i++) {
    check_attribute(verifier, op, format, &op->attributes[i]);
    given[op->attributes[i].key] = true;
  }
  for (unsigned i = 0; i < format->n_needs; i++)
    if (!given[format->needs[i]])
      verify_fault(verifier, &op->mark, "missing-attribute", NULL, "`%s` needs the attribute `%s`",
                   ir_op_info(op->code)->name, ir_attribute_name(format->needs[i]));
  if (given[ATTR_VIA]) check_mechanism(verifier, op);
  if (given[ATTR_STAGE]) check_stage(verifier, op);
  if (given[ATTR_WHEN] && verifier->module->level != IR_THREAD)
    verify_fault(verifier, &op->mark, "level", NULL, "`when` predicates operations at level thread only");
}

static const char *level_name(IrLevel level)
{
  return level == IR_TILE ? "tile" : level == IR_STAGED ? "staged" : "thread";
}

/* ---- The walk ---- */

static void check_region(Verifier *verifier, const IrRegion *region);

static void check_declared(Verifier *verifier, const IrOp *op)
{
  if (!op->declared) return;
  g_autofree char *what = g_strconcat("`@", op->symbol ? op->symbol : "?", "`", NULL);
  verify_type(verifier, op->declared, &op->mark, what);
  const Layout *layout = op->declared->layout;
  if (layout && layout_size(layout, PLACE_LANE) * layout_size(layout, PLACE_WARP) > 1)
    verify_fault(verifier, &op->mark, "layout", NULL,
                 "%s is in shared memory; its layout is one of registers", what);
}

/* The most frequent types need no look. */
static bool is_plain(const Verifier *verifier, const IrType *type)
{
  if (type->kind == TYPE_PREDICATE) return true;
  return type->kind == TYPE_SCALAR && !type->element_parameter &&
         (type->count == 1 || verifier->module->level == IR_THREAD);
}

static void check_results(Verifier *verifier, const IrOp *op)
{
  for (unsigned i = 0; i < op->n_results; i++) {
    const IrValue *value = op->results[i];
    show(verifier, value, true);
    if (is_plain(verifier, &value->type)) continue;
    g_autofree char *what = g_strconcat("`%", value->name ? value->name : "?", "`", NULL);
    verify_type(verifier, &value->type, &op->mark, what);
    if (value->type.layout && layout_size(value->type.layout, PLACE_OFFSET) > 1)
      verify_fault(verifier, &op->mark, "layout", NULL,
                   "%s is in registers; its layout is one of shared memory", what);
    if (value->type.kind == TYPE_TENSOR)
      verify_fault(verifier, &op->mark, "type", NULL, "%s cannot be a tensor: only parameters are", what);
  }
}

static void check_op(Verifier *verifier, const IrOp *op)
{
  const IrOpInfo *info = ir_op_info(op->code);
  const OpFormat *format = op_format(op->code);
  if (!(info->levels & verifier->module->level))
    verify_fault(verifier, &op->mark, "level", NULL, "`%s` is not legal at level %s", info->name,
                 level_name(verifier->module->level));
  unsigned before = verifier->faults;
  check_counts(verifier, op, info, format);
  check_operands(verifier, op, format);
  check_attributes(verifier, op, format);
  check_declared(verifier, op);
  bool loop = op->code == OP_FOR || op->code == OP_LOOP;
  verifier->loops += loop;
  if (op->code == OP_TILES && ir_attribute(op, ATTR_ROW)) verifier->rows = op;
  for (unsigned i = 0; i < op->n_regions; i++)
    check_region(verifier, op->regions[i]);
  verifier->loops -= loop;
  if (verifier->rows == op) verifier->rows = NULL;
  check_results(verifier, op);
  /* Rules of single operations build on the row's being kept. */
  if (verifier->faults == before) verify_op_rules(verifier, op);
}

/* From here on; of the sections in it too, whose values are known behind them. */
static void hide_results(Verifier *verifier, const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_results; i++)
      show(verifier, op->results[i], false);
    if (op->code == OP_TURN && op->n_regions) hide_results(verifier, op->regions[0]);
  }
}

static void check_region(Verifier *verifier, const IrRegion *region)
{
  for (unsigned i = 0; i < region->n_arguments; i++)
    show(verifier, region->arguments[i], true);
  for (const IrOp *op = region->first; op; op = op->next)
    check_op(verifier, op);
  if (!region->owner || region->owner->code != OP_TURN) hide_results(verifier, region);
  for (unsigned i = 0; i < region->n_arguments; i++)
    show(verifier, region->arguments[i], false);
}

#define MOST_THREADS 1024 /* of a block: PTX allows no more */

/* Of threads, and blocks of a cluster, there is one at least. */
static void check_launch(Verifier *verifier)
{
  static const IrAttributeKey counts[] = {ATTR_THREADS, ATTR_CLUSTER, ATTR_MIN_BLOCKS};
  const IrFunction *function = verifier->function;
  for (unsigned i = 0; i < G_N_ELEMENTS(counts); i++) {
    int64_t count;
    const IrExpr *value = ir_launch_get(function, counts[i]);
    if (value && ir_expr_is_int(value, &count) && (count < 1 || count > MOST_THREADS))
      verify_fault(verifier, &function->mark, "launch", NULL,
                   "`%s` of a launch is from 1 to %d, not %" G_GINT64_FORMAT, ir_attribute_name(counts[i]),
                   MOST_THREADS, count);
  }
}

static void check_signature(Verifier *verifier)
{
  const IrFunction *function = verifier->function;
  for (unsigned i = 0; i < function->n_parameters; i++) {
    const IrValue *value = function->parameters[i];
    g_autofree char *what = g_strdup_printf("`%s`", value->name);
    if (function->is_kernel && value->type.kind != TYPE_TENSOR)
      verify_fault(verifier, &function->mark, "kernel-parameter", "declare scalars as dims",
                   "a kernel's parameters are tensors; %s is not", what);
    verify_type(verifier, &value->type, &function->mark, what);
  }
  for (unsigned i = 0; i < function->n_dims; i++)
    if (function->dims[i].launch) verify_expr(verifier, function->dims[i].launch, NULL, 0);
  for (unsigned i = 0; i < function->n_launch; i++)
    if (function->launch[i].value)
      verify_expr(verifier, function->launch[i].value, NULL, ALLOW_LIST | ALLOW_WORDS);
  check_launch(verifier);
  for (unsigned i = 0; i < function->n_results; i++)
    verify_type(verifier, &function->results[i], &function->mark, "the result");
}

/* Does a region end with `return`, or with a `when` of which both sides do? */
static bool returns(const IrRegion *region)
{
  const IrOp *last = region->last;
  if (last && last->code == OP_WHEN && last->n_regions > 1)
    return returns(last->regions[0]) && returns(last->regions[1]);
  return last && last->code == OP_RETURN;
}

static void verify_function(Verifier *verifier, IrFunction *function)
{
  verifier->function = function;
  verifier->templated = verifier->module->n_parameters || !function->is_kernel;
  verifier->loops = 0;
  verifier->rows = NULL;
  verifier->symbols = g_hash_table_new(g_str_hash, g_str_equal);
  verifier->values = g_ptr_array_new();
  verifier->visible = g_byte_array_new();
  for (unsigned i = 0; i < function->n_parameters; i++) {
    add_value(verifier, function->parameters[i]);
    show(verifier, function->parameters[i], true);
  }
  collect(verifier, function->body);
  check_signature(verifier);
  check_region(verifier, function->body);
  if (function->is_kernel && verifier->module->level == IR_TILE) verify_memory(verifier, function);
  if (function->n_results && !returns(function->body))
    verify_fault(verifier, &function->mark, "return", NULL, "`@%s` has results, and ends without `return`",
                 function->name);
  g_hash_table_unref(verifier->symbols);
  g_ptr_array_unref(verifier->values);
  g_byte_array_unref(verifier->visible);
}

static void verify_use(const IrExpr *expr, void *data)
{
  if (expr->kind == EXPR_PARAMETER) verify_expr(data, expr, NULL, 0);
}

/* Each parameter of a template is read: by its body, or by another's default or condition. */
static void check_parameters(Verifier *verifier)
{
  const IrModule *module = verifier->module;
  for (unsigned i = 0; i < module->n_parameters; i++) {
    const IrParameter *parameter = &module->parameters[i];
    bool used = g_hash_table_contains(verifier->used, parameter->name);
    if (parameter->outside && used)
      verify_fault(verifier, &parameter->mark, "axis", "declare it with `param`",
                   "`%s` is no parameter of the body's, but the body reads it", parameter->name);
    if (parameter->value) ir_expr_visit(parameter->value, verify_use, verifier);
    if (parameter->condition) ir_expr_visit(parameter->condition, verify_use, verifier);
  }
  /* a misspelt one would be told twice */
  for (unsigned i = 0; i < module->n_parameters && !verifier->faults; i++) {
    const IrParameter *parameter = &module->parameters[i];
    if (parameter->outside || g_hash_table_contains(verifier->used, parameter->name)) continue;
    verify_fault(verifier, &parameter->mark, "unused-parameter",
                 "take it out, or declare it with `axis` if only the generator reads it",
                 "nothing reads parameter `%s`", parameter->name);
  }
}

bool ir_verify(const IrModule *module, const char *after, GError **error)
{
  g_autoptr(GHashTable) used = g_hash_table_new(g_str_hash, g_str_equal);
  Verifier verifier = {.module = module, .after = after, .error = error, .used = used};
  for (unsigned i = 0; i < module->n_functions; i++)
    verify_function(&verifier, module->functions[i]);
  check_parameters(&verifier);
  if (verifier.faults > VERIFY_MAX_FAULTS)
    error_add(error, ERROR_INPUT, SEVERITY_NOTE, NULL, "more", NULL, "and %u more faults",
              verifier.faults - VERIFY_MAX_FAULTS);
  return !verifier.faults;
}
