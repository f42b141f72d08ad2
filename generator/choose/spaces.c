#include "generator/choose/spaces.h"
#include "base/data.h"
#include <string.h>

struct Spaces {
  GPtrArray *
      all; /* Space *, owned: of every template that was read; those without a kind are nobody's but spaces_find()'s */
  bool read[FAMILY_COUNT];
};

static void space_free(void *memory)
{
  Space *space = memory;
  tries_free(space->tries);
  ir_module_free((IrModule *)space->head);
  g_free((char *)space->template_name);
  g_free(space->slot_of);
  g_free(space);
}

/* ---- slots ---- */

static bool in_key(const IrModule *head, const char *name)
{
  for (unsigned i = 0; i < head->n_key; i++)
    if (!strcmp(head->key[i], name)) return true;
  return false;
}

static void take_slot(Space *space, const IrParameter *parameter)
{
  if (parameter) space->slot_of[parameter - space->head->parameters] = (int)space->n;
  space->declared[space->n++] = parameter;
}

/* An axis tells kernels apart for choosing if and only if it does by the template. */
static bool add_axis(Space *space, unsigned axis, GError **error)
{
  const IrParameter *parameter = ir_parameter_find(space->head, space->kind->axes[axis].name);
  bool key = axis < space->kind->n_keys;
  take_slot(space, parameter);
  if (!parameter || in_key(space->head, parameter->name) == key) return true;
  error_set(error, ERROR_UNSUPPORTED, &parameter->mark, "key",
            "choosing has a table of axes for each family (of products generator/choose/gemm_axes.def): "
            "there it is one of the key, or not",
            key ? "`%s` tells kernels apart, but the template's key lacks it"
                : "`%s` follows from other parameters, but the template's key has it",
            parameter->name);
  return false;
}

static bool add_extra(Space *space, const IrParameter *parameter, GError **error)
{
  int64_t otherwise = 0;
  if (space->n < SPACE_SLOTS && parameter->domain) {
    if (parameter->value) ir_expr_is_int(parameter->value, &otherwise);
    space->base[space->n] = (int)otherwise;
    take_slot(space, parameter);
    return true;
  }
  unsigned most = SPACE_SLOTS - space->kind->n_axes;
  error_set(error, ERROR_UNSUPPORTED, &parameter->mark, "key", NULL,
            parameter->domain
                ? "`%s` is one too many: a key has at most %u parameters that no price knows"
                : "`%s` has no domain: a parameter that no price knows is tried with each value "
                  "of it (%u such parameters at most)",
            parameter->name, most);
  return false;
}

/* ---- facts that conditions ask ---- */

#define MODEL "model." /* of its counts */

int space_fact(const SpaceKind *kind, const IrExpr *leaf)
{
  bool count = leaf->kind == EXPR_FIELD;
  for (unsigned i = 0; kind->facts[i]; i++) {
    const char *name = kind->facts[i];
    if (count != g_str_has_prefix(name, MODEL)) continue;
    if (!strcmp(count ? name + strlen(MODEL) : name, leaf->name)) return (int)i;
  }
  return -1;
}

typedef struct Asking {
  Space *space;
  GError **error;
  bool failed;
} Asking;

static void check_fact(const IrExpr *leaf, void *data)
{
  Asking *asking = data;
  const SpaceKind *kind = asking->space->kind;
  if (asking->failed || (leaf->kind != EXPR_DIM && leaf->kind != EXPR_FIELD)) return;
  bool model = leaf->kind == EXPR_DIM && !strcmp(leaf->name, "model"); /* the field is looked at by itself */
  bool tried = g_strv_contains(kind->tried, leaf->name);
  if (!tried && (model || space_fact(kind, leaf) >= 0)) return;
  asking->failed = true;
  const char *nearest = nearest_name(leaf->name, kind->facts);
  g_autofree char *hint = tried     ? g_strdup("ask for the fact in its `try` lines")
                          : nearest ? g_strdup_printf("did you mean `%s`?", nearest)
                                    : NULL;
  error_set(asking->error, ERROR_INPUT, &leaf->mark, "condition", hint,
            tried ? "`%s` is a fact of what is tried, which a condition does not know"
                  : "`%s` is no fact that choosing knows",
            leaf->name);
}

static bool check_conditions(Space *space, GError **error)
{
  Asking asking = {.space = space, .error = error};
  for (unsigned i = 0; i < space->head->n_parameters && !asking.failed; i++) {
    const IrExpr *condition = space->head->parameters[i].condition;
    if (condition) ir_expr_visit(condition, check_fact, &asking);
  }
  return !asking.failed;
}

static bool fill(Space *space, GError **error)
{
  const IrModule *head = space->head;
  space->slot_of = g_new(int, head->n_parameters);
  for (unsigned i = 0; i < head->n_parameters; i++)
    space->slot_of[i] = -1;
  for (unsigned i = 0; i < space->kind->n_axes; i++)
    if (!add_axis(space, i, error)) return false;
  for (unsigned i = 0; i < head->n_key; i++) {
    const IrParameter *parameter = ir_parameter_find(head, head->key[i]);
    bool has_slot = space->slot_of[parameter - head->parameters] >= 0;
    if (!has_slot && !add_extra(space, parameter, error)) return false;
  }
  if (!check_conditions(space, error)) return false;
  space->tries = tries_resolve(head, space->kind->facts, error);
  return space->tries != NULL;
}

