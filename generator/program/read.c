/* Programs from text: what print.c writes. One line an item; ";" begins a comment. */
#include "generator/program/program.h"
#include "generator/program/text.h"
#include <string.h>

#define MAX_NODES 4096

typedef struct {
  Program *program;
  Source *source;
  const char *at, *line;      /* next character; where its line begins */
  unsigned number;            /* of the line */
  GPtrArray *tensors, *names; /* GraphTensor, and what it is called */
  GArray *nodes;
  GError **error;
} Reader;

static Mark here(const Reader *reader)
{
  return (Mark){reader->source, reader->number, (unsigned)(reader->at - reader->line) + 1};
}

static bool fail(const Reader *reader, const char *format, ...) G_GNUC_PRINTF(2, 3);

static bool fail(const Reader *reader, const char *format, ...)
{
  Mark mark = here(reader);
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *what = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_set(reader->error, ERROR_INPUT, &mark, "program-text", "docs/program.md has the grammar", "%s", what);
  return false;
}

/* ---- words ---- */

static void skip_blanks(Reader *reader)
{
  while (*reader->at == ' ' || *reader->at == '\t')
    reader->at++;
  if (*reader->at == ';') reader->at += strcspn(reader->at, "\n");
}

static bool accept(Reader *reader, const char *token)
{
  skip_blanks(reader);
  size_t n = strlen(token);
  if (strncmp(reader->at, token, n) != 0) return false;
  if (program_name_character(token[n - 1]) && program_name_character(reader->at[n])) return false;
  reader->at += n;
  return true;
}

static bool expect(Reader *reader, const char *token)
{
  return accept(reader, token) || fail(reader, "`%s` is wanted here", token);
}

static bool at_line_end(Reader *reader)
{
  skip_blanks(reader);
  return *reader->at == '\n' || *reader->at == '\0';
}

static const char *read_quoted(Reader *reader)
{
  const char *begin = reader->at + 1, *end = begin;
  while (*end && *end != '"' && *end != '\n')
    end += end[0] == '\\' && end[1] && end[1] != '\n' ? 2 : 1;
  if (*end != '"') {
    fail(reader, "the name has no end");
    return NULL;
  }
  g_autofree char *text = g_strndup(begin, (gsize)(end - begin)), *name = g_strcompress(text);
  reader->at = end + 1;
  return arena_strdup(reader->program->arena, name);
}

/* A name, with the number of a view behind it if there is one. */
static const char *read_name(Reader *reader, bool numbered)
{
  skip_blanks(reader);
  const char *begin = reader->at, *name;
  if (*begin == '"') {
    name = read_quoted(reader);
  } else {
    while (program_name_character(*reader->at))
      reader->at++;
    name = arena_strndup(reader->program->arena, begin, (size_t)(reader->at - begin));
  }
  if (name && !*name) {
    fail(reader, "a name is wanted here");
    return NULL;
  }
  if (!name || !numbered || *reader->at != '#') return name;
  begin = reader->at++;
  while (g_ascii_isdigit(*reader->at))
    reader->at++;
  return arena_printf(reader->program->arena, "%s%.*s", name, (int)(reader->at - begin), begin);
}

static bool read_unsigned(Reader *reader, unsigned *value)
{
  skip_blanks(reader);
  char *end;
  guint64 number = g_ascii_isdigit(*reader->at) ? g_ascii_strtoull(reader->at, &end, 10) : MAX_NODES;
  if (number >= MAX_NODES) return fail(reader, "a number below %d is wanted here", MAX_NODES);
  reader->at = end;
  *value = (unsigned)number;
  return true;
}

static bool read_number(Reader *reader, double *value)
{
  char *end;
  skip_blanks(reader);
  *value = g_ascii_strtod(reader->at, &end);
  if (end == reader->at) return fail(reader, "a number is wanted here");
  reader->at = end;
  return true;
}

static bool read_type(Reader *reader, NumberType *type)
{
  const char *name = read_name(reader, false);
  if (!name) return false;
  return number_parse(name, type) || fail(reader, "`%s` is no type", name);
}

