/* Modules, kernels and structured control: what is not one row. */
#include "backends/ptx/internal.h"
#include <string.h>

static void emit_region(Emitter *e, const IrRegion *region);

static void fail(Emitter *e, const Mark *mark, const char *code, const char *message)
{
  if (!e->failed) error_set(e->error, ERROR_UNSUPPORTED, mark, code, NULL, "%s", message);
  e->failed = true;
}

/* Text of an operand for comments: the IR's own names, and comparisons as such. */
static const char *comment_text(Emitter *e, const IrExpr *expr)
{
  static const char *const signs[] = {"<", "<=", ">", ">=", "==", "!="}; /* in the order of the opcodes */
  int64_t value;
  if (ir_expr_is_int(expr, &value)) return arena_printf(e->arena, "%" G_GINT64_FORMAT, value);
  if (expr->kind == EXPR_FLOAT) return arena_printf(e->arena, "%g", expr->number);
  if (expr->kind == EXPR_UNARY && expr->operator_ == OPERATOR_LNOT)
    return arena_printf(e->arena, "not %s", comment_text(e, expr->items[0]));
  if (expr->kind != EXPR_VALUE) return "...";
  const IrOp *op = expr->value->def;
  if (op != NULL && !expr->value->variable && op->code >= OP_LT && op->code <= OP_NE && op->n_operands == 2)
    return arena_printf(e->arena, "%s %s %s", comment_text(e, op->operands[0]), signs[op->code - OP_LT],
                        comment_text(e, op->operands[1]));
  return arena_printf(e->arena, "%%%s", expr->value->name);
}

/* ---- Variables ---- */

/* to[i] <- from[i], or every to[i] <- a constant. */
static void emit_assign(Emitter *e, const IrOp *op, const Register *to, unsigned n, const IrExpr *expr,
                        const char *guard)
{
  Operand from;
  if (!operand_resolve(e, op, expr, &from)) return;
  if (from.kind == OPERAND_REGISTERS && from.n != n && from.n != 1) {
    fail(e, &op->mark, "register-count", "the number of registers differs");
    return;
  }
  for (unsigned i = 0; i < n && !e->failed; i++) {
    Operand one = from;
    if (from.kind == OPERAND_REGISTERS && from.n > 1) one.registers += i, one.n = 1;
    row_move(e, op, to[i], &one, guard);
  }
}

static void emit_variable(Emitter *e, const IrOp *op, const char *guard)
{
  const IrValue *value = op->results[0];
  unsigned n = MAX(value->type.count, 1);
  const Register *registers = registers_of_value(e, value);
  if (n > 1)
    text_comment(e->body, "%%%s: %s[%u] is %s .. %s", value->name, number_name(value->type.element), n,
                 register_text(e, registers[0]), register_text(e, registers[n - 1]));
  if (op->n_operands > 0) emit_assign(e, op, registers, n, op->operands[0], guard);
}

static void emit_set(Emitter *e, const IrOp *op, const char *guard)
{
  Operand to;
  if (!operand_resolve(e, op, op->operands[0], &to)) return;
  if (to.kind != OPERAND_REGISTERS || to.sum || to.negated)
    fail(e, &op->mark, "bad-operand", "set writes what is no register");
  else
    emit_assign(e, op, to.registers, to.n, op->operands[1], guard);
}

/* ---- Control ---- */

static const char *label_new(Emitter *e, const char *what)
{
  return arena_printf(e->arena, "%s_%u", what, ++e->labels);
}

/* The register of a bound of a loop; a variable is copied, since the bounds are evaluated once. */
static bool loop_bound(Emitter *e, const IrOp *op, const IrExpr *expr, Register like, Operand *operand)
{
  if (!operand_resolve(e, op, expr, operand)) return false;
  bool variable = expr->kind == EXPR_VALUE && expr->value->variable;
  if (operand->kind != OPERAND_REGISTERS || (!variable && expr->kind != EXPR_INDEX && !operand->sum))
    return true;
  Register *copy = arena_new_object(e->arena, Register);
  *copy = register_new(e, like.class_, like.type);
  if (!row_move(e, op, *copy, operand, "")) return false;
  *operand = (Operand){.kind = OPERAND_REGISTERS, .registers = copy, .n = 1};
  return true;
}

