/* Rewrite pair_products: products that read the same A and whose results meet, as in silu(x W1) * (x W2), become one group: its
 * kernel reads A once, and none of the products goes through memory. So do two whose results are added, of whatever operands: x W + (x A) B.
 *
 * The right operands must lie alike (shape, strides, type), for one kernel walks them with the same
 * coordinates, and all that leaves the first product's group must be one tensor that the second's reads. Of more than two, as the
 * gates of a recurrent cell, all are tried at once, with the elementwise groups of what is computed of them: what leaves these may
 * be read by anyone else. */
#include "generator/front/groups.h"
#include "generator/fusion/private.h"
#include "generator/program/gemm.h"
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

/* Weights of a type of their own, or with scales of blocks. */
static bool has_narrow(const GraphNode *node)
{
  return node->blocks[1] || node->inputs[1]->type != node->inputs[0]->type;
}

/* Right operands of both that lie in one ring, or narrow weights beside what is as wide as the left operands. */
static bool may_stand_beside(const GraphNode *a, const GraphNode *b)
{
  if (a->blocks[0] || b->blocks[0]) return false;
  bool narrow = has_narrow(a);
  if (narrow != has_narrow(b)) return true;
  return !a->blocks[1] && !b->blocks[1] && a->inputs[1]->type == b->inputs[1]->type;
}

/* Of groups, or of none. */
static bool same_kind(const GraphNode *a, const GraphNode *b)
{
  bool plain = a->op->id == ONNX_MatMul || a->op->id == ONNX_Gemm;
  return a->op->id == b->op->id || (plain && (b->op->id == ONNX_MatMul || b->op->id == ONNX_Gemm));
}

