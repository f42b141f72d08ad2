/* What follows of a fused operator and its program for any family, and both as text. */
#include "generator/program/family.h"
#include "generator/program/fused_text.h"

bool fused_step_is_in_front(const FusedOperator *op, const FusedStep *step)
{
  return op->program->in_front[step->at];
}

/* Axes that reductions take away, contractions apart, if behind them nothing varies along these any more. */
static uint32_t ended_axes(const Program *program)
{
  uint32_t axes = 0;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool of_groups = node->reduction == REDUCTION_FIRST_OF || node->reduction == REDUCTION_COUNT_OF;
    if (node->kind == NODE_REDUCE && node->reduction != REDUCTION_DOT && !of_groups) axes |= node->axes;
  }
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool behind = (node->kind == NODE_MAP || node->kind == NODE_WRITE) && !program->in_front[i];
    if (behind && program->varies[i] & axes) return 0;
  }
  return axes;
}

bool fused_step_is_per_row(const FusedOperator *op, const FusedStep *step)
{
  return !fused_step_is_in_front(op, step) && ended_axes(op->program);
}

bool fused_is_contracted(const FusedOperator *op, unsigned input)
{
  const Program *program = op->program;
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_READ && !input--) return program_is_contracted(program, i);
  return false;
}

/* A product of what a softmax gives, which is as wide as the queries. */
static bool takes_weights(const Program *program, const ProgramNode *dot)
{
  if (dot->operands[0].kind != VALUE_NODE) return false;
  g_autofree bool *from = program_ancestors(program, dot->operands[0].node);
  bool found = false;
  for (unsigned i = 0; i < program->n_nodes; i++)
    found |=
        from[i] && program->nodes[i].kind == NODE_REDUCE && program->nodes[i].reduction == REDUCTION_MAX_SUM;
  return found;
}

bool fused_takes_weights(const FusedOperator *op)
{
  bool takes = false;
  for (unsigned i = 0; i < op->program->n_nodes && !takes; i++) {
    const ProgramNode *node = &op->program->nodes[i];
    takes = node->kind == NODE_REDUCE && node->reduction == REDUCTION_DOT && takes_weights(op->program, node);
  }
  return takes;
}

bool fused_is_widened(const FusedOperator *op, unsigned input)
{
  const Program *program = op->program;
  ProgramNarrow narrow;
  ProgramJoined joined;
  int read = PROGRAM_NONE;
  for (unsigned i = 0; i < program->n_nodes && read == PROGRAM_NONE; i++)
    if (program->nodes[i].kind == NODE_READ && !input--) read = (int)i;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *dot = &program->nodes[i];
    if (dot->kind != NODE_REDUCE || dot->reduction != REDUCTION_DOT) continue;
    if (program_narrow_operand(program, dot, 1, &narrow) && (int)narrow.x == read) return true;
    bool joins = program_joined_operand(program, dot, 1, &joined);
    if (joins && ((int)joined.row == read || (int)joined.cache == read)) return true;
    if (takes_weights(program, dot) && dot->operands[1].kind == VALUE_NODE &&
        (int)dot->operands[1].node == read)
      return true;
  }
  return false;
}

bool fused_is_reduced(const FusedOperator *op)
{
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].reduced) return true;
  return false;
}

bool fused_is_copy(const FusedOperator *op)
{
  for (unsigned i = 0; i < op->program->n_nodes; i++) {
    ProgramNodeKind kind = op->program->nodes[i].kind;
    if (kind != NODE_READ && kind != NODE_WRITE && kind != NODE_INDEX) return false;
  }
  return true;
}

/* ---- text ---- */

void fused_put_list(GString *text, const char *title, const Symbolic *const *list, unsigned n)
{
  g_string_append_printf(text, "%s[", title);
  for (unsigned i = 0; i < n; i++) {
    g_autofree char *item = symbolic_text(list[i]);
    g_string_append_printf(text, "%s%s", i ? ", " : "", item);
  }
  g_string_append_c(text, ']');
}

void fused_put_value(GString *text, const char *title, const Symbolic *value)
{
  g_autofree char *item = symbolic_text(value);
  g_string_append_printf(text, " %s %s", title, item);
}