static const char *bound_text(Emitter *e, const Operand *operand, Register like)
{
  return operand->kind == OPERAND_REGISTERS ? register_text(e, operand->registers[0])
                                            : constant_text(e, operand, like.type);
}

static void branch_if(Emitter *e, Register predicate, bool truth, const char *label)
{
  const char *guard = arena_printf(e->arena, "@%s%s", truth ? "" : "!", register_text(e, predicate));
  text_line(e->body, guard, arena_printf(e->arena, "bra %s;", label));
}

/* The test stands at the end, so that an iteration costs one branch; before the first only where it may fail.
 */
static void emit_for(Emitter *e, const IrOp *op)
{
  const IrRegion *body = op->regions[0];
  const IrValue *index = body->arguments[0];
  Register i = registers_of_value(e, index)[0], test = register_new(e, CLASS_PREDICATE, NUMBER_BOOL);
  Operand low, high, step = {.kind = OPERAND_INT, .integer = 1};
  if (!operand_resolve(e, op, op->operands[0], &low) || !loop_bound(e, op, op->operands[1], i, &high)) return;
  if (op->n_operands > 2 && !loop_bound(e, op, op->operands[2], i, &step)) return;
  const char *type = number_name(i.type), *name = register_text(e, i), *end = label_new(e, "end_for");
  const char *top = arena_printf(e->arena, "for_%s", end + strlen("end_for_"));
  bool runs = low.kind == OPERAND_INT && high.kind == OPERAND_INT && low.integer < high.integer;
  if (!row_move(e, op, i, &low, "")) return;
  if (!runs) {
    text_line(e->body, "",
              arena_printf(e->arena, "setp.ge.%s %s, %s, %s;", type, register_text(e, test), name,
                           bound_text(e, &high, i)));
    branch_if(e, test, true, end);
  }
  text_label(e->body, top,
             arena_printf(e->arena, "for %%%s in %s .. %s step %s", index->name,
                          comment_text(e, op->operands[0]), comment_text(e, op->operands[1]),
                          op->n_operands > 2 ? comment_text(e, op->operands[2]) : "1"));
  g_ptr_array_add(e->loop_ends, (gpointer)end);
  emit_region(e, body);
  g_ptr_array_set_size(e->loop_ends, (int)e->loop_ends->len - 1);
  text_line(e->body, "",
            arena_printf(e->arena, "add.%s %s, %s, %s;", type, name, name, bound_text(e, &step, i)));
  text_line(e->body, "",
            arena_printf(e->arena, "setp.lt.%s %s, %s, %s;", type, register_text(e, test), name,
                         bound_text(e, &high, i)));
  branch_if(e, test, true, top);
  text_label(e->body, end, NULL);
}

static void emit_loop(Emitter *e, const IrOp *op)
{
  const char *end = label_new(e, "end_loop");
  const char *top = arena_printf(e->arena, "loop_%s", end + strlen("end_loop_"));
  text_label(e->body, top, "loop");
  g_ptr_array_add(e->loop_ends, (gpointer)end);
  emit_region(e, op->regions[0]);
  g_ptr_array_set_size(e->loop_ends, (int)e->loop_ends->len - 1);
  text_line(e->body, "", arena_printf(e->arena, "bra %s;", top));
  text_label(e->body, end, NULL);
}

/* Resolves a condition: constant (returns 0 or 1), a register (2), or an error (-1). */
static int condition(Emitter *e, const IrOp *op, const IrExpr *expr, Operand *operand)
{
  if (!operand_resolve(e, op, expr, operand)) return -1;
  if (operand->kind == OPERAND_INT) return operand->integer != 0;
  if (operand->kind == OPERAND_REGISTERS && operand->n == 1 &&
      operand->registers[0].class_ == CLASS_PREDICATE)
    return 2;
  fail(e, &op->mark, "bad-operand", "a condition is no predicate");
  return -1;
}

