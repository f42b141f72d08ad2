/* Rewrites fuse_attention and open_attention: a product, elementwise steps over its result (scores), a softmax along its
 * columns and a product of that with another matrix become one kernel, whose scores never leave registers.
 *
 *   S = MatMul(Q, K^T)   P = Softmax(S * scale + mask)   O = MatMul(P, V)
 *
 * Who reads scores or weights must be inside; the log-sum-exp of what the softmax is of is a result beside O. The pattern is found before operands are copied or padded, so that nothing
 * comes between its nodes; those wait for the place of the last one, where what they read is in groups. */
#include "generator/fusion/attention.h"
#include "generator/program/build.h"

#define FEW_QUERIES 64 /* of a tile of keys at most: its bytes are what takes the time */

static bool refuse(AttentionPattern *at, const char *why, const GraphTensor *tensor)
{
  if (!at->why) at->why = tensor ? arena_printf(at->fuser->arena, "`%s` %s", tensor->name, why) : why;
  return false;
}

static bool is_whole(const GraphTensor *tensor)
{
  return !fuser_is_view(tensor) && !tensor->n_parts;
}

/* A node whose values lie over rows and keys as the scores do. */
static bool is_step(const AttentionPattern *at, const GraphNode *node)
{
  bool pointwise = node->op->class_ == OPERATOR_ELEMENTWISE || node->op->id == ONNX_Mask ||
                   node->op->id == ONNX_IndexAlong;
  return pointwise && graph_same_shape(node->outputs[0], at->softmax->inputs[0]);
}

/* ---- in front of the softmax ---- */

static bool is_product(const GraphNode *node)
{
  return node->op->class_ == OPERATOR_GEMM && node->op->id != ONNX_GroupedMatMul && !node->blocks[0] &&
         !node->blocks[1] && node->outputs[0]->rank >= 2 && node->inputs[0]->rank >= 2 &&
         node->inputs[1]->rank >= 2;
}

/* Is the tensor computed from a product that stands where the scores do? Then its nodes up to this are inside. */
static bool collect_scores(AttentionPattern *at, const GraphTensor *tensor)
{
  GraphNode *node = tensor && is_whole(tensor) ? at->producers[tensor->index] : NULL;
  bool found = false;
  if (!node || node->outputs[0] != tensor) return false;
  if (g_hash_table_contains(at->inside, node)) return true;
  if (is_product(node) && graph_same_shape(tensor, at->softmax->inputs[0]) &&
      (!at->first || at->first == node)) {
    at->first = node;
    found = true;
  }
  if (!found && is_step(at, node))
    for (unsigned i = 0; i < node->n_inputs; i++)
      found |= collect_scores(at, node->inputs[i]);
  if (found) g_hash_table_add(at->inside, node);
  return found;
}

/* ---- behind it ---- */

static bool is_transposed(const GraphNode *node)
{
  return node->op->id == ONNX_Gemm && graph_attribute(node, "transA")->integer;
}

static bool takes_weights(AttentionPattern *at, GraphNode *node, const GraphTensor *weights)
{
  if (node == at->second || g_hash_table_contains(at->inside, node)) return true;
  if (is_step(at, node)) {
    g_hash_table_add(at->inside, node);
    return true;
  }
  bool product =
      is_product(node) && node->inputs[0] == weights && node->inputs[1] != weights && !is_transposed(node);
  if (!product || at->second)
    return refuse(at, at->second ? "is multiplied twice" : "is read elsewhere too", weights);
  at->second = node;
  return true;
}

/* What is computed of the weights, up to the product that takes them. */
static bool collect_weights(AttentionPattern *at, const GraphTensor *weights)
{
  const GPtrArray *readers = at->readers[weights->index];
  for (unsigned i = 0; i < readers->len; i++) {
    GraphNode *node = readers->pdata[i];
    bool known = g_hash_table_contains(at->inside, node);
    if (!takes_weights(at, node, weights)) return false;
    if (!known && node != at->second && !collect_weights(at, node->outputs[0])) return false;
  }
  return true;
}

/* ---- the whole ---- */

