/* Modules, functions, types, names. */
#include "ir/ir.h"
#include <string.h>

/* ---- Modules and functions ---- */

IrModule *ir_module_new(IrLevel level)
{
  Arena *arena = arena_new();
  IrModule *module = arena_new_object(arena, IrModule);
  module->arena = arena;
  module->level = level;
  module->sources = g_ptr_array_new_with_free_func((GDestroyNotify)source_unref);
  return module;
}

void ir_module_free(IrModule *module)
{
  if (!module) return;
  source_unref(module->source);
  g_ptr_array_unref(module->sources);
  arena_free(module->arena);
}

/* Appends to an arena array whose capacity doubles at powers of two. */
static void *grow(Arena *arena, void *array, unsigned n, size_t size)
{
  if (n & (n - 1)) return array;
  void *larger = arena_alloc(arena, size * (n ? 2 * (size_t)n : 1));
  if (n) memcpy(larger, array, size * n);
  return larger;
}

IrFunction *ir_function_new(IrModule *module, const char *name, bool is_kernel)
{
  IrFunction *function = arena_new_object(module->arena, IrFunction);
  function->name = arena_strdup(module->arena, name);
  function->is_kernel = is_kernel;
  function->module = module;
  function->body = arena_new_object(module->arena, IrRegion);
  function->body->function = function;
  module->functions = grow(module->arena, module->functions, module->n_functions, sizeof *module->functions);
  module->functions[module->n_functions++] = function;
  return function;
}

IrFunction *ir_function_find(const IrModule *module, const char *name)
{
  for (unsigned i = 0; i < module->n_functions; i++)
    if (!strcmp(module->functions[i]->name, name)) return module->functions[i];
  return NULL;
}

IrFunction *ir_kernel(const IrModule *module)
{
  IrFunction *kernel = NULL;
  for (unsigned i = 0; i < module->n_functions; i++) {
    if (!module->functions[i]->is_kernel) continue;
    if (kernel) return NULL;
    kernel = module->functions[i];
  }
  return kernel;
}

IrValue *ir_parameter_new(IrFunction *function, const char *name, IrType type)
{
  Arena *arena = function->module->arena;
  IrValue *value = arena_new_object(arena, IrValue);
  value->name = arena_strdup(arena, name);
  value->type = type;
  function->parameters =
      grow(arena, function->parameters, function->n_parameters, sizeof *function->parameters);
  function->parameters[function->n_parameters++] = value;
  return value;
}

IrDim *ir_dim_new(IrFunction *function, const char *name, NumberType type)
{
  Arena *arena = function->module->arena;
  function->dims = grow(arena, function->dims, function->n_dims, sizeof *function->dims);
  IrDim *dim = &function->dims[function->n_dims++];
  *dim = (IrDim){.name = arena_strdup(arena, name), .type = type};
  return dim;
}

const IrDim *ir_dim_find(const IrFunction *function, const char *name)
{
  for (unsigned i = 0; i < function->n_dims; i++)
    if (!strcmp(function->dims[i].name, name)) return &function->dims[i];
  return NULL;
}

void ir_launch_set(IrFunction *function, IrAttributeKey key, IrExpr *value)
{
  for (unsigned i = 0; i < function->n_launch; i++)
    if (function->launch[i].key == key) {
      function->launch[i].value = value;
      return;
    }
  function->launch =
      grow(function->module->arena, function->launch, function->n_launch, sizeof *function->launch);
  function->launch[function->n_launch++] = (IrAttribute){key, value};
}

IrExpr *ir_launch_get(const IrFunction *function, IrAttributeKey key)
{
  for (unsigned i = 0; i < function->n_launch; i++)
    if (function->launch[i].key == key) return function->launch[i].value;
  return NULL;
}

/* ---- Names ---- */

/* A name that is taken. Names are given anew after every pass, so the table is of the simplest kind: open
 * addressing, nothing is ever taken out. */
typedef struct Taken {
  const char *name;
  unsigned hash, next; /* number to try next for it */
} Taken;