static void emit_if(Emitter *e, const IrOp *op)
{
  Operand test;
  int truth = condition(e, op, op->operands[0], &test);
  const IrRegion *otherwise = op->n_regions > 1 && op->regions[1]->first != NULL ? op->regions[1] : NULL;
  if (truth < 0) return;
  if (truth < 2) {
    if (truth)
      emit_region(e, op->regions[0]);
    else if (otherwise != NULL)
      emit_region(e, otherwise);
    return;
  }
  const char *end = label_new(e, "end_if");
  const char *other = otherwise != NULL ? arena_printf(e->arena, "else_%s", end + strlen("end_if_")) : end;
  text_comment(e->body, "if %s", comment_text(e, op->operands[0]));
  branch_if(e, test.registers[0], test.negated, other);
  emit_region(e, op->regions[0]);
  if (otherwise != NULL) {
    text_line(e->body, "", arena_printf(e->arena, "bra %s;", end));
    text_label(e->body, other, NULL);
    emit_region(e, otherwise);
  }
  text_label(e->body, end, NULL);
}

static void emit_break(Emitter *e, const IrOp *op)
{
  Operand test;
  int truth = condition(e, op, op->operands[0], &test);
  if (truth <= 0) return;
  if (e->loop_ends->len == 0) {
    fail(e, &op->mark, "break-outside", "break_if outside a loop");
    return;
  }
  const char *end = e->loop_ends->pdata[e->loop_ends->len - 1];
  if (truth == 1)
    text_line(e->body, "", arena_printf(e->arena, "bra %s;", end));
  else
    branch_if(e, test.registers[0], !test.negated, end);
}

static void emit_op(Emitter *e, const IrOp *op)
{
  const char *guard = "";
  const IrExpr *when = ir_attribute_value(op, ATTR_WHEN);
  if (when != NULL) {
    Operand test;
    int truth = condition(e, op, when, &test);
    if (truth <= 0 && !(truth == 0 && ir_attribute(op, ATTR_FILL) != NULL)) return;
    if (truth == 0)
      test = (Operand){.kind = OPERAND_REGISTERS,
                       .registers =
                           arena_memdup(e->arena, (Register[]){register_true(e, false)}, sizeof(Register)),
                       .n = 1};
    if (truth != 1)
      guard = arena_printf(e->arena, "@%s%s", test.negated ? "!" : "", register_text(e, test.registers[0]));
  }
  switch (op->code) {
  case OP_VAR: emit_variable(e, op, guard); break;
  case OP_SET: emit_set(e, op, guard); break;
  case OP_LET:
  case OP_MOVE:
    emit_assign(e, op, registers_of_value(e, op->results[0]), MAX(op->results[0]->type.count, 1),
                op->operands[0], guard);
    break;
  case OP_FOR: emit_for(e, op); break;
  case OP_LOOP: emit_loop(e, op); break;
  case OP_IF: emit_if(e, op); break;
  case OP_BREAK_IF: emit_break(e, op); break;
  case OP_MAP: break; /* an argument of the kernel */
  default: row_emit(e, op, guard); break;
  }
}

static void emit_region(Emitter *e, const IrRegion *region)
{
  for (const IrOp *op = region->first; op != NULL && !e->failed; op = op->next)
    emit_op(e, op);
}

/* ---- Kernels ---- */

static void emit_arguments(Emitter *e, GString *out)
{
  unsigned n;
  const IrArgument *arguments = ir_kernel_arguments(e->kernel, &n);
  for (unsigned i = 0; i < n; i++) {
    const IrArgument *a = &arguments[i];
    g_string_append(out, i ? ",\n    " : "\n    ");
    if (a->kind == ARGUMENT_POINTER)
      g_string_append_printf(
          out, ".param .u64 .ptr .global .align %u arg_%s",
          MAX(a->tensor->type.align, (unsigned)number_bytes_of(a->tensor->type.element, 1)), a->name);
    else if (a->kind == ARGUMENT_SCALAR)
      g_string_append_printf(out, ".param .%s arg_%s", number_name(a->type), a->name);
    else
      g_string_append_printf(out, ".param .align 64 .b8 arg_%s[128]", a->name);
  }
  if (n > 0) g_string_append_c(out, '\n');
}

static int64_t launch_int(const IrFunction *kernel, IrAttributeKey key, int64_t otherwise)
{
  const IrExpr *value = ir_launch_get(kernel, key);
  int64_t result;
  return value != NULL && ir_expr_is_int(value, &result) ? result : otherwise;
}

/* Without .minnctapersm or .maxnreg the assembler may not know the registers at entry, and then ignores their
 * hand-over between roles; so one of them is always there. */
