/* A plan on the simulator: one simulated launch after the other, on memory of this process. */
#include "execute/execute.h"
#include "execute/keep_launch.h"
#include <string.h>

/* Launches that are simulated as overlapping: each holds its blocks' memory. */
#define MOST_AT_ONCE 64

typedef struct Simulation {
  Execution *x;
  const SimOptions *options;
  ExecutionFaults *faults;
  uint8_t *workspace;
  uint64_t *addresses; /* for guards, as plan->tensors */
  bool *written;       /* outputs and workspace tensors that a launch was given already */
  uint64_t **defined; /* of tensors by their place: bits of the bytes that launches have written; NULL: all */
  GPtrArray *launched; /* const char *: kernels, in order */
  GHashTable *modules; /* kernel name -> SimModule */
} Simulation;

/* Bytes from .. up to below `to` count as written, or as not. */
static void define(uint64_t *bits, uint64_t from, uint64_t to, bool defined)
{
  for (uint64_t i = from; i < to;) {
    uint64_t n = MIN(64 - i % 64, to - i), mask = (n == 64 ? ~0ull : (1ull << n) - 1) << i % 64;
    bits[i / 64] = defined ? bits[i / 64] | mask : bits[i / 64] & ~mask;
    i += n;
  }
}

/* No element has been written. What lies between elements is nobody's to write and counts as written. */
static uint64_t *nothing_defined(const ResolvedTensor *r)
{
  uint64_t *bits = g_malloc0(SIM_DEFINED_BYTES(r->bytes));
  const unsigned rank = r->tensor->rank;
  int64_t index[PLAN_MAX_RANK] = {0};
  if (number_bytes_of(r->tensor->type, r->elements) == r->bytes) return bits;
  const unsigned size = number_bytes(r->tensor->type);
  define(bits, 0, r->bytes, true);
  for (uint64_t n = 0; n < r->elements; n++) {
    int64_t at = 0;
    for (unsigned i = 0; i < rank; i++)
      at += index[i] * r->strides[i];
    define(bits, (uint64_t)at * size, ((uint64_t)at + 1) * size, false);
    for (unsigned i = rank; i > 0 && ++index[i - 1] == r->shape[i - 1]; i--)
      index[i - 1] = 0;
  }
  return bits;
}

static void simulation_init(Simulation *s, Execution *x, const SimOptions *options, ExecutionFaults *faults)
{
  unsigned n = x->plan->n_tensors;
  *s = (Simulation){.x = x, .options = options, .faults = faults};
  s->workspace = g_malloc(x->workspace_bytes + 1);
  memset(s->workspace, 0xff, x->workspace_bytes);
  s->addresses = g_new0(uint64_t, n + 1);
  s->written = g_new0(bool, n + 1);
  s->defined = g_new0(uint64_t *, n + 1);
  s->launched = g_ptr_array_new();
  s->modules = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)sim_module_free);
  for (unsigned i = 0; i < n; i++) {
    const PlanTensor *tensor = x->plan->tensors[i];
    s->addresses[i] = EXECUTION_SIMULATED_BASE + x->tensors[i].skew;
    s->written[i] = tensor->kind == PLAN_INPUT || tensor->kind == PLAN_CONSTANT || tensor->zero;
    const ResolvedTensor *resolved = &x->tensors[i].resolved;
    if (tensor->zero) memset(s->workspace + resolved->offset, 0, resolved->bytes);
    if (!s->written[i]) s->defined[i] = nothing_defined(&x->tensors[i].resolved);
  }
}

static void simulation_clear(Simulation *s)
{
  for (unsigned i = 0; i < s->x->plan->n_tensors; i++)
    g_free(s->defined[i]);
  g_free(s->defined);
  g_free(s->workspace);
  g_free(s->addresses);
  g_free(s->written);
  g_hash_table_unref(s->modules);
  g_ptr_array_unref(s->launched);
}

static SimModule *find_module(Simulation *s, const CompiledKernel *kernel, GError **error)
{
  SimModule *module = g_hash_table_lookup(s->modules, kernel->name);
  if (module) return module;
  g_autofree char *name = g_strconcat(kernel->name, ".", kernel->backend->suffix, NULL);
  g_autoptr(Source) source = source_new(name, kernel->text, strlen(kernel->text));
  module = sim_module_parse(source, error);
  if (module) g_hash_table_insert(s->modules, kernel->name, module);
  return module;
}

/* ---- one launch ---- */