/* Up to a comma, a closing bracket or the end of the line, all outside of parentheses; or to a word. */
static const Symbolic *read_expression(Reader *reader, const char *word)
{
  skip_blanks(reader);
  const char *end = reader->at;
  for (unsigned depth = 0; *end && *end != '\n' && *end != ';'; end++) {
    if (*end == '(') depth++;
    if (*end == ')' && depth) depth--;
    if (!depth && (*end == ',' || *end == ']')) break;
    if (!depth && word && g_str_has_prefix(end, word)) break;
  }
  g_autofree char *text = g_strndup(reader->at, (gsize)(end - reader->at));
  Mark mark = here(reader);
  const Symbolic *expression = symbolic_parse(reader->program->arena, g_strchomp(text), &mark, reader->error);
  reader->at = end;
  return expression;
}

static bool read_list(Reader *reader, const Symbolic **list, unsigned *n)
{
  *n = 0;
  if (!expect(reader, "[")) return false;
  if (accept(reader, "]")) return true;
  do {
    if (*n == GRAPH_MAX_RANK) return fail(reader, "more than %d dimensions", GRAPH_MAX_RANK);
    if (!(list[(*n)++] = read_expression(reader, NULL))) return false;
  } while (accept(reader, ","));
  return expect(reader, "]");
}

/* ---- declarations ---- */

static bool read_tensor(Reader *reader)
{
  Arena *arena = reader->program->arena;
  GraphTensor *tensor = arena_new_object(arena, GraphTensor);
  unsigned n;
  tensor->mark = here(reader);
  const char *name = read_name(reader, true);
  if (!name || !expect(reader, ":") || !read_type(reader, &tensor->type)) return false;
  if (!read_list(reader, tensor->shape, &tensor->rank)) return false;
  for (unsigned i = 0; i < reader->names->len; i++)
    if (!strcmp(reader->names->pdata[i], name)) return fail(reader, "`%s` is declared already", name);
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned d = tensor->rank; d-- > 0;) {
    tensor->strides[d] = stride;
    stride = symbolic_mul(arena, stride, tensor->shape[d]);
  }
  if (accept(reader, "strides")) {
    if (!read_list(reader, tensor->strides, &n)) return false;
    if (n != tensor->rank) return fail(reader, "%u strides of %u dimensions", n, tensor->rank);
  }
  if (accept(reader, "from") && !(tensor->begins = read_expression(reader, NULL))) return false;
  tensor->name = arena_strndup(arena, name, strcspn(name, "#"));
  tensor->index = reader->tensors->len;
  tensor->align = 16;
  g_ptr_array_add(reader->tensors, tensor);
  g_ptr_array_add(reader->names, (void *)name);
  return true;
}

static bool read_reference(Reader *reader, unsigned *node)
{
  return expect(reader, "%") && read_unsigned(reader, node);
}

static bool read_axis(Reader *reader)
{
  Program *program = reader->program;
  if (program->n_axes == PROGRAM_MAX_AXES) return fail(reader, "more than %d axes", PROGRAM_MAX_AXES);
  ProgramAxis axis = {.length = PROGRAM_NONE};
  unsigned length;
  if (!(axis.name = read_name(reader, false)) || !expect(reader, ":")) return false;
  for (unsigned i = 0; i < program->n_axes; i++)
    if (!strcmp(program->axes[i].name, axis.name)) return fail(reader, "axis %s is there already", axis.name);
  if (!(axis.extent = read_expression(reader, "length"))) return false;
  if (accept(reader, "length")) {
    if (!read_reference(reader, &length)) return false;
    axis.length = (int)length;
  }
  axis.symbol = symbolic_symbol(program->arena, axis.name);
  program->axes[program->n_axes++] = axis;
  return true;
}

/* ---- nodes ---- */

static bool read_access(Reader *reader, ProgramAccess *access)
{
  const char *name = read_name(reader, true);
  if (!name) return false;
  for (unsigned i = 0; i < reader->names->len; i++)
    if (!strcmp(reader->names->pdata[i], name)) access->tensor = reader->tensors->pdata[i];
  if (!access->tensor) return fail(reader, "`%s` is no tensor of the program", name);
  if (!expect(reader, "[")) return false;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    ProgramIndex *index = &access->at[d];
    unsigned node;
    if (d && !expect(reader, ",")) return false;
    *index = (ProgramIndex){symbolic_constant(reader->program->arena, 0), PROGRAM_NONE};
    skip_blanks(reader);
    bool loaded = *reader->at == '%';
    if (loaded && !read_reference(reader, &node)) return false;
    if (loaded && node >= reader->nodes->len) return fail(reader, "%%%u is no node before it", node);
    if (loaded) index->node = (int)node;
    if (loaded && !accept(reader, "+")) continue;
    if (!(index->of_axes = read_expression(reader, NULL))) return false;
  }
  if (!expect(reader, "]")) return false;
  if (accept(reader, "skip")) access->outside = OUTSIDE_SKIP;
  if (!accept(reader, "fill")) return true;
  access->outside = OUTSIDE_FILL;
  return read_number(reader, &access->fill);
}

