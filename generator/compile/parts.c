/* The plan of a graph with loops. Parts are compiled as graphs of their own, so that nothing of one is fused with anything of
 * another; their launches are then given the tensors of the whole, and those of a body become a repeat, in which a tensor is
 * followed by an offset that the counter says. A body's launch that does all times of its loop stands in front of the repeat, which is for
 * where the launch's guard does not hold. */
#include "generator/compile/parts.h"
#include "generator/front/cut.h"
#include <string.h>

#define COUNTER "step"

/* Where a tensor of a part lies. */
typedef struct {
  PlanTensor *tensor;
  const Symbolic *offset; /* bytes; NULL: 0 */
  unsigned align;         /* of the offset */
} Place;

typedef struct {
  const Graph *graph;
  Plan *plan;
  CompileResult *result;
  const char *counter;
  GHashTable *names;  /* of kernels; compile_graph() */
  GPtrArray *results; /* CompileResult * of the parts */
  unsigned index;     /* of the part */
  /* of the part that is being taken over */
  const Plan *from;
  Place *places; /* by from->tensors */
  Place *first;  /* the same at the first time of a loop, for a launch that does all of them */
} Parts;

static const Symbolic *number(const Parts *p, int64_t value)
{
  return symbolic_constant(p->plan->arena, value);
}

/* ---- tensors ---- */

static PlanTensor *add_tensor(Plan *plan, PlanTensorKind kind, const GraphTensor *tensor)
{
  return plan_add_tensor(plan, kind, tensor->name, tensor->type, tensor->rank, tensor->shape, tensor->strides,
                         tensor->align);
}

/* Elements of one of the two places of a state. */
static const Symbolic *slot_elements(const Parts *p, const GraphTensor *state)
{
  Arena *arena = p->plan->arena;
  const Symbolic *n = number(p, 1),
                 *step = number(p, GRAPH_PART_ALIGN / (int64_t)number_bytes_of(state->type, 1));
  for (unsigned d = 0; d < state->rank; d++)
    n = symbolic_mul(arena, n, state->shape[d]);
  return symbolic_mul(arena, step, symbolic_ceil_div(arena, n, step));
}

static PlanTensor *ring_of(const Parts *p, const GraphTensor *state)
{
  PlanTensor *ring = plan_tensor(p->plan, state->name);
  const Symbolic *const shape[] = {number(p, 2), slot_elements(p, state)};
  if (ring) return ring;
  return plan_add_tensor(p->plan, PLAN_WORKSPACE, state->name, state->type, 2, shape, NULL, GRAPH_PART_ALIGN);
}

/* Place `which` of a state. */
static Place place_in_ring(const Parts *p, const GraphTensor *state, const Symbolic *which)
{
  Arena *arena = p->plan->arena;
  const Symbolic *bytes =
      symbolic_mul(arena, slot_elements(p, state), number(p, (int64_t)number_bytes_of(state->type, 1)));
  const Symbolic *turn = symbolic_binary(arena, SYMBOLIC_MOD, which, number(p, 2));
  return (Place){ring_of(p, state), symbolic_mul(arena, turn, bytes), GRAPH_PART_ALIGN};
}

/* A tensor of the whole that is none of a loop's states. */
static Place place_whole(const Parts *p, const GraphTensor *of)
{
  PlanTensor *known = plan_tensor(p->plan, of->name);
  if (of->producer && of->producer->op->id == ONNX_LoopNext && !of->is_output) {
    const GraphTensor *state = of->producer->inputs[1];
    return place_in_ring(p, state, graph_state_loop(state)->count);
  }
  if (!known && of->kind == TENSOR_CONSTANT) known = add_tensor(p->plan, PLAN_CONSTANT, of);
  if (!known) known = add_tensor(p->plan, PLAN_WORKSPACE, of);
  return (Place){known, NULL, GRAPH_PART_ALIGN};
}

static Place place_element(const Parts *p, const GraphPartTensor *tensor, const GraphLoop *loop)
{
  Arena *arena = p->plan->arena;
  Place place = place_whole(p, tensor->of);
  const Symbolic *at = symbolic_symbol(arena, p->counter);
  if (tensor->reverse) at = symbolic_sub(arena, symbolic_sub(arena, loop->count, number(p, 1)), at);
  at = symbolic_mul(arena, at, graph_step_bytes(arena, tensor->of));
  place.offset = place.offset ? symbolic_add(arena, place.offset, at) : at;
  place.align = graph_step_align(p->graph, tensor->of);
  return place;
}