/* Buffers of the launches that run together. */
typedef struct Memory {
  SimBuffer *buffers;
  unsigned n_buffers;
  int *buffer_of; /* tensor -> index of its buffer, or -1 */
} Memory;

typedef struct Description {
  SimLaunch launch;
  Memory *memory;
} Description;

static bool takes(const PlanLaunch *launch, const PlanTensor *tensor)
{
  for (unsigned v = 0; v < launch->n_variants; v++)
    for (unsigned i = 0; i < launch->variants[v]->n_arguments; i++)
      if (launch->variants[v]->arguments[i].tensor == tensor) return true;
  return false;
}

/* A result of the graph that one launch alone is given: it writes all of it. */
static bool whole_by_one(const Plan *plan, unsigned tensor)
{
  unsigned n = 0;
  for (unsigned i = 0; i < plan->n_launches; i++)
    n += takes(plan->launches[i], plan->tensors[tensor]) ? plan_repeat_of(plan, i) ? 2 : 1 : 0;
  return plan->tensors[tensor]->kind == PLAN_OUTPUT && !plan->tensors[tensor]->stays && n == 1;
}

/* What is computed from elements that stay as they were may be stored: they are nobody's, there and wherever they come from. */
static bool carries(const Plan *plan, const PlanTensor *tensor)
{
  bool any = tensor->stays;
  for (unsigned i = 0; i < plan->n_tensors && tensor->kind == PLAN_WORKSPACE; i++)
    any = any || plan->tensors[i]->stays;
  return any;
}

static void describe_buffer(const Simulation *s, Memory *m, const PlanTensor *tensor)
{
  unsigned place = s->x->tensors[tensor->index].place;
  const ExecutionTensor *memory = &s->x->tensors[place];
  if (m->buffer_of[tensor->index] >= 0) return;
  if (m->buffer_of[place] < 0) {
    m->buffer_of[place] = (int)m->n_buffers;
    m->buffers[m->n_buffers++] = (SimBuffer){
        .name = s->x->plan->tensors[place]->name,
        .data = memory->data ? memory->data : s->workspace + memory->resolved.offset,
        .bytes = memory->resolved.bytes,
        .offset = memory->skew,
        .undefined = !s->written[place],
        .written = whole_by_one(s->x->plan, place) ? SIM_WRITTEN_WHOLE : SIM_WRITTEN_PART,
        .defined = s->defined[place],
        .carries = carries(s->x->plan, s->x->plan->tensors[place]),
    };
  }
  m->buffer_of[tensor->index] = m->buffer_of[place];
}

static bool describe_map(Description *d, const ResolvedArgument *resolved, GError **error)
{
  const PlanArgument *argument = resolved->argument;
  const PlanTensorMap *map = &argument->map;
  if (map->mode != PLAN_MAP_TILED) {
    error_set(error, ERROR_UNSUPPORTED, NULL, "im2col", NULL,
              "the simulator has no im2col tensor maps, which %s needs", argument->name);
    return false;
  }
  if (map->interleave != PLAN_INTERLEAVE_NONE) {
    error_set(error, ERROR_UNSUPPORTED, NULL, "interleave", NULL,
              "the simulator has no interleaved tensor maps, which %s needs", argument->name);
    return false;
  }
  SimTensorMap *out = &d->launch.tensormaps[d->launch.n_tensormaps++];
  *out = (SimTensorMap){.name = argument->name,
                        .buffer = (unsigned)d->memory->buffer_of[argument->tensor->index],
                        .buffer_offset = resolved->offset,
                        .type = map->element,
                        .rank = map->rank,
                        .swizzle = map->swizzle,
                        .fill_nan = map->fill == PLAN_FILL_NAN};
  memcpy(out->dims, resolved->dims, sizeof out->dims);
  memcpy(out->strides, resolved->strides, sizeof out->strides);
  memcpy(out->box, resolved->box, sizeof out->box);
  memcpy(out->element_strides, map->element_strides, sizeof out->element_strides);
  return true;
}