/* Nobody else reads what is computed inside, nor as a view. */
static bool is_closed(AttentionPattern *at, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GraphTensor *tensor = node->outputs[i];
    if (!tensor) continue;
    if (tensor->is_output) return refuse(at, "is a result of the graph", tensor);
    const GPtrArray *readers = at->readers[tensor->index];
    for (unsigned j = 0; j < readers->len; j++) {
      const GraphNode *reader = readers->pdata[j];
      bool direct = false;
      for (unsigned k = 0; k < reader->n_inputs; k++)
        direct |= reader->inputs[k] == tensor;
      if (!g_hash_table_contains(at->inside, (void *)reader) || !direct)
        return refuse(at, "is read elsewhere too", tensor);
    }
  }
  return true;
}

static bool same_batches(const GraphNode *first, const GraphNode *second)
{
  const GraphTensor *scores = first->outputs[0], *result = second->outputs[0];
  bool same = scores->rank == result->rank && scores->rank + 1 < PROGRAM_MAX_AXES;
  for (unsigned d = 0; same && d + 1 < scores->rank; d++)
    same = symbolic_same(scores->shape[d], result->shape[d]);
  return same;
}

/* What is only copied to where it is wanted, as in another shape, is written there. */
static void write_at_copy(AttentionPattern *at, GraphNode *node)
{
  const GraphTensor *tensor = node->outputs[0];
  const GPtrArray *readers = at->readers[tensor->index];
  GraphNode *copy = readers->len == 1 ? readers->pdata[0] : NULL;
  if (tensor->is_output || !copy || copy->op->id != ONNX_Identity || copy->inputs[0] != tensor) return;
  node->outputs = arena_memdup(at->fuser->arena, node->outputs, node->n_outputs * sizeof *node->outputs);
  node->outputs[0] = copy->outputs[0];
  at->producers[node->outputs[0]->index] = node;
  g_ptr_array_remove(at->fuser->live, copy);
}

static void collect_sum(AttentionPattern *at)
{
  const GPtrArray *readers = at->readers[at->softmax->inputs[0]->index];
  for (unsigned i = 0; i < readers->len && !at->sum; i++) {
    GraphNode *node = readers->pdata[i];
    bool same = node->op->id == ONNX_ReduceLogSumExp && node->inputs[0] == at->softmax->inputs[0] &&
                node->axes == at->softmax->axes;
    if (!same) continue;
    at->sum = node;
    write_at_copy(at, node);
    g_hash_table_add(at->inside, node);
  }
}

bool attention_collect(AttentionPattern *at)
{
  GHashTableIter iterator;
  gpointer node;
  if (!collect_scores(at, at->softmax->inputs[0])) return false; /* a softmax of something else */
  g_hash_table_add(at->inside, at->softmax);
  collect_sum(at);
  if (!collect_weights(at, at->softmax->outputs[0])) return false;
  if (!at->second) return false; /* it goes to no product */
  g_hash_table_add(at->inside, at->second);
  g_hash_table_iter_init(&iterator, at->inside);
  while (g_hash_table_iter_next(&iterator, &node, NULL))
    if (node != at->second && node != at->sum && !is_closed(at, node)) return false;
  return same_batches(at->first, at->second) ||
         refuse(at, "has other batches than its scores", at->second->outputs[0]);
}

/* Nodes in the order of the graph, as a group that is opened later. */
static Group *group_of(const AttentionPattern *at)
{
  Group *group = arena_new_object(at->fuser->arena, Group);
  *group = (Group){.anchor = at->second, .chained = true, .nodes = g_ptr_array_new()};
  for (unsigned i = 0; i < at->fuser->live->len; i++)
    if (g_hash_table_contains(at->inside, at->fuser->live->pdata[i]))
      g_ptr_array_add(group->nodes, at->fuser->live->pdata[i]);
  return group;
}

/* Who computes the tensor, for one reader alone; or NULL. */
static GraphNode *alone(const AttentionPattern *at, const GraphTensor *tensor)
{
  GraphNode *node = at->producers[tensor->index];
  bool own = node && at->readers[tensor->index]->len == 1 && !node->outputs[0]->is_output && !tensor->n_parts;
  return own ? node : NULL;
}

