#include "execute/execute.h"
#include <string.h>

static const GraphBinding *find_binding(const GraphBinding *bindings, unsigned n, const char *name)
{
  for (unsigned i = 0; i < n; i++)
    if (!strcmp(bindings[i].name, name)) return &bindings[i];
  return NULL;
}

static bool bind_symbols(Execution *x, const GraphBinding *bindings, unsigned n, GError **error)
{
  bool ok = true;
  x->symbols = arena_new_array(x->arena, int64_t, x->plan->n_symbols);
  for (unsigned i = 0; i < x->plan->n_symbols; i++) {
    const PlanSymbol *symbol = &x->plan->symbols[i];
    const GraphBinding *binding = find_binding(bindings, n, symbol->name);
    x->symbols[i] = binding ? binding->value : symbol->min;
    if (binding || symbol->min == symbol->max) continue;
    g_autofree char *hint = g_strdup_printf("--dim %s=VALUE binds it", symbol->name);
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, NULL, "unbound-symbol", hint,
              "dimension %s of %s has no value", symbol->name, x->plan->name);
    ok = false;
  }
  return ok;
}

static bool make_tensors(Execution *x, GError **error)
{
  const PlanBindings bindings = {x->symbols, NULL};
  x->tensors = arena_new_array(x->arena, ExecutionTensor, x->plan->n_tensors);
  for (unsigned i = 0; i < x->plan->n_tensors; i++) {
    ExecutionTensor *tensor = &x->tensors[i];
    tensor->place = i;
    if (!plan_resolve_tensor(x->plan, x->plan->tensors[i], &bindings, &tensor->resolved, error)) return false;
    if (x->plan->tensors[i]->kind == PLAN_WORKSPACE) continue;
    tensor->data = g_try_malloc(tensor->resolved.bytes + 1);
    if (!tensor->data) {
      error_set(error, ERROR_UNSUPPORTED, NULL, "no-memory", NULL,
                "there is no room for %s: %" G_GUINT64_FORMAT " bytes", x->plan->tensors[i]->name,
                tensor->resolved.bytes);
      return false;
    }
    memset(tensor->data, 0xff, tensor->resolved.bytes);
  }
  return plan_resolve_workspace(x->plan, &bindings, &x->workspace_bytes, error);
}

Execution *execution_new(const CompileResult *compiled, const Gpu *gpu, const GraphBinding *bindings,
                         unsigned n_bindings, GError **error)
{
  g_autoptr(Execution) x = g_new0(Execution, 1);
  x->arena = arena_new();
  x->compiled = compiled;
  x->plan = compiled->plan;
  x->gpu = gpu;
  if (!bind_symbols(x, bindings, n_bindings, error)) return NULL;
  const PlanBindings values = {x->symbols, NULL};
  if (!plan_check_bindings(x->plan, &values, error) || !make_tensors(x, error)) return NULL;
  for (unsigned i = 0; i < x->plan->n_tensors; i++) {
    const PlanTensor *tensor = x->plan->tensors[i];
    if (tensor->memory && !execution_share(x, tensor->name, tensor->memory->name, error)) return NULL;
  }
  return g_steal_pointer(&x);
}

void execution_free(Execution *x)
{
  if (!x) return;
  for (unsigned i = 0; x->tensors && i < x->plan->n_tensors; i++)
    if (x->tensors[i].place == i) g_free(x->tensors[i].data);
  arena_free(x->arena);
  g_free(x);
}

ExecutionTensor *execution_tensor(const Execution *x, const char *name)
{
  const PlanTensor *tensor = plan_tensor(x->plan, name);
  return tensor ? &x->tensors[tensor->index] : NULL;
}

static bool same_form(const ResolvedTensor *a, const ResolvedTensor *b)
{
  bool same = a->tensor->type == b->tensor->type && a->tensor->rank == b->tensor->rank;
  for (unsigned d = 0; same && d < a->tensor->rank; d++)
    same = a->shape[d] == b->shape[d] && a->strides[d] == b->strides[d];
  return same;
}