/* ---- templates ---- */

static bool read_template(Spaces *spaces, const SpaceKind *kind, const char *name, GError **error)
{
  g_autofree char *path = g_strdup_printf("templates/%s.ir", name);
  g_autoptr(Source) source = data_load(path, error);
  IrModule *head = source ? ir_read_head(source, error) : NULL;
  if (!head) return false;
  Space *space = g_new0(Space, 1);
  *space = (Space){.template_name = g_strdup(name), .head = head};
  g_ptr_array_add(spaces->all, space);
  space->kind = kind;
  return !kind || fill(space, error);
}

bool spaces_add(Spaces *spaces, const Family *family, const SpaceKind *kind, GError **error)
{
  bool again = spaces->read[family->index];
  spaces->read[family->index] = true;
  for (bool more = !again; more; more = kind != NULL) {
    g_auto(GStrv) names = g_strsplit(kind ? kind->templates : family->templates, " ", -1);
    for (char **name = names; *name; name++)
      if (family_has_template(family, *name) && !spaces_of(spaces, *name) &&
          !read_template(spaces, kind, *name, error))
        return false;
    kind = kind ? kind->next : NULL;
  }
  return true;
}

Spaces *spaces_new(void)
{
  Spaces *spaces = g_new0(Spaces, 1);
  spaces->all = g_ptr_array_new_with_free_func(space_free);
  return spaces;
}

Spaces *spaces_read(GError **error)
{
  g_autoptr(Spaces) spaces = spaces_new();
  for (unsigned i = 0; i < FAMILY_COUNT; i++)
    if (!spaces_add(spaces, family_at(i), NULL, error)) return NULL;
  return g_steal_pointer(&spaces);
}

void spaces_free(Spaces *spaces)
{
  if (!spaces) return;
  g_ptr_array_unref(spaces->all);
  g_free(spaces);
}

const Space *spaces_of(const Spaces *spaces, const char *template_name)
{
  for (unsigned i = 0; spaces && i < spaces->all->len; i++) {
    const Space *space = spaces->all->pdata[i];
    if (space->kind && !strcmp(space->template_name, template_name)) return space;
  }
  return NULL;
}

bool space_is_key(const Space *space, const char *name)
{
  return in_key(space->head, name);
}

bool space_declares(const Space *space, const char *name)
{
  bool declared = !space;
  for (unsigned i = 0; space && i < space->head->n_parameters; i++)
    declared |= !strcmp(space->head->parameters[i].name, name);
  return declared;
}

static const IrModule *head_at(const Spaces *spaces, unsigned i)
{
  return ((const Space *)spaces->all->pdata[i])->head;
}

/* The declaration in the template of that number, or NULL. */
static const IrParameter *declared(const Spaces *spaces, unsigned i, const char *name)
{
  return ir_parameter_find(head_at(spaces, i), name);
}

const IrParameter *spaces_find(const Spaces *spaces, const char *name)
{
  const IrParameter *found = NULL;
  for (unsigned i = 0; i < spaces->all->len; i++) {
    const IrParameter *parameter = declared(spaces, i, name);
    if (parameter && (!found || (found->decided_by && !parameter->decided_by))) found = parameter;
  }
  return found;
}

bool space_may_set(const Space *space, const char *name, int64_t value)
{
  const IrParameter *parameter = space ? ir_parameter_find(space->head, name) : NULL;
  if (!space) return true;
  return parameter && !parameter->decided_by &&
         (!parameter->domain || ir_domain_has(parameter->domain, value));
}

bool spaces_have(const Spaces *spaces, const char *name, int64_t value)
{
  for (unsigned i = 0; i < spaces->all->len; i++) {
    const IrParameter *parameter = declared(spaces, i, name);
    if (parameter && !parameter->decided_by && ir_domain_has(parameter->domain, value)) return true;
  }
  return false;
}

char *spaces_domain_text(const Spaces *spaces, const char *name)
{
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
  for (unsigned i = 0; i < spaces->all->len; i++) {
    const IrParameter *parameter = declared(spaces, i, name);
    if (!parameter || !parameter->domain || parameter->decided_by) continue;
    g_autofree char *text = ir_domain_text(parameter->domain);
    if (!g_ptr_array_find_with_equal_func(texts, text, g_str_equal, NULL))
      g_ptr_array_add(texts, g_steal_pointer(&text));
  }
  g_ptr_array_add(texts, NULL);
  return g_strjoinv(" or ", (char **)texts->pdata);
}

const char *spaces_nearest(const Spaces *spaces, const char *name)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (unsigned i = 0; i < spaces->all->len; i++) {
    const IrModule *head = head_at(spaces, i);
    for (unsigned j = 0; j < head->n_parameters; j++)
      if (!head->parameters[j].decided_by) g_ptr_array_add(names, (gpointer)head->parameters[j].name);
  }
  g_ptr_array_add(names, NULL);
  return nearest_name(name, (const char *const *)names->pdata);
}

bool spaces_alike(const Spaces *spaces, const char *name)
{
  for (unsigned i = 0; i < spaces->all->len; i++) {
    const IrModule *head = head_at(spaces, i);
    for (unsigned j = 0; j < head->n_alike; j++)
      if (!strcmp(head->alike[j], name)) return true;
  }
  return false;
}