typedef struct Naming {
  Taken *slots;
  unsigned size, used; /* a power of two, at most half full */
  Arena *arena;
  unsigned id;
} Naming;

#define NAMING_SLOTS 256 /* at least */

static unsigned hash_name(const char *name)
{
  unsigned hash = 2166136261u; /* FNV-1a */
  for (; *name; name++)
    hash = (hash ^ (unsigned char)*name) * 16777619u;
  return hash;
}

/* The name's slot, or the free one that it would take. */
static Taken *find_name(const Naming *naming, const char *name, unsigned hash)
{
  for (unsigned i = hash & (naming->size - 1);; i = (i + 1) & (naming->size - 1)) {
    Taken *slot = &naming->slots[i];
    if (!slot->name || (slot->hash == hash && !strcmp(slot->name, name))) return slot;
  }
}

static void enlarge(Naming *naming)
{
  Taken *before = naming->slots;
  unsigned n = naming->size;
  naming->size *= 2;
  naming->slots = g_new0(Taken, naming->size);
  for (unsigned i = 0; i < n; i++)
    if (before[i].name) *find_name(naming, before[i].name, before[i].hash) = before[i];
  g_free(before);
}

/* false: somebody has it. */
static bool take_name(Naming *naming, const char *name)
{
  unsigned hash = hash_name(name);
  if (2 * naming->used >= naming->size) enlarge(naming);
  Taken *slot = find_name(naming, name, hash);
  if (slot->name) return false;
  *slot = (Taken){name, hash, 1};
  naming->used++;
  return true;
}

/* The first free one of base1, base2 .. from the number on which the last search for it ended. */
static const char *free_name(Naming *naming, const char *name)
{
  size_t length = strlen(name);
  while (length > 1 && g_ascii_isdigit(name[length - 1]))
    length--;
  const char *base = name[length] ? arena_strndup(naming->arena, name, length) : name;
  char *text = arena_alloc(naming->arena, length + NUMBER_DECIMAL_MAX);
  memcpy(text, name, length);
  const Taken *known = find_name(naming, base, hash_name(base));
  unsigned number = known->name ? known->next : 1;
  do
    number_decimal(number++, text + length);
  while (!take_name(naming, text));
  take_name(naming, base); /* a base without numbers is one that is no value's yet */
  find_name(naming, base, hash_name(base))->next = number;
  return text;
}

static void name_value(Naming *naming, IrValue *value)
{
  value->id = naming->id++;
  if (!value->name || !*value->name) value->name = "v";
  if (!take_name(naming, value->name)) value->name = free_name(naming, value->name);
}

static void name_region(Naming *naming, IrRegion *region)
{
  for (unsigned i = 0; i < region->n_arguments; i++)
    name_value(naming, region->arguments[i]);
  for (IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_results; i++)
      name_value(naming, op->results[i]);
    for (unsigned i = 0; i < op->n_regions; i++)
      name_region(naming, op->regions[i]);
  }
}

static unsigned count_values(const IrRegion *region)
{
  unsigned n = region->n_arguments;
  for (const IrOp *op = region->first; op; op = op->next) {
    n += op->n_results;
    for (unsigned i = 0; i < op->n_regions; i++)
      n += count_values(op->regions[i]);
  }
  return n;
}

unsigned ir_number_values(IrFunction *function)
{
  /* room for all; bases of numbered names may need more */
  unsigned n = function->n_parameters + count_values(function->body), size = NAMING_SLOTS;
  while (size <= 2 * n)
    size *= 2;
  Naming naming = {g_new0(Taken, size), size, 0, function->module->arena, 0};
  for (unsigned i = 0; i < function->n_parameters; i++)
    name_value(&naming, function->parameters[i]);
  name_region(&naming, function->body);
  g_free(naming.slots);
  return naming.id;
}

static unsigned give_ids(const IrRegion *region, unsigned id)
{
  for (unsigned i = 0; i < region->n_arguments; i++)
    region->arguments[i]->id = id++;
  for (const IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_results; i++)
      op->results[i]->id = id++;
    for (unsigned i = 0; i < op->n_regions; i++)
      id = give_ids(op->regions[i], id);
  }
  return id;
}