static NumberType held_in(const ProgramNode *node)
{
  switch (node->kind) {
  case NODE_READ:
  case NODE_INDEX: return node->type;
  case NODE_MAP: return program_compute(node->type);
  case NODE_REDUCE:
  case NODE_SCAN:
  case NODE_WRITE: break;
  }
  return node->compute;
}

static bool read_value(Reader *reader, ProgramValue *value)
{
  *value = (ProgramValue){.kind = VALUE_ABSENT};
  skip_blanks(reader);
  if (*reader->at == '%') {
    value->kind = VALUE_NODE;
    if (!read_reference(reader, &value->node)) return false;
    if (value->node >= reader->nodes->len) return fail(reader, "%%%u is no node before it", value->node);
    value->type = held_in(&g_array_index(reader->nodes, ProgramNode, value->node));
    if (*reader->at != '.') return true;
    reader->at++;
    return read_unsigned(reader, &value->result);
  }
  if (reader->at[0] == '-' && (reader->at[1] == ',' || reader->at[1] == ')')) {
    reader->at++;
    return true;
  }
  value->kind = VALUE_IMMEDIATE;
  return read_number(reader, &value->immediate) && expect(reader, ":") && read_type(reader, &value->type);
}

static bool read_values(Reader *reader, ProgramNode *node)
{
  g_autoptr(GArray) values = g_array_new(FALSE, FALSE, sizeof(ProgramValue));
  do {
    ProgramValue value;
    if (!read_value(reader, &value)) return false;
    g_array_append_val(values, value);
  } while (accept(reader, ","));
  node->n_operands = values->len;
  node->operands = arena_memdup(reader->program->arena, values->data, values->len * sizeof(ProgramValue));
  return true;
}

static bool read_attributes(Reader *reader, ProgramNode *node)
{
  const Operator *row = operator_of(node->op);
  GraphAttribute *attributes = arena_new_array(reader->program->arena, GraphAttribute, row->n_attributes);
  for (unsigned i = 0; i < row->n_attributes; i++) {
    const OperatorAttribute *declared = &row->attributes[i];
    bool type = declared->kind == ATTRIBUTE_TYPE;
    attributes[i] = (GraphAttribute){.integer = type ? (int64_t)node->type : declared->integer,
                                     .number = declared->number,
                                     .text = declared->text};
  }
  node->attributes = row->n_attributes ? attributes : NULL;
  while (!at_line_end(reader)) {
    const char *name = read_name(reader, false);
    int i = name ? operator_attribute_index(row, name) : -1;
    double number = 0;
    if (!name) return false;
    if (i < 0) return fail(reader, "%s has no attribute `%s`", row->name, name);
    if (!expect(reader, "=")) return false;
    if (row->attributes[i].kind == ATTRIBUTE_STRING) {
      if (!(attributes[i].text = read_name(reader, false))) return false;
      continue;
    }
    if (!read_number(reader, &number)) return false;
    attributes[i].number = number;
    attributes[i].integer = (int64_t)CLAMP(number, -0x1p62, 0x1p62);
  }
  return true;
}

static bool read_map(Reader *reader, ProgramNode *node)
{
  const Operator *newer;
  node->kind = NODE_MAP;
  const char *name = read_name(reader, false);
  const Operator *row = name ? operator_find("", name, OPERATOR_OPSET_DEFAULT, &newer) : NULL;
  if (!name) return false;
  if (!row) return fail(reader, "`%s` is no operator", name);
  node->op = row->id;
  return expect(reader, "(") && read_values(reader, node) && expect(reader, ")") && expect(reader, "in") &&
         read_type(reader, &node->compute) && read_attributes(reader, node);
}

