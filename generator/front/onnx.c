#include "generator/front/onnx.h"
#include "generator/front/operators.h"
#include <string.h>

#define ONNX_OPSET(n)
#define ONNX_NAME(name)
#define ONNX_TYPE(number, name)
#define ONNX_TYPES(index, set)
#define ONNX_ROW(...)
#define ONNX_END(...)

#undef ONNX_OPSET
#define ONNX_OPSET(n) enum { newest_opset = n };
#include "generator/front/onnx.def"
#undef ONNX_OPSET
#define ONNX_OPSET(n)

static const char *const names[] = {
#undef ONNX_NAME
#define ONNX_NAME(name) name,
#include "generator/front/onnx.def"
#undef ONNX_NAME
#define ONNX_NAME(name)
    NULL,
};

static const char *const type_names[] = {
#undef ONNX_TYPE
#define ONNX_TYPE(number, name) [number] = name,
#include "generator/front/onnx.def"
#undef ONNX_TYPE
#define ONNX_TYPE(number, name)
};

static const uint32_t type_sets[] = {
#undef ONNX_TYPES
#define ONNX_TYPES(index, set) [index] = set,
#include "generator/front/onnx.def"
#undef ONNX_TYPES
#define ONNX_TYPES(index, set)
};

/* By domain, name and since. */
static const OnnxOperator rows[] = {
#undef ONNX_ROW
#undef ONNX_END
#define ONNX_ROW(domain, name, since, min_in, max_in, min_out, max_out, inputs, attributes)                  \
  {domain, name, since, min_in, max_in, min_out, max_out, inputs, attributes},
#define ONNX_END(domain, name, since) {domain, name, since, 0, 0, 0, 0, NULL, NULL},
#include "generator/front/onnx.def"
};

unsigned onnx_opset(void)
{
  return newest_opset;
}

const char *const *operator_onnx_names(void)
{
  return names;
}

bool operator_in_onnx(const char *name)
{
  return g_strv_contains(names, name);
}

/* ---- types ---- */

static const struct {
  unsigned char number;
  NumberType type;
  bool described; /* an op description may name it */
} our_types[] = {
    {1, NUMBER_F32, true},   {2, NUMBER_U8, true},    {3, NUMBER_S8, true},    {4, NUMBER_U16, false},
    {5, NUMBER_S16, false},  {6, NUMBER_S32, true},   {7, NUMBER_S64, true},   {9, NUMBER_BOOL, true},
    {10, NUMBER_F16, true},  {11, NUMBER_F64, true},  {12, NUMBER_U32, false}, {13, NUMBER_U64, false},
    {16, NUMBER_BF16, true}, {17, NUMBER_E4M3, true}, {19, NUMBER_E5M2, true}, {1, NUMBER_TF32, true},
    {21, NUMBER_U4, true},   {22, NUMBER_S4, true},   {23, NUMBER_E2M1, true}, {24, NUMBER_E8M0, true},
};

unsigned onnx_type_number(NumberType type)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(our_types); i++)
    if (our_types[i].type == type) return our_types[i].number;
  return 0;
}

bool onnx_type_ours(int64_t number, NumberType *type)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(our_types); i++)
    if (our_types[i].number == number && our_types[i].described) {
      *type = our_types[i].type;
      return true;
    }
  return false;
}

const char *onnx_type_name(int64_t number)
{
  return number > 0 && number < (int64_t)G_N_ELEMENTS(type_names) ? type_names[number] : NULL;
}

unsigned onnx_type_parse(const char *name)
{
  NumberType type;
  if (number_parse(name, &type)) return onnx_type_number(type);
  for (unsigned i = 1; i < G_N_ELEMENTS(type_names); i++)
    if (type_names[i] && !g_ascii_strcasecmp(type_names[i], name)) return i;
  return 0;
}

/* ---- operators ---- */

/* "ai.onnx" is the long name of ONNX's own domain. */
static const char *short_domain(const char *domain)
{
  return strcmp(domain, "ai.onnx") != 0 ? domain : "";
}

static bool is_version_of(const OnnxOperator *row, const char *domain, const char *name)
{
  return !strcmp(row->name, name) && !strcmp(row->domain, domain);
}

const OnnxOperator *onnx_find(const char *domain, const char *name, unsigned opset)
{
  const OnnxOperator *found = NULL;
  domain = short_domain(domain);
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
    if (is_version_of(&rows[i], domain, name) && (*domain || rows[i].since <= opset)) found = &rows[i];
  return found;
}

const OnnxOperator *onnx_newer(const char *domain, const char *name, unsigned opset)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
    if (is_version_of(&rows[i], short_domain(domain), name) && rows[i].since > opset) return &rows[i];
  return NULL;
}

bool onnx_has_domain(const char *domain)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
    if (!strcmp(rows[i].domain, short_domain(domain))) return true;
  return false;
}

/* ---- words of a row ---- */

/* The word behind `at`, which moves on; false at the end. */
static bool next_word(const char **at, const char **word, size_t *length)
{
  *at += strspn(*at, " ");
  *word = *at;
  *length = strcspn(*at, " ");
  *at += *length;
  return *length > 0;
}

char onnx_attribute(const OnnxOperator *op, const char *name, bool *required)
{
  const char *at = op->attributes, *word;
  size_t length, n = strlen(name);
  while (at && next_word(&at, &word, &length)) {
    if (length < n + 2 || strncmp(word, name, n) != 0 || word[n] != ':') continue;
    if (required) *required = word[length - 1] == '!';
    return word[n + 1];
  }
  return 0;
}

unsigned onnx_attribute_since(const OnnxOperator *op, const char *name)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
    if (is_version_of(&rows[i], op->domain, op->name) && onnx_attribute(&rows[i], name, NULL))
      return rows[i].since;
  return 0;
}

const char *onnx_required(const OnnxOperator *op, unsigned i, size_t *length)
{
  const char *at = op->attributes, *word;
  while (at && next_word(&at, &word, length)) {
    if (word[*length - 1] != '!' || i-- > 0) continue;
    *length = strcspn(word, ":");
    return word;
  }
  return NULL;
}

char *onnx_attribute_list(const OnnxOperator *op)
{
  GString *list = g_string_new(NULL);
  const char *at = op->attributes, *word;
  size_t length;
  while (at && next_word(&at, &word, &length))
    g_string_append_printf(list, "%s%.*s", list->len ? ", " : "", (int)strcspn(word, ":"), word);
  return g_string_free(list, FALSE);
}

OnnxInput onnx_input(const OnnxOperator *op, unsigned i)
{
  const char *at = op->inputs, *word = "", *last = NULL;
  size_t length, last_length = 0;
  for (unsigned j = 0; at && j <= i && next_word(&at, &word, &length); j++) {
    last = word;
    last_length = length;
  }
  if (!last) return (OnnxInput){0};
  uint64_t set = g_ascii_strtoull(last + 2, NULL, 10);
  return (OnnxInput){.types = type_sets[set],
                     .variable = (char)(last[0] == '-' ? 0 : last[0]),
                     .optional = strchr("?*+", last[last_length - 1]) != NULL,
                     .variadic = strchr("*+", last[last_length - 1]) != NULL};
}