/* One number for each of the scores' matrices, by an elementwise node. */
static bool is_number_of_matrix(const AttentionPattern *at, const GraphNode *node)
{
  const GraphTensor *tensor = node->outputs[0];
  bool one = node->op->class_ == OPERATOR_ELEMENTWISE && !fuser_is_view(tensor) && !is_step(at, node);
  for (unsigned d = 0; one && d < tensor->rank && d < 2; d++)
    one = symbolic_equals(tensor->shape[tensor->rank - 1 - d], 1);
  return one;
}

/* What steps over scores alone take of numbers of batches and heads, elementwise: once a tile it costs nothing. */
static void take_numbers(AttentionPattern *at)
{
  for (unsigned i = at->fuser->live->len; i > 0; i--) { /* readers first */
    GraphNode *node = at->fuser->live->pdata[i - 1];
    if (!is_number_of_matrix(at, node)) continue;
    const GPtrArray *readers = at->readers[node->outputs[0]->index];
    bool taken = alone(at, node->outputs[0]) == node && readers->pdata[0] != at->second &&
                 readers->pdata[0] != at->first && g_hash_table_contains(at->inside, readers->pdata[0]);
    if (taken) g_hash_table_add(at->inside, node);
    at->numbers |= taken;
  }
}

static void drop_numbers(AttentionPattern *at)
{
  for (unsigned i = 0; i < at->fuser->live->len; i++) {
    GraphNode *node = at->fuser->live->pdata[i];
    if (is_number_of_matrix(at, node)) g_hash_table_remove(at->inside, node);
  }
}

static void judge_again(AttentionPattern *at, Group **group, ProgramVerdict *verdict)
{
  g_ptr_array_unref((*group)->nodes);
  *group = group_of(at);
  *verdict = fuser_judge(at->fuser, *group, at->second->outputs[0], false);
}

/* Who gathers pages that the tensor shows; or NULL. */
static GraphNode *gatherer_of(const AttentionPattern *at, const GraphTensor *tensor)
{
  GraphNode *node = alone(at, tensor);
  return node && program_shows_pages(at->fuser->arena, node, tensor) ? node : NULL;
}

/* Who widens the product's right operand from 8 bits; or NULL. */
static GraphNode *widener_of(const AttentionPattern *at, const GraphNode *product)
{
  const GraphTensor *tensor = product->inputs[1];
  GraphNode *node = alone(at, tensor);
  if (!node) return NULL;
  bool gathered = node->n_inputs && gatherer_of(at, node->inputs[0]);
  bool shows = program_shows_widened(at->fuser->arena, node, product, gathered, product == at->second);
  return shows ? node : NULL;
}

/* What is gathered or in memory of the product's right operand. */
static const GraphTensor *stored_operand(const AttentionPattern *at, const GraphNode *product)
{
  const GraphNode *widener = at->widened ? widener_of(at, product) : NULL;
  return widener ? widener->inputs[0] : product->inputs[1];
}

/* The type of what is in memory of the product's right operand, if somebody widens it: that node, or, where take_scales knew of it
 * before, the product itself. */
static NumberType widened_type(const AttentionPattern *at, const GraphNode *product, GraphNode **widener)
{
  *widener = widener_of(at, product);
  return *widener ? (*widener)->inputs[0]->type : product->inputs[1]->type;
}

/* Queries of the keys' type of 8 bits, where weights may be rounded to it: all of them are multiplied as they are. */
static void take_narrow(AttentionPattern *at, NumberType type)
{
  const GraphAttribute *weights = graph_attribute_find(at->softmax, "weights");
  GraphNode *node = alone(at, at->first->inputs[0]);
  bool same = node && weights && !strcmp(weights->text, number_name(type)) && node->n_inputs &&
              node->inputs[0]->type == type &&
              program_shows_widened_queries(at->fuser->arena, node, at->first);
  at->narrow = same ? node : NULL;
  if (same) g_hash_table_add(at->inside, node);
}

