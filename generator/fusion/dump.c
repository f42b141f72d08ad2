/* A fusion as text: done, for tests and --explain, and on its way, for --print-after. */
#include "generator/front/dump.h"
#include "generator/fusion/private.h"

char *fusion_dump(const Fusion *fusion)
{
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < fusion->n; i++) {
    g_autofree char *operator_ = fused_dump(fusion->operators[i]);
    g_string_append(text, operator_);
  }
  for (unsigned i = 0; i < fusion->n_notes; i++)
    g_string_append_printf(text, "note: %s\n", fusion->notes[i]);
  return g_string_free(text, FALSE);
}

/* ---- on its way ---- */

typedef struct Dump {
  GString *text;
  GHashTable *names;  /* tensor -> how it is called here, owned */
  GHashTable *counts; /* name -> tensors of that name so far */
} Dump;

/* Views have the names of what they show: further ones are numbered. */
static const char *name_of(const GraphTensor *tensor, void *data)
{
  Dump *dump = data;
  const char *known = g_hash_table_lookup(dump->names, tensor);
  if (known) return known;
  unsigned n = GPOINTER_TO_UINT(g_hash_table_lookup(dump->counts, tensor->name)) + 1;
  char *name = n > 1 ? g_strdup_printf("%s#%u", tensor->name, n) : g_strdup(tensor->name);
  g_hash_table_insert(dump->counts, (char *)tensor->name, GUINT_TO_POINTER(n));
  g_hash_table_insert(dump->names, (GraphTensor *)tensor, name);
  graph_dump_tensor(dump->text, tensor, tensor->begins ? "view" : graph_dump_kind(tensor), name);
  return name;
}

/* Lines of the tensors that are new stand in front of the node that has them first. */
static void dump_node(Dump *dump, const GraphNode *node, const char *indent)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i]) name_of(node->inputs[i], dump);
  for (unsigned i = 0; i < node->n_outputs; i++)
    if (node->outputs[i]) name_of(node->outputs[i], dump);
  g_string_append(dump->text, indent);
  graph_dump_node(dump->text, node, name_of, dump);
}

static void dump_groups(const Fuser *fuser, Dump *dump)
{
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    const Group *group = fuser->groups->pdata[i];
    if (group->absorbed) continue;
    g_string_append_printf(dump->text, "group %u\n", i);
    for (unsigned j = 0; j < group->nodes->len; j++)
      dump_node(dump, group->nodes->pdata[j], "  ");
  }
}

char *fuser_dump(const Fuser *fuser, FusionStage stage)
{
  Dump dump = {g_string_new(NULL), g_hash_table_new_full(NULL, NULL, NULL, g_free),
               g_hash_table_new(g_str_hash, g_str_equal)};
  const GPtrArray *nodes = stage < FUSION_PLACED ? fuser->live : fuser->nodes;
  if (stage == FUSION_GROUPS)
    dump_groups(fuser, &dump);
  else
    for (unsigned i = 0; i < nodes->len; i++)
      dump_node(&dump, nodes->pdata[i], "");
  g_hash_table_unref(dump.names);
  g_hash_table_unref(dump.counts);
  return g_string_free(dump.text, FALSE);
}