/* Products of operands of their own, which the kernel of both takes one behind the other if they are added. */
static bool may_add(const GraphNode *a, const GraphNode *b)
{
  return may_stand_beside(a, b) && same_kind(a, b) && same_sums(a, b) && same_groups(a, b) &&
         a->inputs[0] != b->inputs[0] && a->inputs[0]->type == b->inputs[0]->type &&
         graph_same_shape(a->outputs[0], b->outputs[0]);
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

/* Everything that leaves `group` goes to `to`, and is one tensor. `added`: it may be what the product there is added to. */
static bool feeds_only(const Fuser *fuser, const Group *group, const Group *to, bool added)
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
      /* as its A or B it would be needed before the kernel has it */
      bool early =
          reader == to->anchor && !(added && reader->inputs[0] != tensor && reader->inputs[1] != tensor);
      if (other != to || early) return false;
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
  bool added = may_add(into->anchor, from->anchor);
  if (!(added || same_product(into->anchor, from->anchor)) || !feeds_only(fuser, from, into, added) ||
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

/* ---- more than two ---- */

/* Groups that are to be one. */
typedef struct {
  Fuser *fuser;
  GPtrArray *groups;
  unsigned products, nodes;
} Gathering;

static bool has_group(const Gathering *at, Group *group)
{
  return g_ptr_array_find(at->groups, group, NULL);
}

/* A node that works elementwise on what lies as the products' results. */
static bool is_like_result(const GraphNode *node, const GraphTensor *result)
{
  return node->op->class_ == OPERATOR_ELEMENTWISE && graph_same_shape(node->outputs[0], result);
}

/* A group that reads what one of the gathered computes at the same points. */
static bool continues(const Gathering *at, const Group *group)
{
  const Group *first = at->groups->pdata[0];
  bool found = false;
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    if (node != group->anchor && !is_like_result(node, first->anchor->outputs[0])) return false;
    for (unsigned j = 0; j < node->n_inputs; j++)
      for (unsigned k = 0; k < fuser_n_writers(node->inputs[j]); k++) {
        const GraphNode *producer = fuser_writer(at->fuser, node->inputs[j], k);
        if (!producer || !has_group(at, fuser_group(at->fuser, producer))) continue;
        if (fuser_in_memory_only(node, node->inputs[j], producer)) return false;
        found = true;
      }
  }
  return found;
}

static bool is_wanted(const Gathering *at, const Group *group)
{
  const Group *first = at->groups->pdata[0];
  if (group->absorbed || group->chained || group->division || has_group(at, (Group *)group)) return false;
  if (at->nodes + group->nodes->len > at->fuser->max_steps) return false;
  if (!group->anchor) return continues(at, group);
  return group_is_product(group) && !group->second && at->products < GEMM_MOST_PRODUCTS &&
         same_product(first->anchor, group->anchor);
}

static void take(Gathering *at, Group *group)
{
  g_ptr_array_add(at->groups, group);
  at->products += group->anchor != NULL;
  at->nodes += group->nodes->len;
}

typedef struct {
  const Gathering *gathering;
  GPtrArray *open;
  bool back;
} Circle;

static void look_behind(Fuser *fuser, Group *group, Group *source, void *data)
{
  Circle *circle = data;
  bool inside = has_group(circle->gathering, source);
  if (inside && !has_group(circle->gathering, group)) circle->back = true;
  if (inside || source->seen == fuser->search) return;
  source->seen = fuser->search;
  g_ptr_array_add(circle->open, source);
}

/* None of them waits for another one through a group that is not among them. */
static bool closes_no_circle(const Gathering *at)
{
  g_autoptr(GPtrArray) open = g_ptr_array_new();
  Circle circle = {at, open, false};
  at->fuser->search++;
  for (unsigned i = 0; i < at->groups->len; i++)
    fuser_visit_sources(at->fuser, at->groups->pdata[i], look_behind, &circle);
  for (unsigned i = 0; i < open->len && !circle.back; i++)
    fuser_visit_sources(at->fuser, open->pdata[i], look_behind, &circle);
  return !circle.back;
}

typedef struct {
  const Gathering *gathering;
  GHashTable *read; /* groups that another one of them reads */
} Meeting;

static void note_read(Fuser *fuser, Group *group, Group *source, void *data)
{
  const Meeting *meeting = data;
  if (has_group(meeting->gathering, source)) g_hash_table_add(meeting->read, source);
}

/* The products' results meet: but for one each is read by another of the groups. */
static bool results_meet(const Gathering *at)
{
  g_autoptr(GHashTable) read = g_hash_table_new(NULL, NULL);
  Meeting meeting = {at, read};
  unsigned last = 0;
  for (unsigned i = 0; i < at->groups->len; i++)
    fuser_visit_sources(at->fuser, at->groups->pdata[i], note_read, &meeting);
  for (unsigned i = 0; i < at->groups->len; i++)
    last += ((Group *)at->groups->pdata[i])->anchor && !g_hash_table_contains(read, at->groups->pdata[i]);
  return last <= 1;
}

static void unite_all(const Gathering *at, const Group *all)
{
  Group *into = at->groups->pdata[0];
  for (unsigned i = 1; i < at->groups->len; i++)
    fuser_absorb(at->fuser, into, at->groups->pdata[i]);
  into->anchor = all->anchor;
  into->second = all->second;
}

/* More than two products of the first's left operand, which `alike` have, if the kernel of all is wanted. */
static void try_all(Fuser *fuser, Group *first, const GPtrArray *alike)
{
  g_autoptr(GPtrArray) groups = g_ptr_array_new();
  Gathering at = {.fuser = fuser, .groups = groups};
  take(&at, first);
  for (unsigned i = 0; i < alike->len; i++)
    if (is_wanted(&at, alike->pdata[i])) take(&at, alike->pdata[i]);
  if (at.products <= 2) return;
  for (unsigned i = 0; i < fuser->groups->len; i++)
    if (is_wanted(&at, fuser->groups->pdata[i])) take(&at, fuser->groups->pdata[i]);
  if (!results_meet(&at)) return;
  Group all = {.nodes = g_ptr_array_new()};
  for (unsigned i = 0; i < groups->len; i++)
    g_ptr_array_extend(all.nodes, ((Group *)groups->pdata[i])->nodes, NULL, NULL);
  fuser_sort(all.nodes);
  for (unsigned i = 0; i < all.nodes->len; i++) {
    GraphNode *node = all.nodes->pdata[i];
    if (node->op->class_ != OPERATOR_GEMM) continue;
    if (!all.anchor)
      all.anchor = node;
    else if (!all.second)
      all.second = node;
  }
  ProgramVerdict verdict = {.why = "they would wait for each other"};
  if (closes_no_circle(&at)) verdict = fuser_judge(fuser, &all, NULL, true);
  fuser_note(fuser, "the %u products of `%s` %s%s%s", at.products, first->anchor->inputs[0]->name,
             verdict.taken ? "become one kernel" : "stay apart", verdict.why ? ": " : "",
             verdict.why ? verdict.why : "");
  if (verdict.taken) unite_all(&at, &all);
  g_ptr_array_unref(all.nodes);
}

static bool may_pair(const Group *group)
{
  return group_is_product(group) && !group->absorbed && !group->second;
}

/* Products by what they multiply from the left, in the order of their groups. */
static GHashTable *by_left_operand(const Fuser *fuser)
{
  GHashTable *products = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)g_ptr_array_unref);
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *group = fuser->groups->pdata[i];
    if (!may_pair(group)) continue;
    GPtrArray *alike = g_hash_table_lookup(products, group->anchor->inputs[0]);
    if (!alike) g_hash_table_insert(products, group->anchor->inputs[0], alike = g_ptr_array_new());
    g_ptr_array_add(alike, group);
  }
  return products;
}

static void note_product(Fuser *fuser, Group *group, Group *source, void *products)
{
  (void)fuser;
  if (may_pair(source) && !g_ptr_array_find(products, source, NULL)) g_ptr_array_add(products, source);
}

static int by_anchor(const void *a, const void *b)
{
  const Group *x = *(Group *const *)a, *y = *(Group *const *)b;
  return x->anchor->index < y->anchor->index ? -1 : x->anchor->index > y->anchor->index;
}

/* Products whose results the group reads: others do not meet its own. */
static GPtrArray *products_read(Fuser *fuser, Group *group)
{
  GPtrArray *products = g_ptr_array_new();
  fuser_visit_sources(fuser, group, note_product, products);
  g_ptr_array_sort(products, by_anchor);
  return products;
}

void fusion_pair_products(Fuser *fuser)
{
  g_autoptr(GHashTable) products = by_left_operand(fuser);
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *first = fuser->groups->pdata[i];
    if (may_pair(first)) try_all(fuser, first, g_hash_table_lookup(products, first->anchor->inputs[0]));
  }
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *into = fuser->groups->pdata[i];
    if (!may_pair(into)) continue;
    g_autoptr(GPtrArray) read = products_read(fuser, into);
    for (unsigned j = 0; j < read->len && may_pair(into); j++)
      if (may_pair(read->pdata[j])) try_pair(fuser, into, read->pdata[j]);
  }
}
