/* Calls that cannot be inlined: recursion, calls through an address, functions that allocate on the stack.
 *
 * Such a function has one copy of its registers per warp. A call saves what the calling lanes hold there (an
 * earlier activation of the same function may still need it) and its return gives it back, lane by lane,
 * since lanes may be at different depths. Local memory is a true stack: an activation's variables begin where
 * its caller's end, so a pointer to a variable of a caller stays good. The lanes of a call meet again behind
 * it. */
#include "simulator/exec.h"
#include <string.h>

#define FUNCTION_ALIGN 16

struct Activation {
  Activation *caller;
  const Routine *routine;
  const Inst *call;
  uint32_t return_pc, lanes; /* lanes: not yet returned */
  int join;
  uint8_t *saved; /* the routine's slots, and base and top */
  uint32_t *undefined;
};

/* One argument or result: where it is in the caller's local memory. */
typedef struct CallPlace {
  uint64_t offset, bytes;
} CallPlace;

typedef struct CallSite {
  const Routine *target; /* NULL: in->a[0] is the address */
  uint32_t base, top;    /* slots of the caller */
  CallPlace *arguments, *results;
  unsigned n_arguments, n_results;
} CallSite;

uint64_t call_address(const PtxModule *module, const PtxFunction *function)
{
  for (unsigned i = 0; i < module->n_functions; i++)
    if (module->functions[i] == function) return WINDOW_CODE + (uint64_t)(i + 1) * FUNCTION_ALIGN;
  return 0;
}

/* --- which functions --- */

static bool reaches(const PtxFunction *from, const PtxFunction *to, GHashTable *seen)
{
  for (unsigned i = 0; i < from->n_code; i++) {
    const PtxInstruction *in = &from->code[i];
    if (strcmp(in->parts[0], "alloca") == 0 && from == to) return true;
    if (strcmp(in->parts[0], "call")) continue;
    for (unsigned k = 0; k < in->n_operands; k++) {
      const PtxSymbol *s = in->operands[k].kind == OPERAND_SYMBOL ? in->operands[k].symbol : NULL;
      if (!s || s->kind != SYMBOL_FUNCTION) continue;
      if (s->function == to) return true;
      if (g_hash_table_add(seen, s->function) && reaches(s->function, to, seen)) return true;
    }
  }
  return false;
}

bool call_needs_stack(const Decoder *d, const PtxFunction *function)
{
  for (unsigned i = 1; i < d->routines->len; i++)
    if (((const Routine *)d->routines->pdata[i])->function == function) return true;
  g_autoptr(GHashTable) seen = g_hash_table_new(g_direct_hash, g_direct_equal);
  return reaches(function, function, seen);
}

/* --- decoding --- */

static CallPlace *places(Decoder *d, const PtxOperand *list, unsigned *n)
{
  *n = list ? list->n : 0;
  CallPlace *out = arena_new_array(d->kernel->arena, CallPlace, *n + 1);
  for (unsigned i = 0; i < *n; i++) {
    const PtxOperand *o = &list->items[i];
    if (o->kind != OPERAND_SYMBOL || o->symbol->kind != SYMBOL_VARIABLE || o->symbol->space != SPACE_PARAM) {
      decode_fail(d, "an argument of a recursive or indirect call must be a .param variable");
      return out;
    }
    out[i] = (CallPlace){frame_local(d->frame) + o->symbol->offset, o->symbol->bytes};
  }
  return out;
}

static bool fits(const CallSite *site, const PtxFunction *f)
{
  bool ok = site->n_arguments == f->n_parameters && site->n_results == f->n_results;
  for (unsigned i = 0; ok && i < site->n_arguments; i++)
    ok = site->arguments[i].bytes == f->parameters[i]->bytes;
  for (unsigned i = 0; ok && i < site->n_results; i++)
    ok = site->results[i].bytes == f->results[i]->bytes;
  return ok;
}

static Step run_call(Warp *w, const Inst *in, uint32_t mask);
static Step run_return(Warp *w, const Inst *in, uint32_t mask);