static bool describe_argument(const Simulation *s, Description *d, const ResolvedArgument *resolved,
                              GError **error)
{
  const PlanArgument *argument = resolved->argument;
  SimArgument *out = &d->launch.arguments[d->launch.n_arguments++];
  if (argument->tensor) describe_buffer(s, d->memory, argument->tensor);
  switch (argument->kind) {
  case PLAN_ARGUMENT_POINTER:
    out->kind = SIM_ARG_BUFFER;
    out->index = (unsigned)d->memory->buffer_of[argument->tensor->index];
    out->offset = resolved->offset;
    return true;
  case PLAN_ARGUMENT_TENSOR_MAP:
    out->kind = SIM_ARG_TENSORMAP;
    out->index = d->launch.n_tensormaps;
    return describe_map(d, resolved, error);
  default:
    out->kind = SIM_ARG_BYTES;
    out->n_bytes = resolved->n_bytes;
    memcpy(out->bytes, resolved->bytes, resolved->n_bytes);
    return true;
  }
}

static bool describe(const Simulation *s, Arena *arena, const ResolvedLaunch *resolved, Description *d,
                     GError **error)
{
  const PlanVariant *variant = resolved->variant;
  unsigned n = variant->n_arguments;
  d->launch = (SimLaunch){.entry = variant->entry, .shared = variant->shared};
  memcpy(d->launch.grid, resolved->grid, sizeof d->launch.grid);
  memcpy(d->launch.block, variant->block, sizeof d->launch.block);
  memcpy(d->launch.cluster, variant->cluster, sizeof d->launch.cluster);
  d->launch.buffers = d->memory->buffers;
  d->launch.tensormaps = arena_new_array(arena, SimTensorMap, n);
  d->launch.arguments = arena_new_array(arena, SimArgument, n);
  for (unsigned i = 0; i < n; i++)
    if (!describe_argument(s, d, &resolved->arguments[i], error)) return false;
  return true;
}

static void report_faults(Simulation *s, const char *launch, const SimResult *result, const SimModule *module)
{
  json_t *object = sim_result_to_json(result, module), *list = json_object_get(object, "faults");
  size_t i = 0;
  json_t *fault = NULL;
  json_array_foreach(list, i, fault)
  {
    if (!json_object_get(fault, "launch")) json_object_set_new(fault, "launch", json_string(launch));
    json_array_append(s->faults->list, fault);
  }
  json_decref(object);
  g_autofree char *text = sim_result_to_text(result, module);
  g_string_append(s->faults->text, text);
  s->faults->n_errors += result->n_errors;
}

static void report_counts(Simulation *s, const char *launch, const char *kernel, const SimResult *result)
{
  if (!result->counts) return;
  json_array_append_new(s->faults->counts, json_pack("{s:s, s:s, s:o}", "launch", launch, "kernel", kernel,
                                                     "instructions", sim_counts_to_json(result)));
  g_autofree char *table = sim_counts_to_text(result);
  g_string_append_printf(s->faults->tables, "%s: %s\n%s", launch, kernel, table);
}

static void report_stops(Simulation *s, const char *launch, const SimResult *result)
{
  size_t i = 0;
  json_t *stop = NULL;
  if (!result->breaks) return;
  json_array_foreach(result->stops, i, stop) json_object_set_new(stop, "launch", json_string(launch));
  json_array_extend(s->faults->stops, result->stops);
  json_array_extend(s->faults->breaks, result->breaks);
  g_autofree char *text = sim_stops_to_text(result);
  g_string_append(s->faults->tables, text);
}

/* A break that names no kernel of this run is a mistake, not a line that was never reached. */
static bool breaks_are_known(const Simulation *s, GError **error)
{
  for (const char *const *text = s->options->breaks; text && *text; text++) {
    bool known = false;
    size_t i = 0;
    json_t *one = NULL;
    json_array_foreach(s->faults->breaks, i, one) known |=
        !strcmp(json_string_value(json_object_get(one, "break")), *text);
    if (known) continue;
    GString *names = g_string_new("launched:");
    for (unsigned k = 0; k < s->launched->len; k++)
      g_string_append_printf(names, " %s.ptx", (const char *)s->launched->pdata[k]);
    error_set(error, ERROR_USAGE, NULL, "bad-break", names->str,
              "--break %s: no kernel of this file was launched", *text);
    g_string_free(names, TRUE);
    return false;
  }
  return true;
}

/* ---- launches that may overlap ---- */

