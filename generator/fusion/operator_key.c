#include "generator/fusion/operator_key.h"
#include "generator/front/groups.h"
#include "generator/program/family.h"
#include "generator/program/times.h"
#include <string.h>

typedef struct {
  const Graph *graph;
  GString *text;
  GPtrArray *symbols, *tensors;
} Writer;

static void put(Writer *writer, int64_t number)
{
  g_string_append_printf(writer->text, "%" G_GINT64_FORMAT " ", number);
}

/* Every bit counts: the text of a number is its bits. */
static void put_number(Writer *writer, double number)
{
  int64_t bits;
  memcpy(&bits, &number, sizeof bits);
  put(writer, bits);
}

static void put_text(Writer *writer, const char *text)
{
  g_string_append_printf(writer->text, "%s ", text ? text : "-");
}

/* ---- Names: their positions, and what the graph knows of what they stand for ---- */

/* `likely`: where it stands if it is a tensor of the graph and not of fusion's (graph_collect_facts). */
static const SymbolicFact *find_fact(const Graph *graph, const char *name, bool pointer, unsigned likely)
{
  if (likely < graph->facts.n && graph->facts.facts[likely].pointer == pointer &&
      !strcmp(graph->facts.facts[likely].name, name))
    return &graph->facts.facts[likely];
  for (unsigned i = 0; i < graph->facts.n; i++) {
    const SymbolicFact *fact = &graph->facts.facts[i];
    if (fact->pointer == pointer && !strcmp(fact->name, name)) return fact;
  }
  return NULL;
}

static void put_name(Writer *writer, GPtrArray *names, const char *name, bool pointer, unsigned likely)
{
  unsigned i = 0;
  while (i < names->len && strcmp(names->pdata[i], name) != 0)
    i++;
  put(writer, i);
  if (i < names->len) return;
  g_ptr_array_add(names, (void *)name);
  const SymbolicFact *fact = find_fact(writer->graph, name, pointer, likely);
  if (!fact) return put_text(writer, "free");
  put(writer, fact->min);
  put(writer, fact->max);
  put(writer, fact->multiple);
}

static void put_expression(Writer *writer, const Symbolic *expression)
{
  if (!expression) return put_text(writer, "none");
  put(writer, expression->kind);
  switch ((unsigned)expression->kind) {
  case SYMBOLIC_CONSTANT: put(writer, expression->value); break;
  case SYMBOLIC_SYMBOL: put_name(writer, writer->symbols, expression->name, false, 0); break;
  case SYMBOLIC_ALIGN: put_name(writer, writer->tensors, expression->name, true, 0); break;
  default:
    put_expression(writer, expression->a);
    if (expression->kind != SYMBOLIC_NOT) put_expression(writer, expression->b);
  }
}

static void put_expressions(Writer *writer, const Symbolic *const *list, unsigned n)
{
  put(writer, n);
  for (unsigned i = 0; i < n; i++)
    put_expression(writer, list[i]);
}

/* ---- What an operator consists of ---- */

static void put_tensor(Writer *writer, const GraphTensor *tensor)
{
  const GraphTensor *named =
      tensor->whole ? tensor->whole : tensor; /* a part has the name of what it is written to */
  put_name(writer, writer->tensors, tensor->name, true, writer->graph->n_dims + named->index);
  put(writer, tensor->type);
  put(writer, tensor->kind == TENSOR_COMPUTED || tensor->written);
  put(writer, tensor->align);
  put_expressions(writer, tensor->shape, tensor->rank);
  put_expressions(writer, tensor->strides, tensor->rank);
  put_expression(writer, tensor->begins);
}

const GraphTensor *operator_copied(const Graph *graph, const GraphTensor *tensor)
{
  const GraphNode *node = tensor->producer;
  bool inserted = tensor->index >= graph->n_tensors && node && node->op->id == ONNX_Identity && !node->onnx;
  return inserted ? node->inputs[0] : NULL;
}

/* An input that is an inserted copy may be read where it was copied from (choose_few_rows). */
static void put_input(Writer *writer, const FusedInput *input, unsigned rank)
{
  const GraphTensor *copied = operator_copied(writer->graph, input->tensor);
  put_tensor(writer, input->tensor);
  put_expressions(writer, input->strides, rank);
  put(writer, copied != NULL);
  if (copied) put_tensor(writer, copied);
}

static void put_operand(Writer *writer, const FusedOperand *operand)
{
  put(writer, operand->kind);
  put(writer, operand->index);
  put_number(writer, operand->immediate);
  put(writer, operand->type);
}

