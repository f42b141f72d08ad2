/* Did-you-mean for operators and attributes: what the field calls them, then what is spelt alike. */
#include "generator/front/operators.h"
#include <string.h>

/* ---- the table ---- */

#define WEIGHTS    "weights of shape [out, in] take transB: 1; MatMul and Add where x has more dimensions"
#define BATCHES    "leading dimensions are batches"
#define TANH       "with approximate \"tanh\""
#define ONE_KERNEL "write Mul, and Add behind it: they are one kernel"

static const OperatorAlias aliases[] = {
#define ALIAS(name, meant, note) {name, meant, note},
#define ATTRIBUTE_ALIAS(name, meant)
#include "generator/front/aliases.def"
#undef ALIAS
#undef ATTRIBUTE_ALIAS
};

static const struct {
  const char *name, *meant;
} attribute_aliases[] = {
#define ALIAS(name, meant, note)
#define ATTRIBUTE_ALIAS(name, meant) {name, meant},
#include "generator/front/aliases.def"
#undef ALIAS
#undef ATTRIBUTE_ALIAS
};

const OperatorAlias *operator_aliases(unsigned *n)
{
  *n = G_N_ELEMENTS(aliases);
  return aliases;
}

static const OperatorAlias *find_alias(const char *plain)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(aliases); i++)
    if (!strcmp(aliases[i].name, plain)) return &aliases[i];
  return NULL;
}

/* ---- names ---- */

/* Small letters and digits alone. */
static char *plain_name(const char *name)
{
  GString *plain = g_string_new(NULL);
  for (; *name; name++)
    if (g_ascii_isalnum(*name)) g_string_append_c(plain, g_ascii_tolower(*name));
  return g_string_free(plain, FALSE);
}

/* The part of `torch.nn.functional.silu`, `aten::addmm` or `aten.add.Tensor` that names the operator. */
static char *last_part(const char *name)
{
  static const char *const overloads[] = {"default", "tensor", "scalar", "out", NULL};
  g_auto(GStrv) parts = g_strsplit_set(name, ".:/", -1);
  unsigned n = g_strv_length(parts);
  while (n > 0) {
    g_autofree char *plain = plain_name(parts[n - 1]);
    if (*plain && (n == 1 || !g_strv_contains(overloads, plain))) return g_steal_pointer(&plain);
    n--;
  }
  return g_strdup("");
}

/* Words that libraries put around a name. */
static char *without_affixes(const char *plain)
{
  static const char *const prefixes[] = {"fused", "native", "tf", NULL};
  static const char *const suffixes[] = {"layer", "op", "forward", "fwd", "kernel", "function", NULL};
  size_t length = strlen(plain);
  for (const char *const *prefix = prefixes; *prefix; prefix++)
    if (g_str_has_prefix(plain, *prefix) && plain[strlen(*prefix)]) return g_strdup(plain + strlen(*prefix));
  for (const char *const *suffix = suffixes; *suffix; suffix++)
    if (g_str_has_suffix(plain, *suffix) && length > strlen(*suffix))
      return g_strndup(plain, length - strlen(*suffix));
  return g_strdup(plain);
}

/* ONNX's operator that is written alike but for case and what is neither letter nor digit. */
static const char *same_letters(const char *plain)
{
  const char *const *names = operator_onnx_names();
  for (; *names; names++) {
    g_autofree char *other = plain_name(*names);
    if (!strcmp(other, plain)) return *names;
  }
  return NULL;
}

static bool has_row(const char *name)
{
  return g_strv_contains(operator_names(), name);
}

/* ---- suggestions ---- */

static char *suggest(const char *meant, const char *note)
{
  if (!meant) return g_strdup(note);
  if (!has_row(meant))
    return g_strdup_printf("did you mean `%s`? It is not supported: %s", meant,
                           note ? note : "`adlgen ops` lists what is");
  return note ? g_strdup_printf("did you mean `%s` (%s)?", meant, note)
              : g_strdup_printf("did you mean `%s`?", meant);
}

static char *suggest_plain(const char *plain)
{
  const char *same = same_letters(plain);
  const OperatorAlias *alias = find_alias(plain);
  if (same) return suggest(same, alias && !has_row(same) ? alias->note : NULL);
  return alias ? suggest(alias->meant, alias->note) : NULL;
}

char *operator_suggest(const char *name)
{
  g_autofree char *plain = last_part(name), *bare = without_affixes(plain);
  char *text = *plain ? suggest_plain(plain) : NULL;
  if (!text && strcmp(bare, plain) != 0) text = suggest_plain(bare);
  if (text) return text;
  const char *near = nearest_name(name, operator_names());
  if (!near) near = nearest_name(name, operator_onnx_names());
  return near ? suggest(near, NULL) : NULL;
}

const char *operator_note(const char *name)
{
  g_autofree char *plain = plain_name(name);
  const OperatorAlias *alias = find_alias(plain);
  return alias ? alias->note : NULL;
}

const char *operator_suggest_attribute(const Operator *row, const char *name)
{
  for (unsigned i = 0; i < row->n_attributes; i++)
    if (!g_ascii_strcasecmp(row->attributes[i].name, name)) return row->attributes[i].name;
  for (unsigned i = 0; i < G_N_ELEMENTS(attribute_aliases); i++)
    if (!g_ascii_strcasecmp(attribute_aliases[i].name, name) &&
        operator_attribute_index(row, attribute_aliases[i].meant) >= 0)
      return attribute_aliases[i].meant;
  return NULL;
}