static void report(Simulation *s, const ResolvedLaunch *const *launches, unsigned n, const SimModule *module,
                   const SimResult *result)
{
  g_autoptr(GString) names = g_string_new(NULL);
  for (unsigned i = 0; i < n; i++) {
    const ResolvedLaunch *l = launches[i];
    g_string_append_printf(names, "%s%s: %s, grid %u x %u x %u", i ? "; " : "", l->launch->name,
                           l->variant->kernel, l->grid[0], l->grid[1], l->grid[2]);
    g_ptr_array_add(s->launched, (void *)l->variant->kernel);
    json_t *one = execution_add_launch(s->faults, l);
    json_object_set_new(one, "warp_instructions", json_integer((json_int_t)result->of_steps[i]));
  }
  g_string_append_printf(s->faults->notes, "%s, %" G_GUINT64_FORMAT " warp-instructions in %.2f s\n",
                         names->str, result->instructions, result->seconds);
  s->faults->instructions += result->instructions;
  const char *name = launches[0]->launch->name;
  report_faults(s, name, result, module);
  report_stops(s, name, result);
  report_counts(s, name, launches[0]->variant->kernel, result);
}

/* As on a stream: a launch may overlap with the one right before it, waits for that one only, and must know
 * from it that all earlier ones have ended. */
static void describe_edge(unsigned i, Arena *arena, SimStep *step)
{
  SimEdge *after = arena_new_array(arena, SimEdge, 1);
  if (i) *after = (SimEdge){i - 1, true};
  step->after = after;
  step->n_after = i > 0;
}

/* One launch, or several that follow each other and whose edges let them overlap. */
static bool simulate(Simulation *s, const ResolvedLaunch *const *launches, unsigned n, Arena *arena,
                     GError **error)
{
  unsigned n_tensors = s->x->plan->n_tensors;
  Memory memory = {.buffers = arena_new_array(arena, SimBuffer, n_tensors),
                   .buffer_of = arena_new_array(arena, int, n_tensors)};
  Description *d = arena_new_array(arena, Description, n);
  SimStep *steps = arena_new_array(arena, SimStep, n);
  for (unsigned i = 0; i < n_tensors; i++)
    memory.buffer_of[i] = -1;
  for (unsigned i = 0; i < n; i++) {
    const CompiledKernel *kernel = execution_kernel(s->x, launches[i]->variant);
    const char *name = launches[i]->launch->name;
    SimModule *module = find_module(s, kernel, error);
    d[i].memory = &memory;
    if (!module || !describe(s, arena, launches[i], &d[i], error)) return false;
    d[i].launch.n_buffers = memory.n_buffers;
    steps[i] = (SimStep){.name = n > 1 ? name : NULL, .module = module, .launch = &d[i].launch};
    describe_edge(i, arena, &steps[i]);
    if (s->x->keep && !i && !keep_launch(s->x->keep, name, &d[i].launch, kernel, error)) return false;
  }
  for (unsigned i = 0; i < n; i++)
    d[i].launch.n_buffers = memory.n_buffers;
  SimResult result = {0};
  if (!sim_run_steps(steps, n, s->x->gpu, s->options, &result, error)) return false;
  report(s, launches, n, steps[0].module, &result);
  sim_result_clear(&result);
  for (unsigned i = 0; i < n_tensors; i++)
    s->written[i] |= memory.buffer_of[i] >= 0;
  return true;
}

/* What is cleared has a value. */
static void note_cleared(Simulation *s, const ResolvedLaunch *resolved)
{
  for (unsigned i = 0; i < resolved->launch->n_zero; i++)
    for (unsigned t = 0; t < s->x->plan->n_tensors; t++) {
      const ResolvedTensor *tensor = &s->x->tensors[t].resolved;
      const ResolvedRegion *zero = &resolved->zero[i];
      if (tensor->tensor->kind == PLAN_WORKSPACE && zero->offset < tensor->offset + tensor->bytes &&
          tensor->offset < zero->offset + zero->bytes) {
        uint64_t from = MAX(zero->offset, tensor->offset) - tensor->offset;
        uint64_t to = MIN(zero->offset + zero->bytes, tensor->offset + tensor->bytes) - tensor->offset;
        s->written[t] = true;
        if (s->defined[t]) define(s->defined[t], from, to, true);
      }
    }
}

/* May it overlap with the launch before it? What is cleared before it would come between. */
static bool overlaps(const ResolvedLaunch *l)
{
  return l->dependent && !l->launch->n_zero && !l->empty;
}