static void put_attributes(Writer *writer, const GraphAttribute *attributes, unsigned n)
{
  put(writer, attributes ? n : 0);
  for (unsigned i = 0; attributes && i < n; i++) {
    put(writer, attributes[i].given);
    put(writer, attributes[i].integer);
    put_number(writer, attributes[i].number);
    put_text(writer, attributes[i].text);
    put(writer, attributes[i].n);
    for (unsigned j = 0; attributes[i].integers && j < attributes[i].n; j++)
      put(writer, attributes[i].integers[j]);
  }
}

static void put_step(Writer *writer, const FusedOperator *op, const FusedStep *step)
{
  put(writer, step->op);
  put_attributes(writer, step->attributes, operator_of(step->op)->n_attributes);
  put(writer, step->n_operands);
  for (unsigned i = 0; i < step->n_operands; i++)
    put_operand(writer, &step->operands[i]);
  put(writer, step->type);
  put(writer, step->compute);
  put(writer, fused_step_is_in_front(op, step));
  put(writer, fused_step_is_per_row(op, step));
  bool typed = step->node && step->node->outputs[0];
  put(writer, typed ? (int64_t)step->node->outputs[0]->type : -1);
}

static void put_output(Writer *writer, const FusedOutput *output, unsigned rank)
{
  put_tensor(writer, output->tensor);
  put_expressions(writer, output->strides, rank);
  put_operand(writer, &output->value);
  put(writer, output->anchor_output);
  put(writer, output->reduced);
  put(writer, output->by_rows);
  put(writer, output->reduction);
}

/* ---- What its family bound ---- */

static void visit_number(int64_t number, void *data)
{
  put(data, number);
}

static void visit_real(double number, void *data)
{
  put_number(data, number);
}

static void visit_expression(const Symbolic *expression, void *data)
{
  put_expression(data, expression);
}

static void visit_operand(const FusedOperand *operand, void *data)
{
  put_operand(data, operand);
}

static void put_anchor(Writer *writer, const GraphNode *anchor)
{
  put(writer, anchor->op->id);
  put_attributes(writer, anchor->attributes, anchor->op->n_attributes);
  put(writer, anchor->outputs[0] ? (int64_t)anchor->outputs[0]->type : -1);
  const GraphTensor *choices = graph_choices(anchor); /* what tiles are chosen for */
  put_expressions(writer, choices ? choices->shape : NULL, choices ? choices->rank : 0);
}

/* Which tensors are places of a state, or reversed: how far they lie apart stands among their strides. */
static void put_times(Writer *writer, const FusedOperator *op)
{
  put_text(writer, "times");
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs; i++) {
    const GraphTensor *tensor =
        i < op->n_inputs ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor;
    const GraphTime *time = graph_time_of(op->times, tensor);
    put(writer, time ? (int64_t)time->kind : -1);
  }
}

OperatorKey *operator_key(const FusedOperator *op, const Graph *graph)
{
  Writer writer = {graph, g_string_new(NULL), g_ptr_array_new(), g_ptr_array_new()};
  put(&writer, op->family->index);
  put_text(&writer, op->chain);
  put_expressions(&writer, op->dims, op->rank);
  if (op->anchor) put_anchor(&writer, op->anchor);
  const BindingVisitor visitor = {visit_number, visit_real, visit_expression, visit_operand, &writer};
  op->family->visit(op, &visitor);
  put(&writer, op->n_inputs);
  for (unsigned i = 0; i < op->n_inputs; i++)
    put_input(&writer, &op->inputs[i], op->rank);
  put(&writer, op->n_steps);
  for (unsigned i = 0; i < op->n_steps; i++)
    put_step(&writer, op, &op->steps[i]);
  put(&writer, op->n_outputs);
  for (unsigned i = 0; i < op->n_outputs; i++)
    put_output(&writer, &op->outputs[i], op->rank);
  if (op->times) put_times(&writer, op);
  OperatorKey *key = g_new0(OperatorKey, 1);
  *key = (OperatorKey){g_string_free(writer.text, FALSE), writer.symbols, writer.tensors};
  return key;
}

void operator_key_free(OperatorKey *key)
{
  if (!key) return;
  g_free(key->text);
  g_ptr_array_unref(key->symbols);
  g_ptr_array_unref(key->tensors);
  g_free(key);
}

char *operator_key_digits(const OperatorKey *key, unsigned n)
{
  char *digits = g_compute_checksum_for_string(G_CHECKSUM_SHA256, key->text, -1);
  digits[MIN(n, strlen(digits))] = '\0';
  return digits;
}