bool execution_share(Execution *x, const char *output, const char *input, GError **error)
{
  ExecutionTensor *out = execution_tensor(x, output), *in = execution_tensor(x, input);
  bool kinds =
      out && in && out->resolved.tensor->kind == PLAN_OUTPUT && in->resolved.tensor->kind == PLAN_INPUT;
  if (!kinds || !same_form(&out->resolved, &in->resolved)) {
    error_set(error, ERROR_INPUT, NULL, "in-place", NULL,
              kinds ? "%s cannot lie in %s: type, shape or strides differ"
                    : "%s and %s are no output and input",
              output, input);
    return false;
  }
  g_free(out->data);
  out->data = in->data;
  out->skew = in->skew;
  out->place = in->place;
  return true;
}

const CompiledKernel *execution_kernel(const Execution *x, const PlanVariant *variant)
{
  for (guint i = 0; i < x->compiled->kernels->len; i++) {
    const CompiledKernel *kernel = x->compiled->kernels->pdata[i];
    if (!strcmp(kernel->name, variant->kernel)) return kernel;
  }
  g_assert_not_reached(); /* the compiler made plan and kernels */
}

/* ---- strides ---- */

/* Copies the innermost rows one by one, in either direction. */
static void copy_elements(const ExecutionTensor *tensor, uint8_t *elements, bool gather)
{
  const ResolvedTensor *r = &tensor->resolved;
  NumberType type = r->tensor->type;
  unsigned size = number_is_packed(type) ? 0 : number_bytes(type), rank = r->tensor->rank;
  uint64_t n = 0; /* elements so far */
  int64_t index[PLAN_MAX_RANK] = {0}, inner = rank ? r->shape[rank - 1] : 1;
  int64_t step = rank ? r->strides[rank - 1] : 1;
  if (!r->elements) return;
  for (;;) {
    int64_t at = 0;
    for (unsigned i = 0; i + 1 < rank; i++)
      at += index[i] * r->strides[i];
    for (int64_t i = 0; i < inner && !size; i++, n++) {
      uint64_t there = (uint64_t)(at + i * step);
      const void *from = gather ? tensor->data : elements;
      number_set_bits(type, number_get_bits(type, from, gather ? there : n), gather ? elements : tensor->data,
                      gather ? n : there);
    }
    for (int64_t i = 0; i < inner && size; i++, elements += size) {
      uint8_t *memory = tensor->data + (at + i * step) * size;
      memcpy(gather ? elements : memory, gather ? memory : elements, size);
    }
    unsigned i = rank > 1 ? rank - 1 : 0;
    while (i > 0 && ++index[i - 1] == r->shape[i - 1])
      index[--i] = 0;
    if (i == 0) return;
  }
}

void execution_scatter(const ExecutionTensor *tensor, const void *elements)
{
  copy_elements(tensor, (uint8_t *)elements, false);
}

void execution_gather(const ExecutionTensor *tensor, void *elements)
{
  copy_elements(tensor, elements, true);
}

/* ---- faults ---- */

ExecutionFaults *execution_faults_new(void)
{
  ExecutionFaults *faults = g_new0(ExecutionFaults, 1);
  faults->list = json_array();
  faults->text = g_string_new(NULL);
  faults->notes = g_string_new(NULL);
  faults->counts = json_array();
  faults->breaks = json_array();
  faults->stops = json_array();
  faults->tables = g_string_new(NULL);
  faults->launches = json_array();
  return faults;
}

void execution_faults_free(ExecutionFaults *faults)
{
  if (!faults) return;
  json_decref(faults->list);
  g_string_free(faults->text, TRUE);
  g_string_free(faults->notes, TRUE);
  json_decref(faults->counts);
  json_decref(faults->breaks);
  json_decref(faults->stops);
  json_decref(faults->launches);
  g_string_free(faults->tables, TRUE);
  g_free(faults);
}

void execution_add_fault(ExecutionFaults *faults, const char *kind, const char *text)
{
  g_string_append_printf(faults->text, "fault: %s: %s\n", kind, text);
  json_array_append_new(faults->list,
                        json_pack("{s:s, s:s, s:s}", "kind", kind, "severity", "error", "message", text));
  faults->n_errors++;
}

json_t *execution_add_launch(ExecutionFaults *faults, const ResolvedLaunch *launch)
{
  json_t *one =
      json_pack("{s:s, s:s, s:[i,i,i]}", "launch", launch->launch->name, "kernel", launch->variant->kernel,
                "grid", (int)launch->grid[0], (int)launch->grid[1], (int)launch->grid[2]);
  json_array_append_new(faults->launches, one);
  return one;
}
