/* Rewrite pair_products: two products that read the same A and whose results meet, as in silu(x W1) * (x W2), become one group: its
 * kernel reads A once, and neither product goes through memory.
 *
 * The right operands must lie alike (shape, strides, type), for one kernel walks them with the same
 * coordinates, and all that leaves the first product's group must be one tensor that the second's reads. */
#include "generator/front/groups.h"
#include "generator/fusion/private.h"
#include <string.h>

static bool same_lists(const Symbolic *const *a, const Symbolic *const *b, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    if (!symbolic_same(a[i], b[i])) return false;
  return true;
}

static bool same_sums(const GraphNode *a, const GraphNode *b)
{
  const GraphAttribute *x = graph_attribute_find(a, "accumulate"), *y = graph_attribute_find(b, "accumulate");
  return !x == !y && (!x || !strcmp(x->text, y->text));
}

/* Have both the same rows in the same groups? */
static bool same_groups(const GraphNode *a, const GraphNode *b)
{
  if (a->op->id != ONNX_GroupedMatMul) return true;
  return a->inputs[2] == b->inputs[2] && graph_groups(a) == graph_groups(b) &&
         graph_attribute(a, "align")->integer == graph_attribute(b, "align")->integer;
}

static bool same_product(const GraphNode *a, const GraphNode *b)
{
  const GraphTensor *x = a->inputs[1], *y = b->inputs[1];
  if (a->blocks[1] || b->blocks[1]) return false; /* each would have scales of its own */
  return a->op->id == b->op->id && same_sums(a, b) && same_groups(a, b) && a->inputs[0] == b->inputs[0] &&
         x != y && x->type == y->type && x->rank == y->rank && same_lists(x->shape, y->shape, x->rank) &&
         same_lists(x->strides, y->strides, x->rank) &&
         graph_is_transposed(a, 0) == graph_is_transposed(b, 0) &&
         graph_is_transposed(a, 1) == graph_is_transposed(b, 1);
}

static bool reads(const GraphNode *node, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] == tensor) return true;
  return false;
}

/* The kernel of both would read parts of what it computes. */
static bool views_one_another(const Fuser *fuser, const Group *a, const Group *b)
{
  for (unsigned i = 0; i < a->nodes->len; i++)
    if (fuser_is_viewed(fuser, b->nodes, ((GraphNode *)a->nodes->pdata[i])->outputs[0])) return true;
  return false;
}

/* Everything that leaves `group` goes to `to`, and is one tensor. */
static bool feeds_only(const Fuser *fuser, const Group *group, const Group *to)
{
  unsigned leaving = 0;
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphTensor *tensor = ((GraphNode *)group->nodes->pdata[i])->outputs[0];
    bool leaves = false;
    if (tensor->is_output) return false;
    const GPtrArray *readers = fuser->readers[tensor->index];
    for (unsigned j = 0; j < readers->len; j++) {
      const GraphNode *reader = readers->pdata[j];
      const Group *other = fuser->group_of[reader->index];
      if (!reads(reader, tensor) || other == group) continue;
      /* as its B or C it would be needed before the kernel has it */
      if (other != to || reader == to->anchor) return false;
      leaves = true;
    }
    leaving += leaves;
  }
  return leaving == 1;
}

static void unite(Fuser *fuser, Group *into, Group *from, const Group *both)
{
  for (unsigned i = 0; i < from->nodes->len; i++)
    fuser_join(fuser, into, from->nodes->pdata[i]);
  fuser_sort(into->nodes);
  into->anchor = both->anchor;
  into->second = both->second;
  from->absorbed = true;
}

/* `from` into `into`, if the kernel of both is wanted. */
static void try_pair(Fuser *fuser, Group *into, Group *from)
{
  if (into->nodes->len + from->nodes->len > fuser->max_steps) return;
  if (!same_product(into->anchor, from->anchor) || !feeds_only(fuser, from, into) ||
      views_one_another(fuser, from, into))
    return;
  bool first = from->anchor->index < into->anchor->index;
  Group both = {.anchor = first ? from->anchor : into->anchor,
                .second = first ? into->anchor : from->anchor,
                .nodes = g_ptr_array_copy(into->nodes, NULL, NULL)};
  g_ptr_array_extend(both.nodes, from->nodes, NULL, NULL);
  fuser_sort(both.nodes);
  ProgramVerdict verdict = fuser_judge(fuser, &both, NULL, true);
  fuser_note(fuser, "the products with `%s` and `%s` %s%s%s", both.anchor->inputs[1]->name,
             both.second->inputs[1]->name, verdict.taken ? "become one kernel" : "stay two kernels",
             verdict.why ? ": " : "", verdict.why ? verdict.why : "");
  if (verdict.taken) unite(fuser, into, from, &both);
  g_ptr_array_unref(both.nodes);
}

void fusion_pair_products(Fuser *fuser)
{
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *into = fuser->groups->pdata[i];
    for (unsigned j = 0; j < fuser->groups->len; j++) {
      Group *from = fuser->groups->pdata[j];
      bool products = from != into && group_is_product(into) && group_is_product(from) && !into->absorbed &&
                      !from->absorbed && !into->second && !from->second;
      if (products) try_pair(fuser, into, from);
    }
  }
}
