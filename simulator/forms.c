/* An instruction without a modifier that it must have, or with one that it has not for its type, is an error of the text,
 * as it is for the assembler: the handlers, which take what they know, would guess what was meant. */
#include "simulator/forms.h"
#include "base/data.h"
#include "base/document.h"
#include <string.h>

#define FORMS       "adl/forms.yaml"
#define NEWEST      90 /* version of PTX that the rows were found with */
#define MOST_FAULTS 20
#define MOST_PARTS  16
#define MOST_TYPES  3

typedef struct Row {
  char **types;  /* "f32", "f32.f16" */
  char **slots;  /* as the file has them */
  char *pattern; /* all slots, for messages */
} Row;

struct Forms {
  Document *document;
  GHashTable *by_opcode; /* -> GPtrArray of Row */
  GPtrArray *rows;
  GHashTable *unlisted;
  GHashTable *held, *held_types; /* opcodes and types whose operands are registers */
};

/* ---- the table ---- */

static void row_free(void *memory)
{
  Row *row = memory;
  g_strfreev(row->types);
  g_strfreev(row->slots);
  g_free(row->pattern);
  g_free(row);
}

static bool add_row(Forms *f, Node *node, GError **error)
{
  g_auto(GStrv) parts = g_strsplit(node->kind == NODE_SCALAR ? node->text : "", ";", -1);
  const unsigned n = g_strv_length(parts);
  if (n != 2 && n != 3) {
    error_set(error, ERROR_INPUT, &node->mark, "wrong-type", NULL, "a row is opcodes; types; modifiers");
    return false;
  }
  Row *row = g_new0(Row, 1);
  row->types = g_strsplit(g_strstrip(parts[1]), " ", -1);
  row->pattern = g_strdup(n == 3 ? g_strstrip(parts[2]) : "");
  row->slots = g_strsplit(row->pattern, " ", -1);
  g_ptr_array_add(f->rows, row);
  g_auto(GStrv) opcodes = g_strsplit(g_strstrip(parts[0]), "|", -1);
  for (char **opcode = opcodes; *opcode; opcode++) {
    GPtrArray *rows = g_hash_table_lookup(f->by_opcode, *opcode);
    if (!rows) g_hash_table_insert(f->by_opcode, g_strdup(*opcode), rows = g_ptr_array_new());
    g_ptr_array_add(rows, row);
  }
  return true;
}

static bool read_words(Node *root, const char *name, GHashTable *words, GError **error)
{
  Node *list = node_require(root, name, error);
  if (!list || !node_kind_is(list, NODE_SEQUENCE, name, error)) return false;
  for (unsigned i = 0; i < list->n; i++)
    if (list->items[i]->kind == NODE_SCALAR) g_hash_table_add(words, (void *)list->items[i]->text);
  return true;
}

static bool read_table(Forms *f, GError **error)
{
  g_autoptr(Source) source = data_load(FORMS, error);
  f->document = source ? document_parse(source, error) : NULL;
  Node *root = f->document ? document_root(f->document) : NULL;
  if (!root || !node_kind_is(root, NODE_MAPPING, FORMS, error)) return false;
  Node *rows = node_require(root, "rows", error),
       *held = rows ? node_require(root, "registers", error) : NULL;
  if (!held || !node_kind_is(rows, NODE_SEQUENCE, "rows", error) ||
      !node_kind_is(held, NODE_MAPPING, "registers", error) ||
      !read_words(root, "unlisted", f->unlisted, error) || !read_words(held, "opcodes", f->held, error) ||
      !read_words(held, "types", f->held_types, error))
    return false;
  for (unsigned i = 0; i < rows->n; i++)
    if (!add_row(f, rows->items[i], error)) return false;
  return true;
}

Forms *forms_load(GError **error)
{
  Forms *f = g_new0(Forms, 1);
  f->by_opcode = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref);
  f->rows = g_ptr_array_new_with_free_func(row_free);
  f->unlisted = g_hash_table_new(g_str_hash, g_str_equal);
  f->held = g_hash_table_new(g_str_hash, g_str_equal);
  f->held_types = g_hash_table_new(g_str_hash, g_str_equal);
  if (read_table(f, error)) return f;
  forms_free(f);
  return NULL;
}

void forms_free(Forms *forms)
{
  if (!forms) return;
  g_hash_table_unref(forms->by_opcode);
  g_hash_table_unref(forms->unlisted);
  g_hash_table_unref(forms->held);
  g_hash_table_unref(forms->held_types);
  g_ptr_array_unref(forms->rows);
  document_free(forms->document);
  g_free(forms);
}

/* ---- does a row fit? ---- */

/* An instruction taken apart: its types in their order, and its modifiers. */
typedef struct Words {
  const char *types[MOST_TYPES], *modifiers[MOST_PARTS];
  unsigned n_types, n_modifiers;
  bool leads; /* a modifier stands first */
} Words;

/* false: an instruction that has no row can be so long. */
static bool split(const char *const *parts, unsigned n, Words *words)
{
  *words = (Words){0};
  if (n > MOST_PARTS) return false;
  words->leads = n > 1 && ptx_type_parse(parts[1]) == TYPE_NONE;
  for (unsigned i = 1; i < n; i++) {
    if (ptx_type_parse(parts[i]) == TYPE_NONE)
      words->modifiers[words->n_modifiers++] = parts[i];
    else if (words->n_types < MOST_TYPES)
      words->types[words->n_types++] = parts[i];
    else
      return false;
  }
  return true;
}

static bool types_fit(const Row *row, const Words *words)
{
  g_autoptr(GString) text = g_string_new(NULL);
  for (unsigned i = 0; i < words->n_types; i++)
    g_string_append_printf(text, "%s%s", i ? "." : "", words->types[i]);
  return g_strv_contains((const char *const *)row->types, text->str);
}