/* Keys and values of 8 bits: nobody has to write them down wider. */
static void take_widened(AttentionPattern *at)
{
  GraphNode *wideners[2];
  NumberType keys = widened_type(at, at->first, &wideners[0]),
             values = widened_type(at, at->second, &wideners[1]);
  at->widened = (wideners[0] || wideners[1]) && wideners[0] != wideners[1] && keys == values;
  for (unsigned i = 0; at->widened && i < G_N_ELEMENTS(wideners); i++)
    if (wideners[i]) g_hash_table_add(at->inside, wideners[i]);
  if (wideners[0] && wideners[1] && at->widened) take_narrow(at, keys);
}

static void widen_first(AttentionPattern *at, const char *why)
{
  const GraphNode *const products[] = {at->first, at->second};
  fuser_note(at->fuser, "keys and values of `%s` are widened first: %s", at->second->outputs[0]->name, why);
  for (unsigned i = 0; i < G_N_ELEMENTS(products); i++) {
    GraphNode *widener = widener_of(at, products[i]);
    if (widener) g_hash_table_remove(at->inside, widener);
  }
  at->widened = false;
}

/* Many queries read each key often: what widens keys and values in the kernel, again for each tile, takes longer than their products. */
static bool has_many_queries(const AttentionPattern *at)
{
  const GraphTensor *scores = at->first->outputs[0];
  int64_t rows;
  return !symbolic_is_constant(scores->shape[scores->rank - 2], &rows) || rows > FEW_QUERIES;
}

/* The group as it is, or without numbers of heads, or what widens its operands, where the family does not take these. */
static ProgramVerdict judge(AttentionPattern *at, Group **group)
{
  const GraphTensor *result = at->second->outputs[0];
  ProgramVerdict verdict = fuser_judge(at->fuser, *group, result, false);
  if (!verdict.taken && at->narrow) {
    fuser_note(at->fuser, "`%s` is multiplied in 16 bits: %s", at->narrow->inputs[0]->name, verdict.why);
    g_hash_table_remove(at->inside, at->narrow);
    at->narrow = NULL;
    if (has_many_queries(at)) widen_first(at, "its queries are many");
    judge_again(at, group, &verdict);
  }
  if (!verdict.taken && at->numbers) {
    drop_numbers(at);
    judge_again(at, group, &verdict);
  }
  if (verdict.taken || !at->widened) return verdict;
  widen_first(at, verdict.why);
  judge_again(at, group, &verdict);
  return verdict;
}

/* Keys and values that are gathered page by page: nobody has to write them down, if the family takes it so. */
static bool take_pages(AttentionPattern *at, Group **group, ProgramVerdict *verdict)
{
  GraphNode *keys = gatherer_of(at, stored_operand(at, at->first)),
            *values = gatherer_of(at, stored_operand(at, at->second));
  if (!keys || !values || keys == values) return false;
  g_hash_table_add(at->inside, keys);
  g_hash_table_add(at->inside, values);
  Group *with = group_of(at);
  *verdict = fuser_judge(at->fuser, with, at->second->outputs[0], false);
  GraphNode *narrow = at->narrow;
  if (!verdict->taken && narrow &&
      !has_many_queries(at)) { /* bytes of pages are more than those of queries */
    g_hash_table_remove(at->inside, narrow);
    at->narrow = NULL;
    judge_again(at, &with, verdict);
  }
  g_ptr_array_unref(verdict->taken ? (*group)->nodes : with->nodes);
  if (!verdict->taken) {
    g_hash_table_remove(at->inside, keys);
    g_hash_table_remove(at->inside, values);
    at->narrow = narrow;
    if (narrow) g_hash_table_add(at->inside, narrow);
  }
  if (verdict->taken)
    *group = with;
  else
    fuser_note(at->fuser, "pages of `%s` and `%s` are gathered first: %s", keys->outputs[0]->name,
               values->outputs[0]->name, verdict->why);
  return verdict->taken;
}

/* What is added to the scores of many queries, or hides them, and does not lie along keys: an exporter's bias of positions, whose heads are
 * innermost. Tiles would take it element by element. */