void call_decode(Decoder *d, const PtxInstruction *call, const PtxFunction *function,
                 const PtxOperand *results, const PtxOperand *arguments, const PtxOperand *address)
{
  CallSite *site = arena_new_object(d->kernel->arena, CallSite);
  Inst *in = flow_append(d, call, run_call);
  in->data = site;
  uint32_t index = d->code->len - 1;
  site->base = d->frame->routine->base;
  site->top = d->frame->routine->top;
  site->arguments = places(d, arguments, &site->n_arguments);
  site->results = places(d, results, &site->n_results);
  if (function) {
    site->target = flow_routine(d, function);
    if (!d->failed && !fits(site, function)) decode_wrong(d, "the arguments do not fit '%s'", function->name);
    return;
  }
  g_array_set_size(d->reads, 0);
  d->in = in;
  uint32_t slot = source(d, address, TYPE_U64);
  g_array_index(d->code, Inst, index).a[0] = slot;
  for (unsigned i = 0; i < d->module->n_functions; i++) {
    const PtxFunction *f = d->module->functions[i];
    if (f->address_taken && f->has_body && !f->is_entry && fits(site, f)) flow_routine(d, f);
  }
}

void call_return(Decoder *d, const PtxInstruction *source)
{
  flow_append(d, source, run_return)->flags |= INST_BRANCH;
}

bool call_is_return(const Inst *in)
{
  return in->run == run_return;
}

/* --- registers of an activation --- */

/* Copies what the lanes hold in slots; their layout depends on the width of each register. */
static void copy_slots(const Kernel *k, uint32_t first, uint32_t n, uint8_t *to, const uint8_t *from,
                       uint32_t mask)
{
  for (uint32_t i = 0; i < n; i++) {
    unsigned width = k->slot_bytes[first + i];
    size_t at = (size_t)i * SLOT_BYTES;
    if (width == 1) {
      uint32_t a, b;
      memcpy(&a, to + at, 4);
      memcpy(&b, from + at, 4);
      a = (a & ~mask) | (b & mask);
      memcpy(to + at, &a, 4);
    } else if (width) {
      for_lanes(l, mask) memcpy(to + at + (size_t)l * width, from + at + (size_t)l * width, width);
    }
  }
}

static void save(Warp *w, Activation *a, uint32_t mask)
{
  const Routine *r = a->routine;
  const Kernel *k = w->block->cluster->run->kernel;
  size_t own = (size_t)r->n_slots * SLOT_BYTES;
  a->saved = g_malloc(own + 4 * SLOT_BYTES);
  copy_slots(k, r->first_slot, r->n_slots, a->saved, w->registers + (size_t)r->first_slot * SLOT_BYTES, mask);
  copy_slots(k, r->base, 4, a->saved + own, w->registers + (size_t)r->base * SLOT_BYTES, mask);
  if (w->undefined) a->undefined = g_memdup2(w->undefined + r->first_slot, r->n_slots * sizeof(uint32_t));
}

static void restore(Warp *w, Activation *a, uint32_t mask)
{
  const Routine *r = a->routine;
  const Kernel *k = w->block->cluster->run->kernel;
  size_t own = (size_t)r->n_slots * SLOT_BYTES;
  copy_slots(k, r->first_slot, r->n_slots, w->registers + (size_t)r->first_slot * SLOT_BYTES, a->saved, mask);
  copy_slots(k, r->base, 4, w->registers + (size_t)r->base * SLOT_BYTES, a->saved + own, mask);
  for (unsigned i = 0; i < r->n_slots && w->undefined; i++)
    set_undefined(w, r->first_slot + i, mask, a->undefined[i]);
}

static void activation_free(void *data)
{
  Activation *a = data;
  g_free(a->saved);
  g_free(a->undefined);
  g_free(a);
}

void call_warp_free(Warp *w)
{
  if (w->activations) g_ptr_array_free(w->activations, TRUE);
}

/* --- execution --- */

static uint8_t *lane_local(Warp *w, unsigned lane)
{
  return w->local + (size_t)lane * w->block->cluster->run->kernel->local_bytes;
}