/* Bits of the modifiers that are `a`, or, of `a+b`, those two; 0: they do not stand there. */
static unsigned find(const Words *words, const char *choice, size_t length)
{
  unsigned found = 0;
  for (const char *p = choice, *end = choice + length; p < end;) {
    size_t n = strcspn(p, "+|? ");
    unsigned i = 0;
    while (i < words->n_modifiers &&
           (strlen(words->modifiers[i]) != n || memcmp(words->modifiers[i], p, n) != 0))
      i++;
    if (i == words->n_modifiers) return 0;
    found |= 1u << i;
    p += n + 1;
  }
  return found;
}

/* Each slot takes one choice at most; nothing may be left. */
static bool slots_fit(const Row *row, const Words *words)
{
  unsigned taken = 0;
  for (char **slot = row->slots; *slot && **slot; slot++) {
    if (!strcmp(*slot, "*")) return true;
    unsigned found = 0;
    const bool leads = **slot == '^';
    for (const char *p = *slot + leads; *p && *p != '?' && !found; p += *p == '|') {
      size_t n = strcspn(p, "|?");
      found = find(words, p, n);
      p += n;
    }
    if (leads && found && (found != 1 || !words->leads)) return false;
    if (!found && !g_str_has_suffix(*slot, "?")) return false;
    taken |= found;
  }
  return taken == (1u << words->n_modifiers) - 1;
}

/* ---- judging ---- */

static const GPtrArray *rows_of(const Forms *forms, const char *const *parts, unsigned n)
{
  for (unsigned i = 1; i < n; i++)
    if (g_hash_table_contains(forms->unlisted, parts[i])) return NULL;
  return g_hash_table_lookup(forms->by_opcode, parts[0]);
}

bool forms_have(const Forms *forms, const char *const *parts, unsigned n)
{
  const GPtrArray *rows = rows_of(forms, parts, n);
  Words words;
  if (!rows) return true;
  if (!split(parts, n, &words)) return false;
  for (guint i = 0; i < rows->len; i++)
    if (types_fit(rows->pdata[i], &words) && slots_fit(rows->pdata[i], &words)) return true;
  return false;
}

/* What there is with these types, or the types there are. */
static char *hint_of(const Forms *forms, const PtxInstruction *in)
{
  const GPtrArray *rows = rows_of(forms, in->parts, in->n_parts);
  g_autoptr(GString) text = g_string_new(NULL), types = g_string_new(NULL);
  Words words;
  bool is_short = split(in->parts, in->n_parts, &words);
  for (guint i = 0; i < rows->len; i++) {
    const Row *row = rows->pdata[i];
    g_autofree char *all = g_strjoinv(" ", row->types);
    if (types->len < 120) g_string_append_printf(types, "%s%s", types->len ? " " : "", all);
    if (!is_short || !types_fit(row, &words)) continue;
    g_string_append_printf(text, "%s%s", text->len ? ", or " : "", *row->pattern ? row->pattern : "none");
  }
  if (text->len)
    return g_strdup_printf("modifiers with this type: %s (? may be left out, ^ stands first)", text->str);
  return g_strdup_printf("types: %s%s", types->str, types->len < 120 ? "" : " ...");
}

/* Words that PTX has nowhere are reported where the instruction is decoded. */
static bool knows_words(const PtxInstruction *in)
{
  for (unsigned i = 1; i < in->n_parts; i++)
    if (!ptx_is_modifier(in->parts[i])) return false;
  return true;
}

/* A constant where only a register may stand; NULL: there is none. */
static const PtxOperand *find_constant(const Forms *forms, const PtxInstruction *in)
{
  if (!g_hash_table_contains(forms->held, in->parts[0])) return NULL;
  bool typed = false;
  for (unsigned i = 1; i < in->n_parts; i++) {
    if (ptx_type_parse(in->parts[i]) == TYPE_NONE) continue;
    if (!g_hash_table_contains(forms->held_types, in->parts[i])) return NULL;
    typed = true;
  }
  for (unsigned i = 0; typed && i < in->n_operands; i++)
    if (in->operands[i].kind == OPERAND_INTEGER || in->operands[i].kind == OPERAND_FLOAT)
      return &in->operands[i];
  return NULL;
}

bool forms_check(const PtxModule *module, GError **error)
{
  if (module->version > NEWEST) return true;
  Forms *forms = forms_load(error);
  if (!forms) return false;
  unsigned faults = 0;
  g_autoptr(GHashTable) good = g_hash_table_new(g_str_hash, g_str_equal); /* texts: most stand many times */
  for (unsigned f = 0; f < module->n_functions; f++)
    for (unsigned i = 0; i < module->functions[f]->n_code && faults < MOST_FAULTS; i++) {
      const PtxInstruction *in = &module->functions[f]->code[i];
      const PtxOperand *constant = find_constant(forms, in);
      if (constant) {
        error_add(error, ERROR_INPUT, SEVERITY_ERROR, &constant->mark, "ptx-form", "move it to one before",
                  "`%s` takes registers, no constants", in->text);
        faults++;
        continue;
      }
      if (g_hash_table_contains(good, in->text)) continue;
      if (forms_have(forms, in->parts, in->n_parts) || !knows_words(in)) {
        g_hash_table_add(good, (void *)in->text);
        continue;
      }
      g_autofree char *hint = hint_of(forms, in);
      error_add(error, ERROR_INPUT, SEVERITY_ERROR, &in->mark, "ptx-form", hint,
                "PTX has no instruction `%s`", in->text);
      faults++;
    }
  forms_free(forms);
  return !faults;
}