static void emit_launch(Emitter *e, GString *out)
{
  int64_t threads = launch_int(e->kernel, ATTR_THREADS, 0), cluster = launch_int(e->kernel, ATTR_CLUSTER, 1);
  int64_t registers = launch_int(e->kernel, ATTR_ENTRY_REGISTERS, 0);
  if (threads > 0) g_string_append_printf(out, ".maxntid %d, 1, 1\n", (int)threads);
  if (registers > 0)
    g_string_append_printf(out, ".maxnreg %d\n", (int)registers);
  else if (threads > 0)
    g_string_append_printf(out, ".minnctapersm %d\n", (int)launch_int(e->kernel, ATTR_MIN_BLOCKS, 1));
  if (cluster > 1)
    g_string_append_printf(out, ".explicitcluster\n.reqnctapercluster %d, 1, 1\n", (int)cluster);
}

static void emit_kernel(Emitter *e, GString *out)
{
  e->body = g_string_new(NULL);
  e->prologue = g_string_new(NULL);
  e->values = arena_new_array(e->arena, Register *, ir_give_ids(e->kernel));
  e->once = g_hash_table_new(g_str_hash, g_str_equal);
  e->loop_ends = g_ptr_array_new();
  e->operands = g_array_new(false, true, sizeof(Operand));
  e->results = g_array_new(false, true, sizeof(Register));
  e->line = g_string_new(NULL);
  emit_region(e, e->kernel->body);
  g_string_append_printf(out, "\n.visible .entry %s(", e->kernel->name);
  emit_arguments(e, out);
  g_string_append(out, ")\n");
  emit_launch(e, out);
  g_string_append(out, "{\n");
  for (unsigned i = 0; i < CLASS_COUNT; i++)
    if (e->used[i] > 0)
      g_string_append_printf(out, "    .reg %-5s %s<%u>;\n", register_type[i], register_prefix[i],
                             e->used[i]);
  g_string_append_c(out, '\n');
  g_string_append_len(out, e->prologue->str, (gssize)e->prologue->len);
  g_string_append_len(out, e->body->str, (gssize)e->body->len);
  g_string_append(out, "            ret;\n}\n");
  g_string_free(e->body, true);
  g_string_free(e->prologue, true);
  g_hash_table_destroy(e->once);
  g_ptr_array_free(e->loop_ends, true);
  g_array_unref(e->operands);
  g_array_unref(e->results);
  g_string_free(e->line, true);
}

static bool check_version(const Emitter *e)
{
  if (e->version <= e->gpu->ptx_version) return true;
  error_set(e->error, ERROR_UNSUPPORTED, NULL, "old-assembler", "raise `ptx` in the description",
            "kernel %s needs PTX %u.%u, but %s allows %u.%u", e->kernel->name, e->version / 10,
            e->version % 10, e->gpu->name, e->gpu->ptx_version / 10, e->gpu->ptx_version % 10);
  return false;
}

static bool uses_shared(const Emitter *e, const IrFunction *kernel)
{
  return e->uses_shared || launch_int(kernel, ATTR_SHARED_BYTES, 0) > 0;
}

char *ptx_emit(const IrModule *module, const Gpu *gpu, GError **error)
{
  g_autoptr(GString) kernels = g_string_new(NULL);
  bool shared = false;
  if (module->level != IR_THREAD) {
    error_set(error, ERROR_INTERNAL, NULL, "wrong-level", NULL, "only a thread module can become PTX");
    return NULL;
  }
  for (unsigned i = 0; i < module->n_functions; i++) {
    if (!module->functions[i]->is_kernel) continue;
    g_autoptr(Arena) arena = arena_new();
    Emitter e = {
        .gpu = gpu, .module = module, .kernel = module->functions[i], .arena = arena, .error = error};
    emit_kernel(&e, kernels);
    if (e.failed || !check_version(&e)) return NULL;
    shared |= uses_shared(&e, e.kernel);
  }
  g_autoptr(GString) out = g_string_new(NULL);
  g_string_append_printf(out, ".version %u.%u\n.target %s\n.address_size 64\n", gpu->ptx_version / 10,
                         gpu->ptx_version % 10, gpu->target);
  /* Swizzled tiles want 1024-byte alignment. */
  if (shared) g_string_append(out, "\n.extern .shared .align 1024 .b8 shared_memory[];\n");
  g_string_append_len(out, kernels->str, (gssize)kernels->len);
  return g_string_free(g_steal_pointer(&out), false);
}
