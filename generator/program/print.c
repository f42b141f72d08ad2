/* Programs as text (docs/program.md). */
#include "generator/program/program.h"
#include "generator/program/text.h"
#include <string.h>

typedef struct {
  const Program *program;
  GString *text;
  GPtrArray *tensors; /* those that are declared */
} Printer;

static void put_expression(Printer *printer, const Symbolic *expression)
{
  g_autofree char *text = symbolic_text(expression);
  g_string_append(printer->text, text);
}

static void put_list(Printer *printer, const Symbolic *const *list, unsigned n)
{
  g_string_append_c(printer->text, '[');
  for (unsigned i = 0; i < n; i++) {
    if (i) g_string_append(printer->text, ", ");
    put_expression(printer, list[i]);
  }
  g_string_append_c(printer->text, ']');
}

/* ---- tensors ---- */

static bool is_plain(const char *name)
{
  bool plain = name[0] != '\0' && !g_ascii_isdigit(name[0]);
  for (; *name; name++)
    plain = plain && program_name_character(*name);
  return plain;
}

static void put_name(Printer *printer, const char *name)
{
  if (is_plain(name)) {
    g_string_append(printer->text, name);
    return;
  }
  g_autofree char *escaped = g_strescape(name, NULL);
  g_string_append_printf(printer->text, "\"%s\"", escaped);
}

/* Views of one tensor, which share its name, are numbered. */
static void put_tensor(Printer *printer, const GraphTensor *tensor)
{
  unsigned number = 1;
  for (unsigned i = 0; i < printer->tensors->len; i++) {
    const GraphTensor *other = printer->tensors->pdata[i];
    if (other == tensor) break;
    number += !strcmp(other->name, tensor->name);
  }
  put_name(printer, tensor->name);
  if (number > 1) g_string_append_printf(printer->text, "#%u", number);
}

static bool is_dense(const Printer *printer, const GraphTensor *tensor)
{
  const Symbolic *stride = symbolic_constant(printer->program->arena, 1);
  for (unsigned d = tensor->rank; d-- > 0;) {
    if (!symbolic_same(tensor->strides[d], stride)) return false;
    stride = symbolic_mul(printer->program->arena, stride, tensor->shape[d]);
  }
  return true;
}

static void put_declaration(Printer *printer, const GraphTensor *tensor)
{
  if (g_ptr_array_find(printer->tensors, tensor, NULL)) return;
  g_ptr_array_add(printer->tensors, (void *)tensor);
  g_string_append(printer->text, "  tensor ");
  put_tensor(printer, tensor);
  g_string_append_printf(printer->text, ": %s", number_name(tensor->type));
  put_list(printer, tensor->shape, tensor->rank);
  if (!is_dense(printer, tensor)) {
    g_string_append(printer->text, " strides ");
    put_list(printer, tensor->strides, tensor->rank);
  }
  if (tensor->begins && !symbolic_equals(tensor->begins, 0)) {
    g_string_append(printer->text, " from ");
    put_expression(printer, tensor->begins);
  }
  g_string_append_c(printer->text, '\n');
}

/* ---- nodes ---- */

static void put_number(Printer *printer, double number)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_formatd(text, sizeof text, "%.9g", number);
  if (g_ascii_strtod(text, NULL) != number) g_ascii_formatd(text, sizeof text, "%.17g", number);
  g_string_append(printer->text, text);
}

static void put_value(Printer *printer, const ProgramValue *value)
{
  switch (value->kind) {
  case VALUE_ABSENT: g_string_append_c(printer->text, '-'); return;
  case VALUE_NODE:
    g_string_append_printf(printer->text, "%%%u", value->node);
    if (value->result) g_string_append_printf(printer->text, ".%u", value->result);
    return;
  case VALUE_IMMEDIATE:
    put_number(printer, value->immediate);
    g_string_append_printf(printer->text, ":%s", number_name(value->type));
    return;
  }
}

static void put_values(Printer *printer, const ProgramNode *node)
{
  for (unsigned i = 0; i < node->n_operands; i++) {
    if (i) g_string_append(printer->text, ", ");
    put_value(printer, &node->operands[i]);
  }
}

static void put_access(Printer *printer, const ProgramAccess *access)
{
  put_tensor(printer, access->tensor);
  g_string_append_c(printer->text, '[');
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    const ProgramIndex *index = &access->at[d];
    bool loaded = index->node != PROGRAM_NONE;
    if (d) g_string_append(printer->text, ", ");
    if (loaded) g_string_append_printf(printer->text, "%%%d", index->node);
    if (loaded && symbolic_equals(index->of_axes, 0)) continue;
    if (loaded) g_string_append(printer->text, " + ");
    put_expression(printer, index->of_axes);
  }
  g_string_append_c(printer->text, ']');
  switch (access->outside) {
  case OUTSIDE_NEVER: return;
  case OUTSIDE_SKIP: g_string_append(printer->text, " skip"); return;
  case OUTSIDE_FILL:
    g_string_append(printer->text, " fill ");
    put_number(printer, access->fill);
    return;
  }
}

