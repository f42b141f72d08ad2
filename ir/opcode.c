/* The opcode table and its parsed form. See ir/opcodes.def for the columns. */
#include "ir/format.h"
#include <string.h>

static const IrOpInfo infos[IR_OPCODE_COUNT] = {
#define OP(id, name_, levels_, results_, format_, effects_, attributes_, regions_, latency_, doc_)           \
  [OP_##id] = {name_, levels_, results_, format_, effects_, attributes_, regions_, latency_, doc_},
#include "ir/opcodes.def"
#undef OP
};

static const char *const keyword_names[IR_ATTRIBUTE_COUNT + 1] = {
#define ATTRIBUTE(id, name, kind, doc) [ATTR_##id] = name,
#include "ir/attributes.def"
#undef ATTRIBUTE
};

static const AttributeKind keyword_kinds[IR_ATTRIBUTE_COUNT] = {
#define ATTRIBUTE(id, name, kind, doc) [ATTR_##id] = ATTRIBUTE_##kind,
#include "ir/attributes.def"
#undef ATTRIBUTE
};

static const char *const keyword_docs[IR_ATTRIBUTE_COUNT] = {
#define ATTRIBUTE(id, name, kind, doc) [ATTR_##id] = doc,
#include "ir/attributes.def"
#undef ATTRIBUTE
};

typedef struct Tables {
  OpFormat formats[IR_OPCODE_COUNT];
  const char *names[IR_OPCODE_COUNT + 1];
  GHashTable *opcodes;  /* name -> code + 1 */
  GHashTable *keywords; /* name -> key + 1 */
} Tables;

static const char *const *split_names(const char *text)
{
  return (const char *const *)g_strsplit(text, "|", FORMAT_MAX_NAMES);
}

/* A `*` is a list where an operand may begin, a literal (the product sign) after an operand. */
static FormatItem parse_item(const char *word, bool after_operand)
{
  if (!strcmp(word, "e")) return (FormatItem){FORMAT_EXPR};
  if (!strcmp(word, "p")) return (FormatItem){FORMAT_POSTFIX};
  if (!strcmp(word, "e?")) return (FormatItem){FORMAT_OPTIONAL};
  if (!strcmp(word, "c")) return (FormatItem){FORMAT_CALL};
  if (!strcmp(word, "@")) return (FormatItem){FORMAT_SYMBOL};
  if (!strcmp(word, "@:")) return (FormatItem){FORMAT_TYPED_SYMBOL};
  if (!strcmp(word, "A")) return (FormatItem){FORMAT_ARGUMENTS};
  if (!strcmp(word, "*") && !after_operand) return (FormatItem){FORMAT_LIST};
  if (g_str_has_prefix(word, "n:")) return (FormatItem){FORMAT_NAME, .names = split_names(word + 2)};
  if (g_str_has_prefix(word, "e:")) return (FormatItem){FORMAT_EXPR_OR_NAME, .names = split_names(word + 2)};
  const char *equals = strchr(word, '=');
  if (equals && g_ascii_isalpha(word[0]))
    return (FormatItem){FORMAT_DEFAULTED, g_strndup(word, (gsize)(equals - word)),
                        g_ascii_strtoll(equals + 1, NULL, 10), NULL};
  return (FormatItem){FORMAT_LITERAL, g_strdup(word), 0, NULL};
}

static bool is_operand(FormatKind kind)
{
  return kind != FORMAT_LITERAL && kind != FORMAT_SYMBOL && kind != FORMAT_TYPED_SYMBOL &&
         kind != FORMAT_ARGUMENTS;
}

static void parse_operands(OpFormat *format, const char *text)
{
  g_auto(GStrv) words = g_strsplit(text, " ", -1);
  for (char **word = words; *word; word++) {
    if (!**word) continue;
    g_assert(format->n_items < FORMAT_MAX_ITEMS);
    bool after = format->n_items && is_operand(format->items[format->n_items - 1].kind);
    FormatItem item = parse_item(*word, after);
    if (item.kind == FORMAT_LIST || item.kind == FORMAT_CALL)
      format->variadic = true;
    else if (is_operand(item.kind) && item.kind != FORMAT_OPTIONAL)
      format->fixed++;
    format->items[format->n_items++] = item;
  }
}

static unsigned parse_effects(const char *letters)
{
  static const struct {
    char letter;
    unsigned effect;
  } rows[] = {{'R', EFFECT_READ},   {'W', EFFECT_WRITE},   {'S', EFFECT_SYNC},
              {'U', EFFECT_UPDATE}, {'D', EFFECT_DECLARE}, {'C', EFFECT_CONTROL}};
  unsigned effects = EFFECT_NONE;
  for (; *letters; letters++) {
    unsigned i = 0;
    while (i < G_N_ELEMENTS(rows) && rows[i].letter != *letters)
      i++;
    g_assert(i < G_N_ELEMENTS(rows));
    effects |= rows[i].effect;
  }
  return effects;
}

static void add_needed(OpFormat *format, IrAttributeKey key)
{
  g_assert(format->n_needs < FORMAT_MAX_NEEDED);
  unsigned at = format->n_needs++;
  for (; at > 0 && format->needs[at - 1] > key; at--)
    format->needs[at] = format->needs[at - 1];
  format->needs[at] = key;
}

static void parse_attributes(const Tables *tables, OpFormat *format, const char *text)
{
  g_auto(GStrv) words = g_strsplit(text, " ", -1);
  for (char **word = words; *word; word++) {
    if (!**word) continue;
    const char *name = **word == '!' ? *word + 1 : *word;
    char *equals = strchr(*word, '=');
    if (equals) *equals = 0;
    unsigned key = GPOINTER_TO_UINT(g_hash_table_lookup(tables->keywords, name));
    if (!key) g_error("opcode table: no attribute is called %s", name);
    format->takes[key - 1] = true;
    if (**word == '!') add_needed(format, (IrAttributeKey)(key - 1));
    if (equals) format->values[key - 1] = split_names(equals + 1);
  }
}

static void parse_regions(OpFormat *format, const char *text)
{
  if (!*text) return;
  g_auto(GStrv) words = g_strsplit(text, " ", -1);
  for (char **word = words; *word; word++) {
    format->regions_max++;
    if (!g_str_has_suffix(*word, "?")) format->regions_min++;
  }
}

/* Proves on the way that the table is consistent; a table that is not stops the program at once. */
static Tables *make_tables(void)
{
  Tables *tables = g_new0(Tables, 1);
  tables->opcodes = g_hash_table_new(g_str_hash, g_str_equal);
  tables->keywords = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned i = 0; i < IR_ATTRIBUTE_COUNT; i++)
    if (!g_hash_table_insert(tables->keywords, (gpointer)keyword_names[i], GUINT_TO_POINTER(i + 1)))
      g_error("attribute table: %s twice", keyword_names[i]);
  for (unsigned i = 0; i < IR_OPCODE_COUNT; i++) {
    const IrOpInfo *info = &infos[i];
    OpFormat *format = &tables->formats[i];
    tables->names[i] = info->name;
    if (!g_hash_table_insert(tables->opcodes, (gpointer)info->name, GUINT_TO_POINTER(i + 1)))
      g_error("opcode table: %s twice", info->name);
    if (!info->levels || !info->doc[0]) g_error("opcode table: %s has no level or no text", info->name);
    parse_operands(format, info->format);
    parse_attributes(tables, format, info->attributes);
    parse_regions(format, info->regions);
    format->effects = parse_effects(info->effects);
    if (info->levels & IR_THREAD) format->takes[ATTR_WHEN] = true;
    if (info->levels & IR_STAGED) format->takes[ATTR_STAGE] = true;
  }
  return tables;
}