static Place place_of(const Parts *p, const GraphPartTensor *tensor, const GraphLoop *loop)
{
  Arena *arena = p->plan->arena;
  const Symbolic *step = symbolic_symbol(arena, p->counter);
  switch (tensor->role) {
  case GRAPH_PART_WHOLE: return place_whole(p, tensor->of);
  case GRAPH_PART_ELEMENT: return place_element(p, tensor, loop);
  case GRAPH_PART_FIRST: return place_in_ring(p, tensor->of, number(p, 0));
  case GRAPH_PART_STATE: return place_in_ring(p, tensor->of, step);
  case GRAPH_PART_NEXT: return place_in_ring(p, tensor->of, symbolic_add(arena, step, number(p, 1)));
  case GRAPH_PART_LAST: return place_in_ring(p, tensor->of, graph_state_loop(tensor->of)->count);
  }
  g_assert_not_reached();
}

/* Where the first element, or the first place of a state, lies: from there on the kernel counts (gemm_in_times()). */
static Place place_first(const Parts *p, const GraphPartTensor *tensor, const GraphLoop *loop)
{
  Place place = place_of(p, tensor, loop);
  switch (tensor->role) {
  case GRAPH_PART_ELEMENT:
    place.offset = place_whole(p, tensor->of).offset;
    if (!place.offset) place.offset = number(p, 0);
    return place;
  case GRAPH_PART_STATE:
  case GRAPH_PART_NEXT: return place_in_ring(p, tensor->of, number(p, 0));
  case GRAPH_PART_WHOLE:
  case GRAPH_PART_FIRST:
  case GRAPH_PART_LAST: break;
  }
  return place;
}

/* A constant is the whole's, unless the part stacks several; what else the part has for itself gets a name of its own. */
static Place place_own(const Parts *p, const PlanTensor *tensor)
{
  PlanTensor *known = plan_tensor(p->plan, tensor->name);
  bool shared = tensor->kind == PLAN_CONSTANT && !tensor->n_stacks;
  if (shared && known) return (Place){known, NULL, GRAPH_PART_ALIGN};
  const char *name = tensor->name;
  if (known) name = arena_printf(p->plan->arena, "%s.part%u", tensor->name, p->index);
  PlanTensor *added = plan_add_tensor(p->plan, tensor->kind, name, tensor->type, tensor->rank, tensor->shape,
                                      tensor->strides, tensor->align);
  added->zero = tensor->zero;
  added->n_stacks = tensor->n_stacks;
  added->stacks = arena_new_array(p->plan->arena, PlanPart, tensor->n_stacks);
  for (unsigned i = 0; i < tensor->n_stacks; i++)
    added->stacks[i] =
        (PlanPart){arena_strdup(p->plan->arena, tensor->stacks[i].name), tensor->stacks[i].columns};
  return (Place){added, NULL, GRAPH_PART_ALIGN};
}

static void place_tensors(Parts *p, const GraphPart *part)
{
  for (unsigned i = 0; i < part->tensors->len; i++) {
    const GraphPartTensor *tensor = &g_array_index(part->tensors, GraphPartTensor, i);
    const PlanTensor *own = plan_tensor(p->from, tensor->own->name);
    Place place = place_of(p, tensor, part->loop);
    p->places[own->index] = place;
    place.tensor->stays = place.tensor->stays || own->stays;
  }
  for (unsigned i = 0; i < p->from->n_tensors; i++)
    if (!p->places[i].tensor) p->places[i] = place_own(p, p->from->tensors[i]);
  p->first = arena_memdup(p->plan->arena, p->places, (p->from->n_tensors + 1) * sizeof *p->places);
  for (unsigned i = 0; i < part->tensors->len; i++) {
    const GraphPartTensor *tensor = &g_array_index(part->tensors, GraphPartTensor, i);
    p->first[plan_tensor(p->from, tensor->own->name)->index] = place_first(p, tensor, part->loop);
  }
}

/* ---- launches ---- */

/* How a tensor of the part is aligned is known from where it lies. */
static const Symbolic *replace_align(const Symbolic *leaf, void *data)
{
  const Parts *p = data;
  if (leaf->kind != SYMBOLIC_ALIGN) return NULL;
  const Place *place = &p->places[plan_tensor(p->from, leaf->name)->index];
  const Symbolic *align = symbolic_align(p->plan->arena, place->tensor->name);
  if (!place->offset) return align;
  return symbolic_binary(p->plan->arena, SYMBOLIC_MIN, align, number(p, place->align));
}

static void take_argument(Parts *p, PlanArgument *argument)
{
  Arena *arena = p->plan->arena;
  argument->name = arena_strdup(arena, argument->name);
  if (!argument->tensor) return;
  const Place *place = &p->places[argument->tensor->index];
  argument->tensor = place->tensor;
  if (place->offset)
    argument->offset =
        argument->offset ? symbolic_add(arena, argument->offset, place->offset) : place->offset;
}