/* Arguments go in, the stack grows; false: it is full. */
static bool enter(Warp *w, const Inst *in, Activation *a, uint32_t mask)
{
  const CallSite *site = in->data;
  const Routine *r = a->routine;
  const Kernel *k = w->block->cluster->run->kernel;
  uint64_t start[LANES], outer[LANES];
  for_lanes(l, mask)
  {
    start[l] = (lane_u64(w, site->top, l) + 15) / 16 * 16 + 16; /* a call takes room even without variables */
    outer[l] = site->base ? lane_u64(w, site->base, l) : 0;
    if (start[l] + r->local_bytes <= k->local_bytes) continue;
    fault(w, in, l, SIM_FAULT_LIMIT, 0, "calls are nested too deeply: the stack of %llu bytes is full",
          (unsigned long long)(k->local_bytes - k->stack_start));
    return false;
  }
  save(w, a, mask);
  for_lanes(l, mask)
  {
    uint8_t *local = lane_local(w, l);
    for (unsigned i = 0; i < site->n_arguments; i++)
      memmove(local + start[l] + r->function->parameters[i]->offset,
              local + outer[l] + site->arguments[i].offset, site->arguments[i].bytes);
    ((uint64_t *)operand(w, r->base))[l] = start[l];
    ((uint64_t *)operand(w, r->top))[l] = start[l] + r->local_bytes;
  }
  for (unsigned i = 0; i < 4; i++)
    set_undefined(w, r->base + i, mask, 0);
  return true;
}

static const Routine *target_of(Warp *w, const Inst *in, unsigned lane)
{
  const CallSite *site = in->data;
  if (site->target) return site->target;
  const Kernel *k = w->block->cluster->run->kernel;
  uint64_t address = lane_u64(w, in->a[0], lane), index = (address - WINDOW_CODE) / FUNCTION_ALIGN - 1;
  const PtxFunction *f = NULL;
  if (address > WINDOW_CODE && address % FUNCTION_ALIGN == 0 && index < k->module->n_functions)
    f = k->module->functions[index];
  for (unsigned i = 1; f && i < k->n_routines; i++)
    if (k->routines[i]->function == f && fits(site, f)) return k->routines[i];
  if (f)
    fault(w, in, lane, SIM_FAULT_OPERAND, address, "function '%s' does not have the parameters of this call",
          f->name);
  else
    fault(w, in, lane, SIM_FAULT_OPERAND, address, "a call to address 0x%llx, where no function is",
          (unsigned long long)address);
  return NULL;
}

static Step run_call(Warp *w, const Inst *in, uint32_t mask)
{
  Group *g = current_group(w);
  Group caller = *g;
  if (w->undefined && in->a[0] != OPERAND_NONE && undefined_lanes(w, in->a[0]) & mask)
    fault(w, in, first_lane(undefined_lanes(w, in->a[0]) & mask), SIM_FAULT_UNDEFINED, 0,
          "the address of a call has never been given a value");
  int join = flow_join(w, caller.pc + 1, mask, caller.join, caller.frame);
  if (!w->activations) w->activations = g_ptr_array_new_with_free_func(activation_free);
  bool first = true;
  for (uint32_t left = mask; left;) {
    const Routine *r = target_of(w, in, first_lane(left));
    if (!r) return STEP_STOP;
    uint32_t lanes = 0;
    const CallSite *site = in->data;
    uint64_t address = site->target ? 0 : lane_u64(w, in->a[0], first_lane(left));
    for_lanes(l, left) if (site->target || lane_u64(w, in->a[0], l) == address) lanes |= 1u << l;
    left &= ~lanes;
    Activation *a = g_new0(Activation, 1);
    *a = (Activation){.caller = caller.frame, .routine = r, .call = in, .return_pc = caller.pc + 1};
    a->lanes = lanes;
    a->join = join;
    g_ptr_array_add(w->activations, a);
    if (!enter(w, in, a, lanes)) return STEP_STOP;
    Group group = {.mask = lanes, .pc = r->start, .frame = a, .join = join};
    if (first)
      *g = group;
    else
      w->groups[w->n_groups++] = group;
    first = false;
  }
  return STEP_JUMP;
}