static bool lies_across(const AttentionPattern *at, const GraphTensor *tensor)
{
  const GraphTensor *scores = at->first->outputs[0];
  unsigned last = tensor->rank - 1;
  return tensor->rank >= 2 && fuser_is_view(tensor) && !number_is_packed(tensor->type) &&
         symbolic_same(tensor->shape[last], scores->shape[scores->rank - 1]) &&
         !symbolic_equals(tensor->shape[last], 1) && !symbolic_equals(tensor->strides[last], 0) &&
         !symbolic_equals(tensor->strides[last], 1);
}

static bool reads(const GraphNode *node, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] == tensor) return true;
  return false;
}

static void copy_along_keys(AttentionPattern *at, const GraphNode *reader, GraphTensor *source)
{
  Fuser *fuser = at->fuser;
  GraphTensor *copy = fuser_make_copy(fuser, reader, source, source->shape, source->rank, source->rank - 1,
                                      number_elements(source->type, 16));
  unsigned place = 0;
  while (!reads(fuser->live->pdata[place], source))
    place++;
  g_ptr_array_add(fuser->tensors, copy);
  GraphNode *node = fuser_copy_node(fuser, reader, source, copy);
  copy->producer = node;
  at->producers[copy->index] = node;
  fuser_replace_input(fuser, source, copy); /* attention of all layers has one bias */
  g_ptr_array_insert(fuser->live, (gint)place, node);
  fuser_note(fuser, "`%s` is copied for %s: it does not lie along keys", source->name, reader->op->name);
}

static void copy_steps(AttentionPattern *at, const Group *group)
{
  if (!has_many_queries(at)) return;
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned j = 0; node->op->class_ == OPERATOR_ELEMENTWISE && j < node->n_inputs; j++)
      if (node->inputs[j] && lies_across(at, node->inputs[j])) copy_along_keys(at, node, node->inputs[j]);
  }
}

/* Who puts a new row of each batch into the caches that both products read, and nobody else; or NULL. */
static GraphNode *joiner_of(const AttentionPattern *at, bool paged)
{
  const GraphNode *const products[] = {at->first, at->second};
  GraphNode *node = NULL;
  unsigned n_readers = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(products); i++) {
    const GraphNode *widener = at->widened ? widener_of(at, products[i]) : NULL;
    const GraphTensor *stored = stored_operand(at, products[i]);
    const GraphNode *gather = paged ? gatherer_of(at, stored) : NULL;
    GraphNode *producer = at->producers[(gather ? gather->inputs[0] : stored)->index];
    if (!producer || (i && producer != node) || paged != (gather != NULL) ||
        !program_shows_joined(at->fuser->arena, producer, products[i], widener, gather))
      return NULL;
    node = producer;
  }
  for (unsigned i = 0; i < node->n_outputs; i++)
    n_readers += node->outputs[i] ? at->readers[node->outputs[i]->index]->len : 0;
  return n_readers == G_N_ELEMENTS(products) ? node : NULL;
}

/* New rows go into their caches by the attention's kernel, if the family takes it so. */
static bool take_rows(AttentionPattern *at, Group **group, bool paged, ProgramVerdict *verdict)
{
  GraphNode *node = joiner_of(at, paged);
  if (!node) return false;
  g_hash_table_add(at->inside, node);
  Group *with = group_of(at);
  ProgramVerdict judged = fuser_judge(at->fuser, with, at->second->outputs[0], false);
  g_ptr_array_unref(judged.taken ? (*group)->nodes : with->nodes);
  if (judged.taken)
    *group = with, *verdict = judged;
  else
    g_hash_table_remove(at->inside, node);
  fuser_note(
      at->fuser, "rows of `%s` go into it by %s%s", node->outputs[0]->name,
      judged.taken ? "the attention behind" : "a kernel of their own: ", judged.taken ? "" : judged.why);
  return judged.taken;
}

/* In front of what anybody else reads of the pattern: nothing there depends on it. */
static bool is_in_front(const AttentionPattern *at, const GraphNode *node)
{
  for (unsigned i = 0; i < at->fuser->live->len; i++) {
    const GraphNode *live = at->fuser->live->pdata[i];
    if (live == node) return true;
    if (live == at->second || live == at->sum) return false;
  }
  return false;
}