/* The next launches, of which those behind the first may overlap with what is in front of them. *some: there are any. */
static bool simulate_next(Simulation *s, PlanWalk *walk, bool *some, GError **error)
{
  g_autoptr(Arena) arena = arena_new();
  g_autoptr(GPtrArray) group = g_ptr_array_new();
  for (const PlanLaunch *launch = NULL;;) {
    PlanWalk ahead = *walk;
    if (!plan_walk_next(&ahead, &launch, error)) return false;
    if (!launch) break;
    ResolvedLaunch *resolved = plan_resolve(ahead.plan, launch, &ahead.bindings, arena, error);
    if (!resolved) return false;
    if (group->len && !overlaps(resolved)) break;
    g_ptr_array_add(group, resolved);
    *walk = ahead;
    if (resolved->empty || group->len == MOST_AT_ONCE) break;
  }
  *some = group->len > 0;
  if (!*some) return true;
  const ResolvedLaunch *head = group->pdata[0];
  note_cleared(s, head);
  for (unsigned i = 0; i < head->launch->n_zero; i++)
    memset(s->workspace + head->zero[i].offset, 0, head->zero[i].bytes);
  return head->empty || simulate(s, (const ResolvedLaunch *const *)group->pdata, group->len, arena, error);
}

/* What launches promise to leave zero. */
static void check_zero(Simulation *s)
{
  for (unsigned i = 0; i < s->x->plan->n_tensors; i++) {
    const ResolvedTensor *resolved = &s->x->tensors[i].resolved;
    const char *name = s->x->plan->tensors[i]->name;
    const uint8_t *bytes = s->workspace + resolved->offset;
    uint64_t at = 0;
    while (s->x->plan->tensors[i]->zero && at < resolved->bytes && !bytes[at])
      at++;
    if (!s->x->plan->tensors[i]->zero || at == resolved->bytes) continue;
    g_autofree char *text = g_strdup_printf(
        "byte %" G_GUINT64_FORMAT " of %s is not zero after the launches, as they found it", at, name);
    execution_add_fault(s->faults, "workspace", text);
  }
}

/* Results that several launches write, or none: all of each must have been written. */
static void check_outputs(Simulation *s)
{
  if (!(s->options->checkers >> SIM_FAULT_UNDEFINED & 1)) return;
  for (unsigned i = 0; i < s->x->plan->n_tensors; i++) {
    const ExecutionTensor *tensor = &s->x->tensors[i];
    const uint64_t *bits = s->defined[i], bytes = tensor->resolved.bytes;
    uint64_t first = bytes, n = 0;
    const PlanTensor *planned = s->x->plan->tensors[i];
    if (planned->kind != PLAN_OUTPUT || planned->stays || tensor->place != i || !bits) continue;
    for (uint64_t at = 0; at < bytes; at++) {
      if (!(at % 64) && bits[at / 64] == UINT64_MAX) {
        at += 63;
        continue;
      }
      if (bits[at / 64] >> at % 64 & 1) continue;
      first = MIN(first, at);
      n++;
    }
    if (!n) continue;
    g_autofree char *text =
        g_strdup_printf("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                        " bytes of output '%s' are never written, the first is byte %" G_GUINT64_FORMAT,
                        n, bytes, s->x->plan->tensors[i]->name, first);
    execution_add_fault(s->faults, "undefined", text);
  }
}

/* Elements that stay as they were, or follow from such, are NaN, whatever was in memory that tensors share. Those of an input, in whose
 * memory a result lies, are somebody's. */
static void poison_nobodys(Simulation *s)
{
  for (unsigned i = 0; i < s->x->plan->n_tensors; i++) {
    const ExecutionTensor *tensor = &s->x->tensors[i];
    const uint64_t *bits = s->defined[i];
    if (!s->x->plan->tensors[i]->stays || !bits || !tensor->data || tensor->place != i) continue;
    for (uint64_t at = 0; at < tensor->resolved.bytes; at++)
      if (!(bits[at / 64] >> at % 64 & 1)) ((uint8_t *)tensor->data)[at] = 0xff;
  }
}

bool execution_simulate(Execution *x, const SimOptions *options, ExecutionFaults *faults, GError **error)
{
  Simulation s;
  simulation_init(&s, x, options, faults);
  PlanWalk walk = plan_walk(x->plan, &(PlanBindings){x->symbols, s.addresses});
  bool ok = true, some = true;
  /* nothing after a broken kernel means anything */
  while (ok && some && !faults->n_errors)
    ok = simulate_next(&s, &walk, &some, error);
  if (ok && !faults->n_errors) check_zero(&s);
  if (ok && !faults->n_errors) check_outputs(&s);
  if (ok) poison_nobodys(&s);
  ok = ok && (faults->n_errors || breaks_are_known(&s, error));
  simulation_clear(&s);
  return ok;
}