/* The tensor, and where a part of it begins. */
void fused_put_tensor(GString *text, const GraphTensor *tensor)
{
  g_string_append(text, tensor->name);
  if (!tensor->begins || symbolic_equals(tensor->begins, 0)) return;
  g_autofree char *begins = symbolic_text(tensor->begins);
  g_string_append_printf(text, "[from %s]", begins);
}

void fused_put_operand(GString *text, const FusedOperator *fused, const FusedOperand *operand)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  switch (operand->kind) {
  case OPERAND_ABSENT: g_string_append_c(text, '-'); return;
  case OPERAND_INPUT: fused_put_tensor(text, fused->inputs[operand->index].tensor); return;
  case OPERAND_STEP: g_string_append_printf(text, "%%%u", operand->index); return;
  case OPERAND_INDEX: g_string_append_printf(text, "index %u", operand->index); return;
  case OPERAND_ANCHOR:
    g_string_append(text, "anchor");
    if (operand->index) g_string_append_printf(text, "%u", operand->index + 1);
    return;
  case OPERAND_REDUCED: g_string_append_printf(text, "reduced%u", operand->index); return;
  case OPERAND_IMMEDIATE:
    g_string_append(text, g_ascii_formatd(number, sizeof number, "%.9g", operand->immediate));
    return;
  }
}

static void append_step(GString *text, const FusedOperator *fused, unsigned index)
{
  const FusedStep *step = &fused->steps[index];
  g_string_append_printf(text, "  %%%u: %s = %s(", index, number_name(step->type),
                         operator_of(step->op)->name);
  for (unsigned i = 0; i < step->n_operands; i++) {
    if (i) g_string_append(text, ", ");
    fused_put_operand(text, fused, &step->operands[i]);
  }
  g_string_append_printf(text, ") in %s%s%s\n", number_name(step->compute),
                         fused_step_is_in_front(fused, step) ? " prologue" : "",
                         fused_step_is_per_row(fused, step) ? " per row" : "");
}

static void append_operator(GString *text, const FusedOperator *fused)
{
  g_string_append_printf(text, "%u %s: %s over ", fused->index, fused->name, fused->family->name);
  fused_put_list(text, "", fused->dims, fused->rank);
  g_string_append_c(text, '\n');
  fused->family->describe(fused, text);
  for (unsigned i = 0; i < fused->n_inputs; i++) {
    if (fused_is_contracted(fused, i)) continue;
    g_string_append(text, "  in ");
    fused_put_tensor(text, fused->inputs[i].tensor);
    g_string_append_printf(text, ": %s", number_name(fused->inputs[i].tensor->type));
    fused_put_list(text, " strides ", fused->inputs[i].strides, fused->rank);
    g_string_append_c(text, '\n');
  }
  for (unsigned i = 0; i < fused->n_steps; i++)
    append_step(text, fused, i);
  for (unsigned i = 0; i < fused->n_outputs; i++) {
    const FusedOutput *output = &fused->outputs[i];
    g_string_append(text, "  out ");
    fused_put_tensor(text, output->tensor);
    g_string_append_printf(text, ": %s", number_name(output->tensor->type));
    fused_put_list(text, " strides ", output->strides, fused->rank);
    g_string_append(text, " <- ");
    fused_put_operand(text, fused, &output->value);
    if (output->anchor_output) g_string_append_printf(text, ".%u", output->anchor_output);
    if (output->reduced)
      g_string_append_printf(text, " by %s of %d %s", operator_of(output->reduction)->name,
                             (int)output->width, output->by_rows ? "rows" : "columns");
    g_string_append_c(text, '\n');
  }
  if (fused->n_depends) g_string_append(text, "  after");
  for (unsigned i = 0; i < fused->n_depends; i++)
    g_string_append_printf(text, " %u", fused->depends_on[i]);
  if (fused->n_depends) g_string_append_c(text, '\n');
  if (fused->n_symbols) g_string_append(text, "  symbols");
  for (unsigned i = 0; i < fused->n_symbols; i++)
    g_string_append_printf(text, " %s", fused->symbols[i]);
  if (fused->n_symbols) g_string_append_c(text, '\n');
}

char *fused_dump(const FusedOperator *fused)
{
  GString *text = g_string_new(NULL);
  append_operator(text, fused);
  return g_string_free(text, FALSE);
}
