/* Fused operators as text, for tests and --explain. */
#include "generator/fusion/fusion.h"
#include "generator/program/family.h"

static void append_list(GString *text, const char *title, const Symbolic *const *list, unsigned n)
{
  g_string_append_printf(text, "%s[", title);
  for (unsigned i = 0; i < n; i++) {
    g_autofree char *item = symbolic_text(list[i]);
    g_string_append_printf(text, "%s%s", i ? ", " : "", item);
  }
  g_string_append_c(text, ']');
}

static void append_value(GString *text, const char *title, const Symbolic *value)
{
  g_autofree char *item = symbolic_text(value);
  g_string_append_printf(text, " %s %s", title, item);
}

/* The tensor, and where a part of it begins. */
static void append_tensor(GString *text, const GraphTensor *tensor)
{
  g_string_append(text, tensor->name);
  if (!tensor->begins || symbolic_equals(tensor->begins, 0)) return;
  g_autofree char *begins = symbolic_text(tensor->begins);
  g_string_append_printf(text, "[from %s]", begins);
}

static void append_operand(GString *text, const FusedOperator *fused, const FusedOperand *operand)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  switch (operand->kind) {
  case OPERAND_ABSENT: g_string_append_c(text, '-'); return;
  case OPERAND_INPUT: append_tensor(text, fused->inputs[operand->index].tensor); return;
  case OPERAND_STEP: g_string_append_printf(text, "%%%u", operand->index); return;
  case OPERAND_ANCHOR: g_string_append(text, operand->index ? "anchor2" : "anchor"); return;
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
    append_operand(text, fused, &step->operands[i]);
  }
  g_string_append_printf(text, ") in %s%s%s\n", number_name(step->compute), step->prologue ? " prologue" : "",
                         step->per_row ? " per row" : "");
}

static void append_gemm(GString *text, const FusedOperator *fused)
{
  const FusedGemm *gemm = &fused->gemm;
  g_string_append_printf(text, "  gemm %s x %s in %s, %u batch dims,", number_name(gemm->a_type),
                         number_name(gemm->b_type), number_name(gemm->acc_type), gemm->n_batch);
  append_value(text, "m", gemm->m);
  append_value(text, "n", gemm->n);
  append_value(text, "k", gemm->k);
  g_string_append(text, "\n  a ");
  append_tensor(text, fused->inputs[gemm->a].tensor);
  append_list(text, " batch ", gemm->a_batch, gemm->n_batch);
  append_value(text, "m", gemm->a_m);
  append_value(text, "k", gemm->a_k);
  g_string_append_printf(text, "%s\n  b ", gemm->a_m_major ? " m-major" : "");
  append_tensor(text, fused->inputs[gemm->b].tensor);
  append_list(text, " batch ", gemm->b_batch, gemm->n_batch);
  append_value(text, "k", gemm->b_k);
  append_value(text, "n", gemm->b_n);
  g_string_append(text, gemm->b_n_major ? " n-major\n" : "\n");
  if (!gemm->dual) return;
  g_string_append(text, "  b2 ");
  append_tensor(text, fused->inputs[gemm->b2].tensor);
  g_string_append(text, " as b\n");
}

static void append_row(GString *text, const FusedOperator *fused)
{
  static const char *const kinds[] = {
      [ROW_SOFTMAX] = "softmax",   [ROW_LOG_SOFTMAX] = "log softmax", [ROW_LAYER_NORM] = "layer norm",
      [ROW_RMS_NORM] = "rms norm", [ROW_REDUCE_SUM] = "sum",          [ROW_REDUCE_MEAN] = "mean",
      [ROW_REDUCE_MAX] = "max",    [ROW_REDUCE_MIN] = "min",
  };
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append_printf(text, "  row %s of ", kinds[fused->row.kind]);
  append_operand(text, fused, &fused->row.source);
  g_string_append_printf(text, " in %s", number_name(fused->row.compute));
  if (fused->row.epsilon != 0)
    g_string_append_printf(text, " epsilon %s",
                           g_ascii_formatd(number, sizeof number, "%.9g", fused->row.epsilon));
  g_string_append_c(text, '\n');
}

static void append_operator(GString *text, const FusedOperator *fused)
{
  g_string_append_printf(text, "%u %s: %s over ", fused->index, fused->name, family_of(fused->kind)->name);
  append_list(text, "", fused->dims, fused->rank);
  g_string_append_c(text, '\n');
  switch (fused->kind) {
  case FUSED_GEMM: append_gemm(text, fused); break;
  case FUSED_ROW: append_row(text, fused); break;
  case FUSED_ELEMENTWISE:
  case FUSED_KIND_COUNT: break;
  }
  for (unsigned i = 0; i < fused->n_inputs; i++) {
    const FusedGemm *gemm = &fused->gemm;
    bool operand =
        fused->kind == FUSED_GEMM && (i == gemm->a || i == gemm->b || (gemm->dual && i == gemm->b2));
    if (operand) continue;
    g_string_append(text, "  in ");
    append_tensor(text, fused->inputs[i].tensor);
    g_string_append_printf(text, ": %s", number_name(fused->inputs[i].tensor->type));
    append_list(text, " strides ", fused->inputs[i].strides, fused->rank);
    g_string_append_c(text, '\n');
  }
  for (unsigned i = 0; i < fused->n_steps; i++)
    append_step(text, fused, i);
  for (unsigned i = 0; i < fused->n_outputs; i++) {
    const FusedOutput *output = &fused->outputs[i];
    g_string_append(text, "  out ");
    append_tensor(text, output->tensor);
    g_string_append_printf(text, ": %s", number_name(output->tensor->type));
    append_list(text, " strides ", output->strides, fused->rank);
    g_string_append(text, " <- ");
    append_operand(text, fused, &output->value);
    if (output->anchor_output) g_string_append_printf(text, ".%u", output->anchor_output);
    if (output->reduced)
      g_string_append_printf(text, " by %s of %d %s", operator_of(output->reduction)->name,
                             output->by_rows ? REDUCED_ROWS : REDUCED_COLUMNS,
                             output->by_rows ? "rows" : "columns");
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

char *fusion_dump(const Fusion *fusion)
{
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < fusion->n; i++)
    append_operator(text, fusion->operators[i]);
  for (unsigned i = 0; i < fusion->n_notes; i++)
    g_string_append_printf(text, "note: %s\n", fusion->notes[i]);
  return g_string_free(text, FALSE);
}
