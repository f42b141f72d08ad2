#include "catalog/matrix.h"
#include <string.h>

static const Node *field_of(const Node *value, const char *name)
{
  for (unsigned i = 0; i < value->n; i++)
    if (!strcmp(value->keys[i], name)) return value->items[i];
  return NULL;
}

/* Value of "var" or "var.field"; an object without a field stands for its "name". NULL if there is none. */
static const Node *lookup(const MatrixBinding *binding, const char *path)
{
  g_auto(GStrv) parts = g_strsplit(path, ".", 2);
  const Node *value = NULL;
  for (unsigned i = 0; i < binding->n && !value; i++)
    if (!g_strcmp0(binding->names[i], parts[0])) value = binding->values[i];
  if (!value || value->kind != NODE_MAPPING) return value && parts[1] ? NULL : value;
  return field_of(value, parts[1] ? parts[1] : "name");
}

static bool refuse_reference(const MatrixBinding *binding, const Node *node, const char *path, GError **error)
{
  const char *names[MATRIX_MAX_VARIABLES + 1] = {NULL};
  for (unsigned i = 0; i < binding->n; i++)
    names[i] = binding->names[i];
  g_autofree char *all = g_strjoinv(", ", (char **)names);
  g_autofree char *hint = binding->n ? g_strdup_printf("the entry's variables are %s", all)
                                     : g_strdup("variables stand in the entry's `for`");
  error_set(error, ERROR_INPUT, &node->mark, "catalog", hint,
            "{%s} names no text: no such variable, or no such field", path);
  return false;
}

/* The braces that begin at text enclose a reference: letters, digits, _ and points. NULL: they are only text. */
static char *reference_at(const char *text)
{
  if (*text != '{') return NULL;
  size_t length = strspn(text + 1, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_.");
  return length && text[1 + length] == '}' ? g_strndup(text + 1, length) : NULL;
}

static bool append_expanded(GString *out, const MatrixBinding *binding, const Node *node, const char *text,
                            GError **error)
{
  while (*text) {
    g_autofree char *path = reference_at(text);
    if (!path) {
      g_string_append_c(out, *text++);
      continue;
    }
    const Node *value = lookup(binding, path);
    if (!value || value->kind != NODE_SCALAR) return refuse_reference(binding, node, path, error);
    g_string_append(out, value->text);
    text += strlen(path) + 2;
  }
  return true;
}

static char *expand_text(const MatrixBinding *binding, const Node *node, const char *text, GError **error)
{
  g_autoptr(GString) out = g_string_new(NULL);
  return append_expanded(out, binding, node, text, error) ? g_strdup(out->str) : NULL;
}

char *matrix_expand_text(const MatrixBinding *binding, const Node *node, GError **error)
{
  return expand_text(binding, node, node->text, error);
}

/* The value that a string which is nothing but one reference stands for; NULL for any other. */
static const Node *whole_value(const MatrixBinding *binding, const Node *node)
{
  if (node->kind != NODE_SCALAR || !node->quoted) return NULL;
  g_autofree char *path = reference_at(node->text);
  return path && !node->text[strlen(path) + 2] ? lookup(binding, path) : NULL;
}

/* An element that stands for a list is replaced by its elements. */
static json_t *expand_array(const MatrixBinding *binding, const Node *node, GError **error)
{
  json_t *out = json_array();
  for (unsigned i = 0; i < node->n; i++) {
    const Node *whole = whole_value(binding, node->items[i]);
    json_t *expanded = matrix_expand(binding, node->items[i], error);
    if (!expanded) {
      json_decref(out);
      return NULL;
    }
    if (whole && whole->kind == NODE_SEQUENCE) {
      json_array_extend(out, expanded);
      json_decref(expanded);
    } else
      json_array_append_new(out, expanded);
  }
  return out;
}

/* The key "..." adds the members of the object it stands for. */
static bool add_member(json_t *out, const MatrixBinding *binding, const Node *node, unsigned i,
                       GError **error)
{
  json_t *expanded = matrix_expand(binding, node->items[i], error);
  if (!expanded) return false;
  if (!strcmp(node->keys[i], "...")) {
    bool is_object = json_is_object(expanded);
    json_object_update(out, expanded);
    json_decref(expanded);
    if (!is_object)
      error_set(error, ERROR_INPUT, &node->items[i]->mark, "catalog", NULL,
                "`...` adds the members of an object, and this stands for none");
    return is_object;
  }
  g_autofree char *name = expand_text(binding, node, node->keys[i], error);
  if (!name) json_decref(expanded);
  return name && !json_object_set_new(out, name, expanded);
}

static json_t *expand_object(const MatrixBinding *binding, const Node *node, GError **error)
{
  json_t *out = json_object();
  for (unsigned i = 0; i < node->n; i++)
    if (!add_member(out, binding, node, i, error)) {
      json_decref(out);
      return NULL;
    }
  return out;
}

json_t *matrix_expand(const MatrixBinding *binding, const Node *node, GError **error)
{
  if (node->kind == NODE_MAPPING) return expand_object(binding, node, error);
  if (node->kind == NODE_SEQUENCE) return expand_array(binding, node, error);
  if (!node->quoted) return json_loads(node->text, JSON_DECODE_ANY, NULL); /* a number, true, false, null */
  const Node *whole = whole_value(binding, node);
  if (whole && (whole->kind != NODE_SCALAR || !whole->quoted)) return matrix_expand(binding, whole, error);
  g_autofree char *text = matrix_expand_text(binding, node, error);
  return text ? json_string(text) : NULL;
}