/* Those that differ from what they are by default. */
static void put_attributes(Printer *printer, const ProgramNode *node)
{
  const Operator *row = operator_of(node->op);
  for (unsigned i = 0; node->attributes && i < row->n_attributes; i++) {
    const OperatorAttribute *declared = &row->attributes[i];
    const GraphAttribute *value = &node->attributes[i];
    switch (declared->kind) {
    case ATTRIBUTE_INT:
      if (value->integer != declared->integer)
        g_string_append_printf(printer->text, " %s=%" G_GINT64_FORMAT, declared->name, value->integer);
      break;
    case ATTRIBUTE_FLOAT:
      if (!(value->number < declared->number) && !(value->number > declared->number)) break;
      g_string_append_printf(printer->text, " %s=", declared->name);
      put_number(printer, value->number);
      break;
    case ATTRIBUTE_STRING:
      if (!value->text || !g_strcmp0(value->text, declared->text)) break;
      g_string_append_printf(printer->text, " %s=", declared->name);
      put_name(printer, value->text);
      break;
    case ATTRIBUTE_TYPE: /* the node's own type */
    case ATTRIBUTE_FLOATS:
    case ATTRIBUTE_STRINGS:
    case ATTRIBUTE_GRAPH:
    case ATTRIBUTE_INTS: break;
    }
  }
}

static void put_axes(Printer *printer, uint32_t axes)
{
  const char *separator = "";
  g_string_append(printer->text, " {");
  for (unsigned i = 0; i < printer->program->n_axes; i++)
    if (axes >> i & 1) {
      g_string_append_printf(printer->text, "%s%s", separator, printer->program->axes[i].name);
      separator = ", ";
    }
  g_string_append(printer->text, "} ");
}

static void put_node(Printer *printer, unsigned i)
{
  const ProgramNode *node = &printer->program->nodes[i];
  if (node->kind != NODE_WRITE)
    g_string_append_printf(printer->text, "  %%%u: %s = ", i, number_name(node->type));
  switch (node->kind) {
  case NODE_READ:
    g_string_append(printer->text, "read ");
    put_access(printer, &node->access);
    break;
  case NODE_INDEX:
    g_string_append(printer->text, "index ");
    put_expression(printer, node->index);
    break;
  case NODE_MAP:
    g_string_append_printf(printer->text, "map %s(", operator_of(node->op)->name);
    put_values(printer, node);
    g_string_append_printf(printer->text, ") in %s", number_name(node->compute));
    put_attributes(printer, node);
    break;
  case NODE_REDUCE:
  case NODE_SCAN:
    g_string_append_printf(printer->text, "%s %s", node->kind == NODE_SCAN ? "scan" : "reduce",
                           program_reduction_name(node->reduction));
    if (node->exclusive) g_string_append(printer->text, " exclusive");
    if (node->reverse) g_string_append(printer->text, " reverse");
    put_axes(printer, node->axes);
    put_values(printer, node);
    break;
  case NODE_WRITE:
    g_string_append(printer->text, "  write ");
    put_access(printer, &node->access);
    g_string_append_printf(printer->text,
                           " %s= ", node->combines ? program_reduction_name(node->reduction) : "");
    put_values(printer, node);
    break;
  }
  g_string_append_c(printer->text, '\n');
}

char *program_print(const Program *program)
{
  g_autoptr(GPtrArray) tensors = g_ptr_array_new();
  Printer printer = {program, g_string_new(NULL), tensors};
  g_string_append(printer.text, "program ");
  put_name(&printer, program->name && *program->name ? program->name : "unnamed");
  g_string_append_c(printer.text, '\n');
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_READ || node->kind == NODE_WRITE) put_declaration(&printer, node->access.tensor);
  }
  for (unsigned i = 0; i < program->n_axes; i++) {
    const ProgramAxis *axis = &program->axes[i];
    g_string_append_printf(printer.text, "  axis %s: ", axis->name);
    put_expression(&printer, axis->extent);
    if (axis->length != PROGRAM_NONE) g_string_append_printf(printer.text, " length %%%d", axis->length);
    g_string_append_c(printer.text, '\n');
  }
  for (unsigned i = 0; i < program->n_nodes; i++)
    put_node(&printer, i);
  return g_string_free(printer.text, FALSE);
}