static bool read_axes(Reader *reader, uint32_t *axes)
{
  const Program *program = reader->program;
  if (!expect(reader, "{")) return false;
  if (accept(reader, "}")) return true;
  do {
    const char *name = read_name(reader, false);
    unsigned i = 0;
    while (name && i < program->n_axes && strcmp(program->axes[i].name, name) != 0)
      i++;
    if (!name) return false;
    if (i == program->n_axes) return fail(reader, "`%s` is no axis of the program", name);
    *axes |= 1u << i;
  } while (accept(reader, ","));
  return expect(reader, "}");
}

static bool read_reduction(Reader *reader, ProgramReduction *reduction)
{
  const char *name = read_name(reader, false);
  if (!name) return false;
  return program_reduction_parse(name, reduction) || fail(reader, "`%s` is no reduction", name);
}

static bool read_write(Reader *reader, ProgramNode *node)
{
  node->kind = NODE_WRITE;
  if (!read_access(reader, &node->access)) return false;
  node->type = node->compute = node->access.tensor->type;
  skip_blanks(reader);
  node->combines = *reader->at != '=';
  if (node->combines && !read_reduction(reader, &node->reduction)) return false;
  return expect(reader, "=") && read_values(reader, node);
}

/* %3: f32 = ... */
static bool read_computed(Reader *reader, ProgramNode *node)
{
  unsigned number;
  if (!read_unsigned(reader, &number)) return false;
  if (number != reader->nodes->len) return fail(reader, "this is node %%%u", reader->nodes->len);
  if (!expect(reader, ":") || !read_type(reader, &node->type) || !expect(reader, "=")) return false;
  node->compute = node->type;
  if (accept(reader, "map")) return read_map(reader, node);
  if (accept(reader, "read")) {
    node->kind = NODE_READ;
    if (!read_access(reader, &node->access)) return false;
    return node->type == node->access.tensor->type || fail(reader, "a value read has its tensor's type");
  }
  if (accept(reader, "index")) {
    node->kind = NODE_INDEX;
    return (node->index = read_expression(reader, NULL)) != NULL;
  }
  bool scan = accept(reader, "scan");
  if (!scan && !accept(reader, "reduce"))
    return fail(reader, "read, index, map, reduce or scan is wanted here");
  node->kind = scan ? NODE_SCAN : NODE_REDUCE;
  if (!read_reduction(reader, &node->reduction)) return false;
  node->exclusive = scan && accept(reader, "exclusive");
  node->reverse = scan && accept(reader, "reverse");
  return read_axes(reader, &node->axes) && read_values(reader, node);
}

static bool read_line(Reader *reader)
{
  if (at_line_end(reader)) return true;
  if (accept(reader, "tensor")) return read_tensor(reader);
  if (accept(reader, "axis")) return read_axis(reader);
  ProgramNode node = {.mark = here(reader)};
  bool ok = accept(reader, "write") ? read_write(reader, &node)
            : accept(reader, "%")   ? read_computed(reader, &node)
                                    : fail(reader, "tensor, axis, write or a node is wanted here");
  if (reader->nodes->len == MAX_NODES) return fail(reader, "more than %d nodes", MAX_NODES);
  if (ok) g_array_append_val(reader->nodes, node);
  return ok;
}

static bool read_lines(Reader *reader)
{
  if (!expect(reader, "program") || !(reader->program->name = read_name(reader, false))) return false;
  for (;;) {
    if (!at_line_end(reader)) return fail(reader, "the line has more than is understood");
    if (!*reader->at) return true;
    reader->line = ++reader->at;
    reader->number++;
    if (!read_line(reader)) return false;
  }
}

Program *program_read(Arena *arena, Source *source, GError **error)
{
  Program *program = arena_new_object(arena, Program);
  program->arena = arena;
  g_autoptr(GPtrArray) tensors = g_ptr_array_new(), names = g_ptr_array_new();
  g_autoptr(GArray) nodes = g_array_new(FALSE, FALSE, sizeof(ProgramNode));
  Reader reader = {.program = program,
                   .source = source,
                   .at = source->text,
                   .line = source->text,
                   .number = 1,
                   .tensors = tensors,
                   .names = names,
                   .nodes = nodes,
                   .error = error};
  if (!read_lines(&reader)) return NULL;
  program->n_nodes = nodes->len;
  program->nodes = arena_memdup(arena, nodes->data, nodes->len * sizeof(ProgramNode));
  program_settle(program);
  return program_verify(program, ERROR_INPUT, error) ? program : NULL;
}