/* Is the node computed, elementwise, from what follows from the log-sum-exp, beside the result and what is known in front of the products? */
static bool follows_sum(const AttentionPattern *at, const GraphNode *node, GHashTable *follows)
{
  bool alike = node->n_outputs == 1 && node->outputs[0]->rank == at->second->outputs[0]->rank, found = false;
  if (node->op->class_ != OPERATOR_ELEMENTWISE || !alike) return false;
  for (unsigned i = 0; i < node->n_inputs; i++)
    found |= node->inputs[i] && g_hash_table_contains(follows, at->producers[node->inputs[i]->index]);
  for (unsigned i = 0; found && i < node->n_inputs; i++) {
    const GraphTensor *tensor = node->inputs[i];
    GraphNode *producer = tensor ? at->producers[tensor->index] : NULL;
    bool inside = producer && (producer == at->second || g_hash_table_contains(follows, producer));
    if (inside ? tensor != producer->outputs[0] : producer && !is_in_front(at, producer))
      return false; /* a view, or what may depend on it */
  }
  return found;
}

/* The node that gives what they alone read of one number for each matrix, as it casts a sink; or NULL. */
static GraphNode *number_of(const AttentionPattern *at, const GraphTensor *tensor, GHashTable *follows)
{
  GraphNode *node = tensor ? at->producers[tensor->index] : NULL;
  if (!node || tensor != node->outputs[0] || tensor->is_output || !is_number_of_matrix(at, node)) return NULL;
  const GPtrArray *readers = at->readers[tensor->index];
  for (unsigned i = 0; i < readers->len; i++)
    if (!g_hash_table_contains(follows, readers->pdata[i])) return NULL;
  return is_in_front(at, node) && !g_hash_table_contains(at->inside, node) ? node : NULL;
}

static void take_numbers_of_shares(const AttentionPattern *at, GPtrArray *taken, GHashTable *follows)
{
  for (unsigned i = taken->len; i > 0; i--) {
    const GraphNode *node = taken->pdata[i - 1];
    for (unsigned j = 0; j < node->n_inputs; j++) {
      GraphNode *number = number_of(at, node->inputs[j], follows);
      if (number && g_hash_table_add(follows, number)) g_ptr_array_add(taken, number);
    }
  }
}

/* What shares the result with a sink, and the sums that have it: the kernel has both in registers. */
static void take_shares(AttentionPattern *at, Group **group)
{
  g_autoptr(GHashTable) follows = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) taken = g_ptr_array_new();
  unsigned rank = at->second->outputs[0]->rank;
  if (!at->sum || at->sum->outputs[0]->rank != rank) return; /* no column beside the result */
  g_hash_table_add(follows, at->sum);
  for (unsigned i = 0; i < at->fuser->live->len; i++) {
    GraphNode *node = at->fuser->live->pdata[i];
    if (g_hash_table_contains(at->inside, node) || !follows_sum(at, node, follows)) continue;
    g_hash_table_add(follows, node);
    g_ptr_array_add(taken, node);
  }
  if (!taken->len) return;
  const GraphTensor *last = ((GraphNode *)taken->pdata[taken->len - 1])->outputs[0];
  take_numbers_of_shares(at, taken, follows);
  for (unsigned i = 0; i < taken->len; i++)
    g_hash_table_add(at->inside, taken->pdata[i]);
  Group *with = group_of(at);
  ProgramVerdict verdict = fuser_judge(at->fuser, with, last, false);
  g_ptr_array_unref(verdict.taken ? (*group)->nodes : with->nodes);
  if (verdict.taken) *group = with;
  for (unsigned i = 0; !verdict.taken && i < taken->len; i++)
    g_hash_table_remove(at->inside, taken->pdata[i]);
  fuser_note(at->fuser, "`%s`, which follows from the sums of `%s`, is computed %s%s", last->name,
             at->second->outputs[0]->name,
             verdict.taken ? "beside it" : "apart: ", verdict.taken ? "" : verdict.why);
}