static const Tables *tables(void)
{
  static const Tables *made;
  if (g_once_init_enter(&made)) g_once_init_leave(&made, make_tables());
  return made;
}

const OpFormat *op_format(IrOpcode code)
{
  return &tables()->formats[code];
}

const IrOpInfo *ir_op_info(IrOpcode code)
{
  return &infos[code];
}

bool ir_opcode_parse(const char *name, IrOpcode *code)
{
  unsigned found = GPOINTER_TO_UINT(g_hash_table_lookup(tables()->opcodes, name));
  if (found) *code = (IrOpcode)(found - 1);
  return found;
}

unsigned ir_op_effects(IrOpcode code)
{
  return tables()->formats[code].effects;
}

const char *ir_attribute_name(IrAttributeKey key)
{
  return keyword_names[key];
}

const char *ir_attribute_doc(IrAttributeKey key)
{
  return keyword_docs[key];
}

AttributeKind attribute_kind(IrAttributeKey key)
{
  return keyword_kinds[key];
}

bool attribute_parse(const char *name, IrAttributeKey *key)
{
  unsigned found = GPOINTER_TO_UINT(g_hash_table_lookup(tables()->keywords, name));
  if (found) *key = (IrAttributeKey)(found - 1);
  return found;
}

const char *const *opcode_names(void)
{
  return tables()->names;
}

const char *const *attribute_names(void)
{
  return keyword_names;
}

static int by_text(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, so that the answer does not depend on hashing. */
const char *nearest_key(const char *name, GHashTable *table)
{
  guint n;
  g_autofree const char **keys = (const char **)g_hash_table_get_keys_as_array(table, &n);
  qsort(keys, n, sizeof *keys, by_text);
  return nearest_name(name, keys);
}

unsigned format_operands(const OpFormat *format, const FormatItem *item, unsigned n_operands)
{
  switch (item->kind) {
  case FORMAT_LIST:
  case FORMAT_CALL: return n_operands > format->fixed ? n_operands - format->fixed : 0;
  case FORMAT_OPTIONAL: return n_operands > format->fixed ? 1 : 0;
  case FORMAT_LITERAL:
  case FORMAT_SYMBOL:
  case FORMAT_TYPED_SYMBOL:
  case FORMAT_ARGUMENTS: return 0;
  default: return 1;
  }
}

bool ir_op_is_elementwise(IrOpcode code)
{
  return code >= OP_ADD && code <= OP_BITCAST;
}