static void take_variant(Parts *p, PlanLaunch *launch, const PlanVariant *of)
{
  Arena *arena = p->plan->arena;
  PlanVariant *variant = plan_add_variant(p->plan, launch, of->kernel, of->entry);
  const char *kernel = variant->kernel, *entry = variant->entry;
  *variant = *of;
  variant->kernel = kernel;
  variant->entry = entry;
  variant->text = arena_strdup(arena, of->text);
  variant->cubin = arena_strdup(arena, of->cubin);
  variant->note = arena_strdup(arena, of->note);
  if (of->guard) variant->guard = symbolic_substitute(arena, of->guard, replace_align, p);
  variant->arguments = arena_memdup(arena, of->arguments, of->n_arguments * sizeof *of->arguments);
  for (unsigned i = 0; i < of->n_arguments; i++)
    take_argument(p, &variant->arguments[i]);
}

/* Launches from `first` on that no other behind it waits for. */
static void depend_on_part(Plan *plan, PlanLaunch *launch, unsigned first, unsigned end)
{
  for (unsigned i = first; i < end; i++) {
    bool waited_for = false;
    for (unsigned j = i + 1; j < end && !waited_for; j++)
      for (unsigned k = 0; k < plan->launches[j]->n_depends; k++)
        waited_for |= plan->launches[j]->depends_on[k].launch == i;
    if (!waited_for) plan_add_dependency(plan, launch, plan->launches[i], false);
  }
}

/* before: where the launches of the part in front begin; in_times: so many of this part's do all times of its loop. */
static void take_launches(Parts *p, const GraphPart *part, unsigned before, unsigned in_times)
{
  Plan *plan = p->plan;
  unsigned first = plan->n_launches;
  Place *places = p->places;
  for (unsigned i = 0; i < p->from->n_launches; i++) {
    const PlanLaunch *of = p->from->launches[i];
    PlanLaunch *launch = plan_add_launch(plan, of->name);
    p->places = i < in_times ? p->first : places;
    for (unsigned j = 0; j < of->n_variants; j++)
      take_variant(p, launch, of->variants[j]);
    for (unsigned j = 0; j < of->n_depends; j++)
      plan_add_dependency(plan, launch, plan->launches[first + of->depends_on[j].launch],
                          of->depends_on[j].dependent);
    if (!of->n_depends) depend_on_part(plan, launch, before, first);
    if (!of->n_depends) compile_allow_overlap(plan, launch);
  }
  p->places = places;
  if (part->loop && plan->n_launches > first + in_times)
    plan_add_repeat(plan, plan->n_launches - first - in_times, p->counter, part->loop->count);
}

/* ---- kernels ---- */

static const CompiledKernel *kernel_called(const CompileResult *result, const char *name)
{
  for (unsigned i = 0; i < result->kernels->len; i++) {
    const CompiledKernel *kernel = result->kernels->pdata[i];
    if (!strcmp(kernel->name, name)) return kernel;
  }
  return NULL;
}

/* Kernels of one name are one. */
static bool take_kernels(Parts *p, CompileResult *of, GError **error)
{
  while (of->kernels->len) {
    CompiledKernel *kernel = g_ptr_array_steal_index(of->kernels, 0);
    const CompiledKernel *known = kernel_called(p->result, kernel->name);
    if (!known) {
      g_ptr_array_add(p->result->kernels, kernel);
      continue;
    }
    bool same = !strcmp(known->text, kernel->text);
    if (!same)
      error_set(error, ERROR_INTERNAL, NULL, "kernel-name", NULL, "two kernels are called %s", kernel->name);
    compiled_kernel_free(kernel);
    if (!same) return false;
  }
  return true;
}

/* ---- the whole ---- */

static void declare(const Parts *p)
{
  const Graph *graph = p->graph;
  for (unsigned i = 0; i < graph->n_dims; i++)
    if (!graph->dims[i].bound)
      plan_add_symbol(p->plan, graph->dims[i].name, graph->dims[i].min, graph->dims[i].max,
                      graph->dims[i].multiple);
  for (unsigned i = 0; i < graph->n_inputs; i++)
    add_tensor(p->plan, PLAN_INPUT, graph->inputs[i]);
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    const GraphTensor *output = graph->outputs[i];
    PlanTensor *tensor = add_tensor(p->plan, PLAN_OUTPUT, output);
    if (output->memory) tensor->memory = plan_tensor(p->plan, output->memory->name);
  }
}