unsigned ir_give_ids(const IrFunction *function)
{
  for (unsigned i = 0; i < function->n_parameters; i++)
    function->parameters[i]->id = i;
  return give_ids(function->body, function->n_parameters);
}

void ir_name_values(IrFunction *function)
{
  ir_number_values(function);
}

/* ---- Symbols ---- */

/* The names in a channel's slot are fields of the channel, not symbols of the function. */
static IrOp *find_symbol(const IrRegion *region, const char *symbol)
{
  for (IrOp *op = region->first; op; op = op->next) {
    if (op->symbol && op->code != OP_SLOT && !strcmp(op->symbol, symbol)) return op;
    if (op->code == OP_CHANNEL) continue;
    for (unsigned i = 0; i < op->n_regions; i++) {
      IrOp *found = find_symbol(op->regions[i], symbol);
      if (found) return found;
    }
  }
  return NULL;
}

IrOp *ir_symbol_find(const IrFunction *function, const char *symbol)
{
  return find_symbol(function->body, symbol);
}

const char *ir_symbol_unique(const IrFunction *function, const char *hint)
{
  if (!ir_symbol_find(function, hint)) return arena_strdup(function->module->arena, hint);
  for (unsigned number = 1;; number++) {
    const char *name = arena_printf(function->module->arena, "%s%u", hint, number);
    if (!ir_symbol_find(function, name)) return name;
  }
}

IrOp *ir_slot_find(const IrOp *channel, const char *name)
{
  if (!channel->n_regions) return NULL;
  for (IrOp *op = channel->regions[0]->first; op; op = op->next)
    if (op->code == OP_SLOT && !strcmp(op->symbol, name)) return op;
  return NULL;
}

/* ---- Types ---- */

IrType ir_scalar(NumberType element)
{
  return (IrType){.kind = TYPE_SCALAR, .element = element, .count = 1};
}

IrType ir_registers(NumberType element, unsigned count)
{
  return (IrType){.kind = TYPE_SCALAR, .element = element, .count = count};
}

IrType ir_predicate(void)
{
  return (IrType){.kind = TYPE_PREDICATE, .element = NUMBER_BOOL, .count = 1};
}

IrType ir_tile(IrModule *module, NumberType element, unsigned rank, const int64_t *extents,
               const Layout *layout)
{
  g_assert(rank <= IR_MAX_RANK);
  IrType type = {.kind = TYPE_TILE, .element = element, .count = 1, .rank = rank, .layout = layout};
  for (unsigned i = 0; i < rank; i++)
    type.dims[i] = ir_int(module, extents[i]);
  return type;
}

static bool expr_same(const IrExpr *a, const IrExpr *b)
{
  return a == b || (a && b && ir_expr_equal(a, b));
}

bool ir_type_equal(const IrType *a, const IrType *b)
{
  if (a->kind != b->kind) return false;
  if (a->kind == TYPE_NONE || a->kind == TYPE_CURSOR || a->kind == TYPE_PREDICATE) return true;
  if (!expr_same(a->element_parameter, b->element_parameter)) return false;
  if (!a->element_parameter && a->element != b->element) return false;
  if (a->count != b->count || a->rank != b->rank || a->align != b->align) return false;
  for (unsigned i = 0; i < a->rank; i++)
    if (!expr_same(a->dims[i], b->dims[i]) || !expr_same(a->strides[i], b->strides[i])) return false;
  if (!a->layout != !b->layout) return false;
  return !a->layout || layout_equal(a->layout, b->layout);
}

int64_t ir_tile_extent(const IrType *tile, unsigned dim)
{
  g_assert(tile->kind == TYPE_TILE && dim < tile->rank && tile->dims[dim]->kind == EXPR_INT);
  return tile->dims[dim]->integer;
}

int64_t ir_tile_elements(const IrType *tile)
{
  int64_t elements = 1;
  for (unsigned i = 0; i < tile->rank; i++)
    elements *= ir_tile_extent(tile, i);
  return elements;
}
