/* Constants of an executable on the GPU. Several executables of one context may have one copy: prefill and decode of a model. */
#include "runtime/executable_private.h"
#include <string.h>

struct ConstantMemory {
  gatomicrefcount references;
  uint64_t address, bytes;
};

static const PlanTensor *tensor_of(const Executable *x, unsigned i)
{
  return x->plan->tensors[x->tensors[i]];
}

static ConstantMemory **place_of(const Executable *x, unsigned i)
{
  return &x->constants[x->tensors[i]];
}

void constants_clear(Executable *x)
{
  for (unsigned i = 0; x->plan && i < x->plan->n_tensors; i++) {
    ConstantMemory *memory = x->constants[i];
    if (!memory || !g_atomic_ref_count_dec(&memory->references)) continue;
    x->context->driver.release(memory->address);
    g_free(memory);
  }
}

uint64_t constants_address(const Executable *x, unsigned tensor)
{
  return x->constants[tensor] ? x->constants[tensor]->address : 0;
}

bool executable_has_constant(const Executable *x, unsigned i)
{
  return *place_of(x, i) != NULL;
}

bool executable_set_constant(Executable *x, unsigned i, const void *data, uint64_t bytes, GError **error)
{
  const Driver *driver = &x->context->driver;
  ConstantMemory **place = place_of(x, i);
  bool pushed = false;
  if (*place || !context_enter(x->context, &pushed, error)) return *place != NULL;
  g_autofree ConstantMemory *memory = g_new0(ConstantMemory, 1);
  g_atomic_ref_count_init(&memory->references);
  memory->bytes = bytes;
  bool ok = driver_check(driver, driver->allocate(&memory->address, MAX(bytes, 1)),
                         "cannot make room for a constant on the GPU", error);
  if (ok && bytes &&
      !driver_check(driver, driver->write_now(memory->address, data, bytes),
                    "cannot copy a constant to the GPU", error)) {
    driver->release(memory->address);
    ok = false;
  }
  if (ok) *place = g_steal_pointer(&memory);
  context_leave(x->context, pushed);
  return ok;
}

/* ---- one copy for several ---- */

/* Of one name, type and shape, and of the same constants of the graph. */
static bool is_same(const PlanTensor *a, const PlanTensor *b)
{
  if (a->kind != b->kind || strcmp(a->name, b->name) || a->type != b->type || a->rank != b->rank ||
      a->n_stacks != b->n_stacks)
    return false;
  for (unsigned d = 0; d < a->rank; d++)
    if (!symbolic_same(a->shape[d], b->shape[d]) || !symbolic_same(a->strides[d], b->strides[d]))
      return false;
  for (unsigned i = 0; i < a->n_stacks; i++)
    if (strcmp(a->stacks[i].name, b->stacks[i].name) || a->stacks[i].columns != b->stacks[i].columns)
      return false;
  return true;
}

bool executable_share_constant(Executable *x, unsigned i, const Executable *from)
{
  const PlanTensor *wanted = tensor_of(x, i);
  if (x->context->handle != from->context->handle) return false;
  for (unsigned j = 0; j < from->n_tensors; j++) {
    ConstantMemory *memory = *place_of(from, j);
    if (!memory || !is_same(wanted, tensor_of(from, j))) continue;
    g_atomic_ref_count_inc(&memory->references);
    *place_of(x, i) = memory;
    return true;
  }
  return false;
}

/* ---- other values ---- */

/* Bytes of a row of a stack in front of a part, and of the part; false: it is none of the stack's. */
static bool find_part(const PlanTensor *tensor, const char *name, uint64_t *before, uint64_t *width)
{
  *before = 0;
  for (unsigned i = 0; i < tensor->n_stacks; i++) {
    *width = number_bytes_of(tensor->type, (uint64_t)tensor->stacks[i].columns);
    if (!strcmp(tensor->stacks[i].name, name)) return true;
    *before += *width;
  }
  return false;
}

typedef struct Rows {
  uint64_t n, step, before, width; /* bytes */
} Rows;

/* Where the constant of the graph lies in one of the plan's; false: not there. */
static bool find_rows(const Executable *x, unsigned tensor, const char *name, Rows *rows)
{
  const PlanTensor *constant = x->plan->tensors[tensor];
  const ConstantMemory *memory = x->constants[tensor];
  int64_t extent;
  if (!memory) return false;
  *rows = (Rows){1, memory->bytes, 0, memory->bytes};
  if (!constant->n_stacks) return !strcmp(constant->name, name);
  for (unsigned d = 0; d + 1 < constant->rank; d++)
    if (symbolic_is_constant(constant->shape[d], &extent)) rows->n *= (uint64_t)extent;
  rows->step = memory->bytes / rows->n;
  return find_part(constant, name, &rows->before, &rows->width);
}

static bool write_rows(const Executable *x, unsigned tensor, const Rows *rows, const uint8_t *data,
                       GError **error)
{
  const Driver *driver = &x->context->driver;
  uint64_t address = x->constants[tensor]->address + rows->before;
  for (uint64_t row = 0; row < rows->n; row++)
    if (rows->width &&
        !driver_check(driver,
                      driver->write_now(address + row * rows->step, data + row * rows->width, rows->width),
                      "cannot copy a constant to the GPU", error))
      return false;
  return true;
}

bool executable_replace_constant(Executable *x, const char *name, const void *data, uint64_t bytes,
                                 GError **error)
{
  unsigned found = 0;
  bool pushed = false, ok = context_enter(x->context, &pushed, error);
  if (!ok) return false;
  for (unsigned i = 0; ok && i < x->plan->n_tensors; i++) {
    Rows rows;
    if (x->plan->tensors[i]->kind != PLAN_CONSTANT || !find_rows(x, i, name, &rows)) continue;
    found++;
    if (rows.n * rows.width == bytes)
      ok = write_rows(x, i, &rows, data, error);
    else {
      error_set(error, ERROR_INPUT, NULL, "wrong-size", NULL,
                "constant %s has %" G_GUINT64_FORMAT " bytes, not %" G_GUINT64_FORMAT, name,
                rows.n * rows.width, bytes);
      ok = false;
    }
  }
  context_leave(x->context, pushed);
  if (ok && !found)
    error_set(error, ERROR_INPUT, NULL, "unknown-constant",
              "what is known while a graph is compiled is part of its kernels",
              "%s has no constant %s on the GPU", x->plan->name, name);
  return ok && found;
}