static Step run_return(Warp *w, const Inst *in, uint32_t mask)
{
  Group *g = current_group(w);
  Activation *a = g->frame;
  const CallSite *site = a->call->data;
  const Routine *r = a->routine;
  uint64_t start[LANES];
  for_lanes(l, mask) start[l] = lane_u64(w, r->base, l);
  restore(w, a, mask);
  for_lanes(l, mask)
  {
    uint8_t *local = lane_local(w, l);
    uint64_t outer = site->base ? lane_u64(w, site->base, l) : 0;
    for (unsigned i = 0; i < site->n_results; i++)
      memmove(local + outer + site->results[i].offset, local + start[l] + r->function->results[i]->offset,
              site->results[i].bytes);
  }
  /* joins inside the function that these lanes will not reach any more */
  bool abandoned = g->join != a->join;
  while (g->join >= 0 && g->join != a->join) {
    w->joins[g->join].expected &= ~mask;
    g->join = w->joins[g->join].parent;
  }
  g->frame = a->caller;
  g->pc = a->return_pc;
  a->lanes &= ~mask;
  if (!(a->lanes & w->live)) g_ptr_array_remove_fast(w->activations, a);
  return abandoned ? STEP_GONE : STEP_JUMP;
}

/* --- local memory of called functions --- */

static Step run_local_address(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    uint64_t a = lane_u64(w, in->a[0], l) + (uint64_t)in->immediate;
    if (in->bytes == 8)
      ((uint64_t *)operand(w, in->d[0]))[l] = a;
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)a;
  }
  return STEP_NEXT;
}

void decode_local_address(Decoder *d, uint64_t offset, PtxType type)
{
  d->in->immediate = (int64_t)offset;
  d->in->bytes = (uint8_t)ptx_type_bytes(type);
  d->in->d[0] = destination_at(d, 0, type);
  d->in->a[0] = frame_base(d->frame);
  d->in->run = run_local_address;
}

enum { STACK_ALLOCATE, STACK_SAVE, STACK_RESTORE };

/* a[0]: slot of the top; a[1]: bytes or the saved top */
static Step run_stack(Warp *w, const Inst *in, uint32_t mask)
{
  const Kernel *k = w->block->cluster->run->kernel;
  uint64_t *top = operand(w, in->a[0]);
  for_lanes(l, mask)
  {
    uint64_t value = 0, result = top[l];
    if (in->a[1] != OPERAND_NONE)
      value = in->bytes == 8 ? lane_u64(w, in->a[1], l) : lane_u32(w, in->a[1], l);
    if (in->operation == STACK_ALLOCATE) {
      uint64_t align = (uint64_t)in->immediate;
      result = (top[l] + align - 1) / align * align;
      if (value > k->local_bytes || result + value > k->local_bytes) {
        fault(w, in, l, SIM_FAULT_LIMIT, 0, "%llu bytes do not fit the stack of %llu bytes",
              (unsigned long long)value, (unsigned long long)(k->local_bytes - k->stack_start));
        return STEP_STOP;
      }
      top[l] = result + value;
    } else if (in->operation == STACK_RESTORE) {
      if (value < k->stack_start || value > top[l]) {
        fault(w, in, l, SIM_FAULT_OPERAND, value, "this stack pointer has not been saved here");
        return STEP_STOP;
      }
      top[l] = value;
      continue;
    }
    if (in->bytes == 8)
      ((uint64_t *)operand(w, in->d[0]))[l] = result;
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)result;
  }
  return STEP_NEXT;
}

void decode_stack(Decoder *d, int operation)
{
  Inst *in = d->in;
  PtxType type = need_type(d);
  in->operation = (uint8_t)operation;
  in->bytes = (uint8_t)ptx_type_bytes(type);
  in->a[0] = d->frame->routine->top;
  if (operation != STACK_RESTORE) in->d[0] = destination_at(d, 0, type);
  if (operation != STACK_SAVE) in->a[1] = source_at(d, operation == STACK_RESTORE ? 0 : 1, type);
  in->immediate = operation == STACK_ALLOCATE && operand_count(d) > 2 ? immediate_at(d, 2) : 8;
  if (in->immediate < 1 || in->immediate > 1 << 20 || in->immediate & (in->immediate - 1))
    decode_wrong(d, "an alignment of %lld", (long long)in->immediate);
  d->allocates = true;
  in->run = run_stack;
}
