/* What the module's .target and .version have: an instruction that they lack is an error of the text, as it
 * is for the assembler. The rows stand in adl/instructions.yaml, targets and their first versions in
 * adl/targets.yaml. */
#include "simulator/requirements.h"
#include "base/data.h"
#include "base/document.h"
#include <math.h>
#include <string.h>

#define INSTRUCTIONS "adl/instructions.yaml"
#define TARGETS      "adl/targets.yaml"
#define MOST_FAULTS  20

typedef struct {
  char **opcodes; /* each of one or more parts; "*": any */
  char **words;   /* all must stand behind the opcode */
  const char *target;
  const Node *only; /* the list that target names; NULL: target is the first of all */
  unsigned version; /* major * 10 + minor */
  const char *until;
} Row;

typedef struct {
  const PtxModule *module;
  Document *document;
  GPtrArray *rows;     /* Row */
  GHashTable *by_name; /* first part of an opcode -> GPtrArray of Row */
  unsigned n_faults;
  GError **error;
} Checker;

static unsigned target_number(const char *target)
{
  return (unsigned)g_ascii_strtoull(target + strcspn(target, "0123456789"), NULL, 10);
}

/* ---- the table ---- */

static unsigned version_of(const char *text)
{
  return (unsigned)lround(g_ascii_strtod(text, NULL) * 10);
}

static void row_free(void *data)
{
  Row *row = data;
  g_strfreev(row->opcodes);
  g_strfreev(row->words);
  g_free(row);
}

static void index_row(Checker *c, Row *row)
{
  for (char **opcode = row->opcodes; *opcode; opcode++) {
    g_autofree char *first = g_strndup(*opcode, strcspn(*opcode, "."));
    GPtrArray *rows = g_hash_table_lookup(c->by_name, first);
    if (!rows) g_hash_table_insert(c->by_name, g_strdup(first), rows = g_ptr_array_new());
    if (!rows->len || rows->pdata[rows->len - 1] != row) g_ptr_array_add(rows, row);
  }
}

static bool add_row(Checker *c, Node *node, Node *only)
{
  Node *list = node->kind == NODE_MAPPING ? node_require(node, "row", c->error) : node;
  if (!list || !node_kind_is(list, NODE_SEQUENCE, "a row", c->error)) return false;
  for (unsigned i = 0; i < list->n; i++)
    if (list->n != 4 || list->items[i]->kind != NODE_SCALAR) {
      error_set(c->error, ERROR_INPUT, &list->mark, "wrong-type", NULL,
                "a row is opcode, words, target, PTX version");
      return false;
    }
  Node *until = node->kind == NODE_MAPPING ? node_get(node, "until") : NULL;
  Row *row = g_new0(Row, 1);
  row->opcodes = g_strsplit(list->items[0]->text, "|", -1);
  row->words = g_strsplit(list->items[1]->text, " ", -1);
  row->target = list->items[2]->text;
  row->only = only && only->kind == NODE_MAPPING ? node_get(only, row->target) : NULL;
  row->version = version_of(list->items[3]->text);
  row->until = until && until->kind == NODE_SCALAR ? until->text : NULL;
  g_ptr_array_add(c->rows, row);
  index_row(c, row);
  return true;
}

static bool load_rows(Checker *c)
{
  g_autoptr(Source) source = data_load(INSTRUCTIONS, c->error);
  c->document = source ? document_parse(source, c->error) : NULL;
  if (!c->document) return false;
  Node *root = document_root(c->document);
  if (!node_kind_is(root, NODE_MAPPING, INSTRUCTIONS, c->error)) return false;
  Node *rows = node_require(root, "rows", c->error), *only = node_get(root, "only");
  if (!rows || !node_kind_is(rows, NODE_SEQUENCE, "rows", c->error)) return false;
  for (unsigned i = 0; i < rows->n; i++)
    if (!add_row(c, rows->items[i], only)) return false;
  return true;
}

/* ---- does a row fit? ---- */