static void fuse(AttentionPattern *at)
{
  Fuser *fuser = at->fuser;
  if (!attention_collect(at)) {
    if (at->why && at->second)
      fuser_note(fuser, "%s of `%s` is no part of an attention: %s", at->softmax->op->name,
                 at->softmax->inputs[0]->name, at->why);
    return;
  }
  take_widened(at);
  take_numbers(at);
  Group *group = group_of(at);
  ProgramVerdict verdict;
  bool paged = take_pages(at, &group, &verdict);
  if (!take_rows(at, &group, paged, &verdict) && !paged) verdict = judge(at, &group);
  if (!verdict.taken) {
    fuser_note(fuser, "attention `%s` is computed in parts: %s", at->second->outputs[0]->name, verdict.why);
    g_ptr_array_unref(group->nodes);
    return;
  }
  take_shares(at, &group);
  if (paged) fuser_note(fuser, "pages of keys and values are read where they lie");
  if (at->narrow)
    fuser_note(fuser, "queries, keys, weights and values are multiplied in 8 bits");
  else if (at->widened)
    fuser_note(fuser, "keys and values of 8 bits are widened in its kernel");
  fuser_note(fuser, "attention `%s` is one kernel: `%s` stays in its registers", at->second->outputs[0]->name,
             at->first->outputs[0]->name);
  for (unsigned i = 0; i < group->nodes->len; i++)
    g_hash_table_insert(fuser->chains, group->nodes->pdata[i], group);
  copy_steps(at, group);
}

#define NEW_TENSORS 4 /* that visits make for a node: nobody is known to compute them */

static void visit_nodes(Fuser *fuser, void (*visit)(AttentionPattern *), void (*each)(AttentionPattern *))
{
  unsigned n = fuser->tensors->len;
  g_autofree GraphNode **producers = g_new0(GraphNode *, n + NEW_TENSORS * fuser->live->len + 1);
  g_autofree GPtrArray **readers = g_new0(GPtrArray *, n + 1);
  for (unsigned i = 0; i < n; i++)
    readers[i] = g_ptr_array_new();
  for (unsigned i = 0; i < fuser->live->len; i++) {
    GraphNode *node = fuser->live->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j]) producers[node->outputs[j]->index] = node;
    for (unsigned j = 0; j < node->n_inputs; j++) {
      GPtrArray *list = node->inputs[j] ? readers[node->inputs[j]->index] : NULL;
      bool again = list && list->len && list->pdata[list->len - 1] == node; /* it reads the tensor twice */
      if (list && !again) g_ptr_array_add(list, node);
    }
  }
  AttentionPattern at = {.fuser = fuser, .producers = producers, .readers = readers, .visit = each};
  visit(&at);
  for (unsigned i = 0; i < n; i++)
    g_ptr_array_unref(readers[i]);
}

static void visit_softmax(AttentionPattern *whole)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(whole->fuser->live, NULL, NULL); /* visits may insert some */
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    if (node->op->id != ONNX_Softmax || node->axes != 1u << (node->inputs[0]->rank - 1)) continue;
    g_autoptr(GHashTable) inside = g_hash_table_new(NULL, NULL);
    AttentionPattern at = *whole;
    at.inside = inside;
    at.softmax = node;
    whole->visit(&at);
  }
}

void attention_visit_nodes(Fuser *fuser, void (*visit)(AttentionPattern *))
{
  visit_nodes(fuser, visit, NULL);
}

void attention_visit(Fuser *fuser, void (*visit)(AttentionPattern *))
{
  visit_nodes(fuser, visit_softmax, visit);
}

/* Rows of sequences too, whose operator is a kernel of its own. */
static void write_sequences(AttentionPattern *at)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(at->fuser->live, NULL, NULL); /* without copies then */
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    if (node->op->id == ONNX_VarlenAttention) write_at_copy(at, node);
  }
}

void fusion_fuse_attention(Fuser *fuser)
{
  attention_visit_nodes(fuser, write_sequences);
  attention_visit(fuser, fuse);
}

/* ---- the group ---- */

bool fuser_is_chained(const Fuser *fuser, const GraphNode *node)
{
  return g_hash_table_contains(fuser->chains, node);
}

bool fusion_open_attention(Fuser *fuser, unsigned place)
{
  GraphNode *node = fuser->nodes->pdata[place];
  Group *group = g_hash_table_lookup(fuser->chains, node);
  if (!group || node != group->anchor) return false;
  fuser_open_chain(fuser, group);
  return false;
}