/* No symbol's. */
static const char *counter_name(const Graph *graph, Arena *arena)
{
  const char *name = COUNTER;
  for (unsigned i = 0; i < graph->n_dims; i++)
    if (!strcmp(graph->dims[i].name, name)) {
      name = arena_printf(arena, "%s_", name);
      i = G_MAXUINT; /* all again */
    }
  return name;
}

/* How the tensors of a loop's body lie from time to time. */
static const GraphTimes *times_of(const Parts *p, const GraphPart *part)
{
  if (!part->loop) return NULL;
  Arena *arena = p->plan->arena;
  GraphTime *of = arena_new_array(arena, GraphTime, part->tensors->len);
  unsigned n = 0;
  for (unsigned i = 0; i < part->tensors->len; i++) {
    const GraphPartTensor *tensor = &g_array_index(part->tensors, GraphPartTensor, i);
    const char *name = tensor->own->name;
    switch (tensor->role) {
    case GRAPH_PART_ELEMENT:
      of[n++] = (GraphTime){.tensor = name,
                            .kind = tensor->reverse ? GRAPH_TIME_REVERSED : GRAPH_TIME_ELEMENT,
                            .stride = tensor->of->strides[0]};
      break;
    case GRAPH_PART_STATE:
    case GRAPH_PART_NEXT:
      of[n++] = (GraphTime){name, tensor->role == GRAPH_PART_NEXT ? GRAPH_TIME_NEXT : GRAPH_TIME_STATE,
                            tensor->of->name, slot_elements(p, tensor->of)};
      break;
    case GRAPH_PART_WHOLE:
    case GRAPH_PART_FIRST:
    case GRAPH_PART_LAST: break;
    }
  }
  GraphTimes *times = arena_new_object(arena, GraphTimes);
  *times = (GraphTimes){part->loop->count, of, n};
  return times;
}

static bool take_part(Parts *p, const GraphPart *part, const Gpu *gpu, const CompileOptions *asked,
                      unsigned before, GString *explain, GError **error)
{
  part->graph->times = times_of(p, part);
  CompileResult *compiled = compile_graph(part->graph, gpu, asked, p->names, error);
  if (!compiled) return false;
  g_ptr_array_add(p->results, compiled);
  p->from = compiled->plan;
  p->places = arena_new_array(p->plan->arena, Place, p->from->n_tensors + 1);
  if (part->loop) {
    g_autofree char *count = symbolic_text(part->loop->count);
    g_string_append_printf(explain, compiled->in_times ? "%s times in one launch:\n" : "repeated %s times:\n",
                           count);
  }
  g_string_append(explain, compiled->explain);
  place_tensors(p, part);
  take_launches(p, part, before, compiled->in_times);
  p->index++;
  return take_kernels(p, compiled, error);
}

static void result_free(void *result)
{
  compile_result_free(result);
}

static void kernel_free(void *kernel)
{
  compiled_kernel_free(kernel);
}

static CompileResult *compile_parts(const Graph *graph, const Gpu *gpu, const CompileOptions *asked,
                                    GError **error)
{
  g_autoptr(CompileResult) result = g_new0(CompileResult, 1);
  result->kernels = g_ptr_array_new_with_free_func(kernel_free);
  result->plan = plan_new(graph->name, gpu->name, gpu->target, gpu->hash);
  result->plan->sms = asked ? asked->sm_budget : 0;
  g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  g_autoptr(GPtrArray) parts = graph_cut(graph), results = g_ptr_array_new_with_free_func(result_free);
  g_autoptr(GString) explain = g_string_new(NULL);
  Parts p = {.graph = graph, .plan = result->plan, .result = result, .names = names, .results = results};
  p.counter = counter_name(graph, result->plan->arena);
  declare(&p);
  unsigned before = 0;
  for (unsigned i = 0; i < parts->len; i++) {
    unsigned first = p.plan->n_launches;
    if (!take_part(&p, parts->pdata[i], gpu, asked, before, explain, error)) return NULL;
    if (p.plan->n_launches > first) before = first;
  }
  result->explain = g_strdup(explain->str);
  compile_order_sharers(p.plan);
  plan_place_workspace(p.plan);
  plan_own_expressions(p.plan);
  return plan_check(p.plan, error) ? g_steal_pointer(&result) : NULL;
}

CompileResult *generator_compile(const Graph *graph, const Gpu *gpu, const CompileOptions *asked,
                                 GError **error)
{
  if (graph_has_loops(graph)) return compile_parts(graph, gpu, asked, error);
  return compile_graph(graph, gpu, asked, NULL, error);
}