/* Do the parts begin with the text's own, which dots divide? Gives their number, 0 if not. */
static unsigned parts_at(const char *const *parts, unsigned n, const char *text, size_t length)
{
  unsigned used = 0;
  for (const char *p = text, *end = text + length; p < end; used++) {
    const char *dot = memchr(p, '.', (size_t)(end - p));
    size_t part = (size_t)((dot ? dot : end) - p);
    if (used >= n || strlen(parts[used]) != part || memcmp(parts[used], p, part)) return 0;
    p += part + (dot ? 1 : 0);
  }
  return used;
}

static bool stands(const char *const *parts, unsigned n, const char *text, size_t length)
{
  for (unsigned i = 0; i < n; i++)
    if (parts_at(parts + i, n - i, text, length)) return true;
  return false;
}

/* What a word says of the operands: "#3" so many at least, "#_" no result, "#p" a predicate at the end. */
static bool operands_fit(char what, const PtxInstruction *in)
{
  if (!in || !in->n_operands) return false;
  const PtxOperand *first = &in->operands[0], *last = &in->operands[in->n_operands - 1];
  if (what == '_') return first->kind == OPERAND_SINK;
  if (what == 'p') return last->kind == OPERAND_REGISTER && last->symbol->type == TYPE_PRED;
  return in->n_operands >= (unsigned)(what - '0');
}

/* One word of a row: "#3", "!a", "a|b", "a.b". */
static bool word_fits(const char *word, const char *const *parts, unsigned n, const PtxInstruction *in)
{
  if (!*word) return true;
  if (*word == '#') return operands_fit(word[1], in);
  if (*word == '!') return !stands(parts, n, word + 1, strlen(word + 1));
  for (const char *p = word;; p++) {
    size_t length = strcspn(p, "|");
    if (stands(parts, n, p, length)) return true;
    p += length;
    if (!*p) return false;
  }
}

/* in: NULL where the parts are not an instruction's. */
static bool row_fits(const Row *row, const char *const *parts, unsigned n, const PtxInstruction *in)
{
  unsigned skipped = 0;
  for (char **opcode = row->opcodes; *opcode && !skipped; opcode++)
    skipped = strcmp(*opcode, "*") ? parts_at(parts, n, *opcode, strlen(*opcode)) : 1;
  if (!skipped) return false;
  for (char **word = row->words; *word; word++)
    if (!word_fits(*word, parts + skipped, n - skipped, in)) return false;
  return true;
}

/* ---- does the target have it? ---- */

static bool target_has(const Row *row, const char *target)
{
  if (!row->only) return target_number(target) >= target_number(row->target);
  for (unsigned i = 0; i < row->only->n; i++)
    if (row->only->items[i]->text && !strcmp(row->only->items[i]->text, target)) return true;
  return false;
}

static char *targets_text(const Row *row)
{
  if (!row->only) return g_strdup_printf("%s or later", row->target);
  g_autoptr(GString) text = g_string_new(NULL);
  for (unsigned i = 0; i < row->only->n; i++)
    g_string_append_printf(text, "%s%s", i ? ", " : "", row->only->items[i]->text);
  return g_string_free(g_steal_pointer(&text), FALSE);
}

/* Says what the row asks for and the module has not; false if it said so. */
static bool row_met(Checker *c, const Row *row, const Mark *mark, const char *what)
{
  const char *target = c->module->target;
  if (row->until && target_number(target) >= target_number(row->until)) return true;
  if (!target_has(row, target)) {
    g_autofree char *able = targets_text(row);
    error_add(c->error, ERROR_INPUT, SEVERITY_ERROR, mark, "ptx-target", NULL,
              "`%s` needs .target %s, not %s", what, able, target);
  } else if (c->module->version < row->version) {
    error_add(c->error, ERROR_INPUT, SEVERITY_ERROR, mark, "ptx-version", NULL,
              "`%s` needs .version %u.%u or later, not %u.%u", what, row->version / 10, row->version % 10,
              c->module->version / 10, c->module->version % 10);
  } else {
    return true;
  }
  c->n_faults++;
  return false;
}

/* Checks against the rows under a name; false at the first that is not met. */
static bool rows_met(Checker *c, const char *name, const char *const *parts, unsigned n,
                     const PtxInstruction *in, const Mark *mark)
{
  const GPtrArray *rows = g_hash_table_lookup(c->by_name, name);
  for (guint i = 0; rows && i < rows->len; i++)
    if (row_fits(rows->pdata[i], parts, n, in) && !row_met(c, rows->pdata[i], mark, in ? in->text : name))
      return false;
  return true;
}

static void check_operand(Checker *c, const PtxOperand *o)
{
  const PtxSymbol *symbol = o->symbol;
  if (symbol && symbol->is_special) {
    g_autofree char *name = g_strndup(symbol->name, strcspn(symbol->name, "."));
    const char *parts[] = {name};
    rows_met(c, name, parts, 1, NULL, &o->mark);
  }
  for (unsigned i = 0; i < o->n; i++)
    check_operand(c, &o->items[i]);
}

static void check_instruction(Checker *c, const PtxInstruction *in)
{
  bool met = rows_met(c, in->parts[0], in->parts, in->n_parts, in, &in->mark);
  if (met) rows_met(c, "*", in->parts, in->n_parts, in, &in->mark);
  for (unsigned i = 0; i < in->n_operands; i++)
    check_operand(c, &in->operands[i]);
}

/* ---- the module ---- */

/* A target newer than all that are known may be right, but cannot be judged. */
static bool refuse_target(const char *target, const Node *targets, const Mark *mark, GError **error)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  unsigned newest = 0;
  for (unsigned i = 0; i < targets->n; i++) {
    if (g_str_has_prefix(targets->keys[i], "sm_")) g_ptr_array_add(names, (void *)targets->keys[i]);
    newest = MAX(newest, target_number(targets->keys[i]));
  }
  g_ptr_array_add(names, NULL);
  const char *near = nearest_name(target, (const char *const *)names->pdata);
  g_autofree char *list = g_strjoinv(", ", (char **)names->pdata);
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean `%s`? Known: %s", near, list) : g_strdup_printf("known: %s", list);
  if (target_number(target) > newest)
    error_set(error, ERROR_UNSUPPORTED, mark, "ptx-target", hint,
              ".target %s is newer than all that are known", target);
  else
    error_set(error, ERROR_INPUT, mark, "ptx-target", hint, "no .target is called %s", target);
  return false;
}

/* The target is known, and the version has it. */
static bool check_header(const PtxModule *m, const Mark *mark, GError **error)
{
  g_autoptr(Source) source = data_load(TARGETS, error);
  g_autoptr(Document) document = source ? document_parse(source, error) : NULL;
  Node *targets = document ? node_require(document_root(document), "targets", error) : NULL;
  if (!targets || !node_kind_is(targets, NODE_MAPPING, "targets", error)) return false;
  Node *row = node_get(targets, m->target);
  if (!row) return refuse_target(m->target, targets, mark, error);
  Node *first = row->kind == NODE_MAPPING ? node_get(row, "value") : row;
  unsigned version = first && first->kind == NODE_SCALAR ? version_of(first->text) : 0;
  if (m->version >= version) return true;
  error_set(error, ERROR_INPUT, mark, "ptx-version", NULL,
            ".target %s needs .version %u.%u or later, not %u.%u", m->target, version / 10, version % 10,
            m->version / 10, m->version % 10);
  return false;
}

bool requirements_check(const PtxModule *module, const Mark *target, GError **error)
{
  if (!check_header(module, target, error)) return false;
  Checker c = {.module = module,
               .rows = g_ptr_array_new_with_free_func(row_free),
               .by_name =
                   g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref),
               .error = error};
  bool ok = load_rows(&c);
  for (unsigned f = 0; ok && f < module->n_functions; f++)
    for (unsigned i = 0; i < module->functions[f]->n_code && c.n_faults < MOST_FAULTS; i++)
      check_instruction(&c, &module->functions[f]->code[i]);
  document_free(c.document);
  g_hash_table_unref(c.by_name);
  g_ptr_array_unref(c.rows);
  return ok && !c.n_faults;
}
