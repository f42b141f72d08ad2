/* From parsed text to decoded instructions: operands become slots, opcodes become handlers. See decode.h. */
#include "simulator/decode.h"
#include "simulator/definedness.h"
#include "simulator/flow.h"
#include <stdarg.h>
#include <string.h>

#define MAX_REPORTED 1000
#define NEWEST_WORDS 90          /* version of PTX that ptx_words.c knows */
#define STACK_BYTES  (64u << 10) /* per thread, for recursion and alloca; the driver's default is 1 KiB */

static void report(Decoder *d, ErrorCode code, const char *format, va_list list)
{
  if (d->failed) return;
  d->failed = true;
  /* a function inlined several times is reported once */
  if (!g_hash_table_add(d->reported, (void *)d->source) || ++d->n_errors > MAX_REPORTED) return;
  g_autofree char *text = g_strdup_vprintf(format, list);
  error_add(d->error, code, SEVERITY_ERROR, &d->source->mark,
            code == ERROR_INPUT ? "ptx-invalid" : "ptx-unsupported", NULL, "instruction '%s': %s",
            d->source->text, text);
}

void decode_fail(Decoder *d, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  report(d, ERROR_UNSUPPORTED, format, list);
  va_end(list);
}

void decode_wrong(Decoder *d, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  report(d, ERROR_INPUT, format, list);
  va_end(list);
}

/* Words that PTX has not are wrong, unless the text is of a later version, which may have them. */
static bool knows_words(const Decoder *d)
{
  return d->module->version <= NEWEST_WORDS;
}

static bool check_modifiers(Decoder *d, unsigned first)
{
  for (unsigned i = first; i < d->source->n_parts && knows_words(d); i++) {
    const char *word = d->source->parts[i];
    if (g_hash_table_contains(d->words, word)) continue;
    if (!ptx_is_modifier(word)) {
      decode_wrong(d, "PTX has no modifier '.%s'", word);
      return false;
    }
    g_hash_table_add(d->words, (void *)word);
  }
  return true;
}

bool take(Decoder *d, const char *modifier)
{
  for (unsigned i = 1; i < d->source->n_parts; i++)
    if (!(d->taken >> i & 1) && strcmp(d->source->parts[i], modifier) == 0) {
      d->taken |= 1ull << i;
      return true;
    }
  return false;
}

bool take_one(Decoder *d, const char *const *modifiers, int *which)
{
  for (int i = 0; modifiers[i]; i++)
    if (take(d, modifiers[i])) {
      if (which) *which = i;
      return true;
    }
  return false;
}

void take_hints(Decoder *d)
{
  static const char *const hints[] = {"ca",
                                      "cg",
                                      "cs",
                                      "lu",
                                      "cv",
                                      "wb",
                                      "wt",
                                      "nc",
                                      "L1::evict_normal",
                                      "L1::evict_unchanged",
                                      "L1::evict_first",
                                      "L1::evict_last",
                                      "L1::no_allocate",
                                      "L2::64B",
                                      "L2::128B",
                                      "L2::256B",
                                      "L2::cache_hint",
                                      "L2::evict_first",
                                      "L2::evict_last",
                                      "L2::evict_normal",
                                      NULL};
  while (take_one(d, hints, NULL))
    ;
}

PtxType take_type(Decoder *d)
{
  for (unsigned i = 1; i < d->source->n_parts; i++) {
    if (d->taken >> i & 1) continue;
    PtxType type = ptx_type_parse(d->source->parts[i]);
    if (type == TYPE_NONE) continue;
    d->taken |= 1ull << i;
    return type;
  }
  return TYPE_NONE;
}

PtxType need_type(Decoder *d)
{
  PtxType type = take_type(d);
  if (type == TYPE_NONE) decode_wrong(d, "a type is missing");
  return type == TYPE_NONE ? TYPE_B32 : type;
}

Rounding take_rounding(Decoder *d, Rounding otherwise)
{
  static const char *const names[] = {"rn", "rz", "rm", "rp", "rna", NULL};
  static const char *const integer[] = {"rni", "rzi", "rmi", "rpi", NULL};
  int which;
  if (take_one(d, names, &which) || take_one(d, integer, &which)) return (Rounding)which;
  return otherwise;
}

unsigned operand_count(const Decoder *d)
{
  return d->source->n_operands;
}

const PtxOperand *operand_at(Decoder *d, unsigned i)
{
  static const PtxOperand none = {.kind = OPERAND_SINK};
  if (i < d->source->n_operands) return &d->source->operands[i];
  decode_wrong(d, "operand %u is missing", i + 1);
  return &none;
}

unsigned type_slots(PtxType type)
{
  unsigned bytes = ptx_type_bytes(type);
  return bytes <= 4 ? 1 : bytes / 4;
}

uint32_t constant(Decoder *d, uint64_t bits, unsigned bytes)
{
  bool wide = bytes > 4;
  uint64_t *key = g_new(uint64_t, 2);
  key[0] = wide ? bits : bits & 0xffffffff;
  key[1] = wide;
  g_autofree char *text = g_strdup_printf("%llx/%d", (unsigned long long)key[0], wide);
  g_free(key);
  void *known = g_hash_table_lookup(d->constant_index, text);
  if (known) return (uint32_t)(GPOINTER_TO_UINT(known) - 1) | OPERAND_CONSTANT;
  uint32_t id = d->constants->len;
  g_array_set_size(d->constants, id + (wide ? 2 : 1));
  uint8_t *at = (uint8_t *)d->constants->data + (size_t)id * SLOT_BYTES;
  for (unsigned l = 0; l < LANES; l++)
    memcpy(at + l * (wide ? 8 : 4), &bits, wide ? 8 : 4);
  g_hash_table_insert(d->constant_index, g_steal_pointer(&text), GUINT_TO_POINTER(id + 1));
  return id | OPERAND_CONSTANT;
}

static uint64_t float_constant(const PtxOperand *o, PtxType type)
{
  unsigned bytes = ptx_type_bytes(type);
  if (bytes == 8) return double_bits(o->number);
  if (bytes == 4) return o->single ? (uint64_t)o->value & 0xffffffff : float_bits((float)o->number);
  return narrow_from_double(type == TYPE_BF16 ? &format_bf16 : &format_f16, o->number, ROUND_NEAREST, false);
}

static uint64_t symbol_address(Decoder *d, const PtxSymbol *s)
{
  switch (s->space) {
  case SPACE_SHARED: {
    uint64_t *own = s->function ? g_hash_table_lookup(d->shared, s->function) : NULL;
    uint64_t base = d->kernel->shared_base + (own ? *own : 0);
    if (s->is_extern)
      base = (d->kernel->shared_base + d->kernel->shared_static + s->align - 1) / s->align * s->align;
    return base + (s->is_extern ? 0 : s->offset);
  }
  case SPACE_GLOBAL:
    for (unsigned i = 0; i < d->module->n_variables; i++)
      if (d->module->variables[i] == s) return (uint64_t)(VARIABLE_BUFFER + i + 1) << BUFFER_SHIFT;
    return 0;
  case SPACE_PARAM:
    return s->is_parameter && d->frame->is_entry ? s->offset : frame_local(d->frame) + s->offset;
  case SPACE_LOCAL: return frame_local(d->frame) + s->offset;
  default: return s->offset;
  }
}

/* The variable's place depends on the activation of the function it is in. */
static bool on_stack(const Decoder *d, const PtxSymbol *s)
{
  if (!frame_base(d->frame)) return false;
  return s->space == SPACE_LOCAL || s->space == SPACE_PARAM;
}

bool stack_variable(Decoder *d, const PtxOperand *o, uint64_t *offset)
{
  if (o->kind != OPERAND_SYMBOL || o->symbol->kind != SYMBOL_VARIABLE || !on_stack(d, o->symbol))
    return false;
  *offset = symbol_address(d, o->symbol) + (uint64_t)o->value;
  return true;
}

static void note(GArray *list, uint32_t slot, unsigned n)
{
  for (unsigned i = 0; i < n; i++) {
    uint32_t s = slot + i;
    g_array_append_val(list, s);
  }
}

static uint32_t register_slot(Decoder *d, const PtxSymbol *s)
{
  if (!s->is_special) return frame_slot(d->frame, s);
  for (unsigned i = 0; i < d->specials->len; i++) {
    SpecialUse *use = &g_array_index(d->specials, SpecialUse, i);
    if (strcmp(use->name, s->name) == 0) return use->slot;
  }
  if (g_str_has_prefix(s->name, "%envreg")) d->kernel->cooperative = true;
  SpecialUse use = {s->name, frame_slot(d->frame, s), s->type};
  g_array_append_val(d->specials, use);
  return use.slot;
}

uint32_t source(Decoder *d, const PtxOperand *o, PtxType type)
{
  unsigned bytes;
  uint32_t id = source_wide(d, o, type, &bytes);
  if (o->kind == OPERAND_REGISTER && type_slots(o->symbol->type) != type_slots(type))
    decode_wrong(d, "register '%s' has %u bits, not %u", o->name, bytes * 8, ptx_type_bytes(type) * 8);
  return id;
}

uint32_t source_wide(Decoder *d, const PtxOperand *o, PtxType type, unsigned *bytes)
{
  *bytes = ptx_type_bytes(type);
  switch (o->kind) {
  case OPERAND_REGISTER: {
    if (o->selector && !d->takes_selectors) decode_fail(d, "'.%s' behind a register", o->selector);
    if (o->value) decode_fail(d, "register + offset stands outside an address");
    if ((o->symbol->type == TYPE_PRED) != (type == TYPE_PRED))
      decode_wrong(d, "'%s' %s a predicate", o->name, type == TYPE_PRED ? "is not" : "is");
    *bytes = ptx_type_bytes(o->symbol->type);
    uint32_t slot = register_slot(d, o->symbol);
    note(d->reads, slot, type_slots(o->symbol->type));
    return slot;
  }
  case OPERAND_INTEGER:
    if (type == TYPE_PRED) return constant(d, o->value ? FULL : 0, 4);
    if (type == TYPE_F64) return constant(d, double_bits((double)o->value), 8);
    if (type == TYPE_F32) return constant(d, float_bits((float)o->value), 4);
    if (*bytes == 2) return constant(d, (uint16_t)o->value, 4);
    return constant(d, (uint64_t)o->value, *bytes);
  case OPERAND_FLOAT: return constant(d, float_constant(o, type), *bytes);
  case OPERAND_SYMBOL:
    if (o->symbol->kind == SYMBOL_FUNCTION)
      return constant(d, call_address(d->module, o->symbol->function), *bytes);
    if (o->symbol->kind == SYMBOL_VARIABLE && on_stack(d, o->symbol)) break;
    if (o->symbol->kind == SYMBOL_VARIABLE)
      return constant(d, symbol_address(d, o->symbol) + (uint64_t)o->value, *bytes);
    break;
  default: break;
  }
  decode_wrong(d, "an operand is not of a kind this instruction takes");
  return constant(d, 0, *bytes);
}

uint32_t destination(Decoder *d, const PtxOperand *o, PtxType type)
{
  unsigned bytes;
  uint32_t id = destination_wide(d, o, type, &bytes);
  if (o->kind == OPERAND_REGISTER && type_slots(o->symbol->type) != type_slots(type))
    decode_wrong(d, "register '%s' has %u bits, not %u", o->name, bytes * 8, ptx_type_bytes(type) * 8);
  return id;
}

uint32_t destination_wide(Decoder *d, const PtxOperand *o, PtxType type, unsigned *bytes)
{
  *bytes = ptx_type_bytes(type);
  if (o->kind == OPERAND_SINK) {
    /* a slot nobody reads; the kernel's first four slots are kept for that */
    return 0;
  }
  if (o->kind != OPERAND_REGISTER || o->symbol->is_special || (o->selector && !d->takes_selectors)) {
    decode_wrong(d, "a register is needed as destination");
    return 0;
  }
  if ((o->symbol->type == TYPE_PRED) != (type == TYPE_PRED))
    decode_wrong(d, "'%s' %s a predicate", o->name, type == TYPE_PRED ? "is not" : "is");
  *bytes = ptx_type_bytes(o->symbol->type);
  uint32_t slot = register_slot(d, o->symbol);
  note(d->writes, slot, type_slots(o->symbol->type));
  return slot;
}

uint32_t source_at(Decoder *d, unsigned i, PtxType type)
{
  return source(d, operand_at(d, i), type);
}

uint32_t destination_at(Decoder *d, unsigned i, PtxType type)
{
  return destination(d, operand_at(d, i), type);
}

bool is_immediate(const PtxOperand *o)
{
  return o->kind == OPERAND_INTEGER;
}

int64_t immediate_at(Decoder *d, unsigned i)
{
  const PtxOperand *o = operand_at(d, i);
  if (o->kind != OPERAND_INTEGER) decode_wrong(d, "operand %u must be an integer constant", i + 1);
  return o->value;
}

unsigned elements(const PtxOperand *o, const PtxOperand **items)
{
  if (o->kind == OPERAND_VECTOR) {
    *items = o->items;
    return o->n;
  }
  *items = o;
  return 1;
}

uint32_t *new_list(Decoder *d, unsigned n)
{
  d->in->list = arena_new_array(d->kernel->arena, uint32_t, n + 1);
  d->in->n_list = (uint16_t)n;
  return d->in->list;
}

/* An instruction without a state space takes that of the variable it names, if generic addresses reach it. */
static void resolve_space(Decoder *d, const PtxSymbol *s, Space *space)
{
  bool generic = *space == SPACE_GENERIC && s->space != SPACE_PARAM && s->space != SPACE_CONST;
  bool same = *space == s->space || (*space == SPACE_CLUSTER && s->space == SPACE_SHARED);
  if (generic)
    *space = s->space;
  else if (!same)
    decode_wrong(d, "'%s' is in another state space", s->name);
}

uint32_t address(Decoder *d, const PtxOperand *o, int64_t *offset, bool *is64, Space *space)
{
  *offset = 0;
  *is64 = false;
  if (o->kind != OPERAND_ADDRESS) {
    decode_wrong(d, "an address in brackets is needed");
    return constant(d, 0, 4);
  }
  const PtxOperand *base = &o->items[0];
  if (base->kind == OPERAND_REGISTER) {
    *offset = base->value;
    if (base->symbol->type == TYPE_PRED) decode_wrong(d, "a predicate is no address");
    *is64 = ptx_type_bytes(base->symbol->type) == 8;
    uint32_t slot = register_slot(d, base->symbol);
    note(d->reads, slot, *is64 ? 2 : 1);
    return slot;
  }
  if (base->kind == OPERAND_SYMBOL && base->symbol->kind == SYMBOL_VARIABLE) {
    *is64 = true;
    if (space) resolve_space(d, base->symbol, space);
    /* call parameters are memory of the thread */
    if (base->symbol->space == SPACE_PARAM && !(base->symbol->is_parameter && d->frame->is_entry) && space)
      *space = SPACE_LOCAL;
    if (on_stack(d, base->symbol)) {
      *offset = (int64_t)(symbol_address(d, base->symbol) + (uint64_t)base->value);
      return frame_base(d->frame);
    }
    return constant(d, symbol_address(d, base->symbol) + (uint64_t)base->value, 8);
  }
  if (base->kind == OPERAND_INTEGER) {
    *is64 = true;
    return constant(d, (uint64_t)base->value, 8);
  }
  decode_wrong(d, "the address must be a register, a variable or a number");
  return constant(d, 0, 4);
}

static const OpcodeRow *find_row(const PtxInstruction *source, unsigned *parts)
{
  const OpcodeRow *best = NULL;
  unsigned best_parts = 0;
  for (unsigned i = 0; i < opcode_row_count; i++) {
    const char *name = opcode_rows[i].name;
    unsigned k = 0;
    bool match = true;
    while (match && *name) {
      size_t n = strcspn(name, ".");
      match = k < source->n_parts && strlen(source->parts[k]) == n && strncmp(source->parts[k], name, n) == 0;
      name += n + (name[n] == '.');
      k++;
    }
    if (match && k > best_parts) {
      best = &opcode_rows[i];
      best_parts = k;
    }
  }
  *parts = best_parts;
  return best;
}

static uint32_t *keep(Decoder *d, GArray *list, uint16_t *n)
{
  *n = (uint16_t)MIN(list->len, 65535);
  return arena_memdup(d->kernel->arena, list->data, list->len * sizeof(uint32_t));
}

void decode_instruction(Decoder *d, const PtxInstruction *source_, Inst *in)
{
  d->source = source_;
  d->in = in;
  d->taken = 1;
  d->failed = false;
  d->takes_selectors = false;
  g_array_set_size(d->reads, 0);
  g_array_set_size(d->writes, 0);
  *in = (Inst){.source = source_, .guard = OPERAND_NONE, .target = NO_PC, .reconverge = NO_PC};
  for (unsigned i = 0; i < G_N_ELEMENTS(in->a); i++)
    in->a[i] = OPERAND_NONE;
  in->d[0] = in->d[1] = OPERAND_NONE;
  if (source_->guard) {
    in->guard = register_slot(d, source_->guard);
    in->guard_negated = source_->guard_negated;
  }
  unsigned parts;
  const OpcodeRow *row = find_row(source_, &parts);
  if (!row || source_->n_parts > 63) {
    if (knows_words(d) && !ptx_is_opcode(source_->parts[0]))
      decode_wrong(d, "PTX has no instruction '%s'", source_->parts[0]);
    else
      decode_fail(d, "unknown instruction");
    return;
  }
  if (!check_modifiers(d, parts)) return;
  for (unsigned i = 0; i < parts; i++)
    d->taken |= 1ull << i;
  if (source_->n_operands < row->least || source_->n_operands > row->most) {
    decode_wrong(d, "takes %u to %u operands, not %u", row->least, row->most, source_->n_operands);
    return;
  }
  row->decode(d, row->argument);
  for (unsigned i = 0; i < source_->n_parts && !d->failed; i++)
    if (!(d->taken >> i & 1)) decode_fail(d, "modifier '.%s' is not supported", source_->parts[i]);
  if (!d->failed && !in->run) decode_fail(d, "not implemented");
  in->reads = keep(d, d->reads, &in->n_reads);
  in->writes = keep(d, d->writes, &in->n_writes);
  spread_decode(in);
}

static void name_variable(GArray *names, const PtxSymbol *s, uint64_t start)
{
  SharedVariable v = {s->name, start + s->offset, start + s->offset + s->bytes};
  g_array_append_val(names, v);
}

/* For reports. Dynamic shared memory goes by the name of an array without a size. */
static void name_shared(Decoder *d)
{
  Kernel *k = d->kernel;
  const PtxModule *m = k->module;
  g_autoptr(GArray) names = g_array_new(FALSE, FALSE, sizeof(SharedVariable));
  for (unsigned i = 0; i < m->n_variables; i++)
    if (m->variables[i]->space == SPACE_SHARED && !m->variables[i]->is_extern)
      name_variable(names, m->variables[i], k->shared_base);
  for (unsigned i = 0; i <= m->n_functions; i++) {
    const PtxFunction *f = i ? m->functions[i - 1] : k->function;
    const uint64_t *start = g_hash_table_lookup(d->shared, f);
    for (const PtxSymbol *s = f->shared; s && start && !(i && f->is_entry); s = s->next_shared)
      name_variable(names, s, k->shared_base + *start);
  }
  for (unsigned i = 0; i < m->n_variables; i++)
    if (m->variables[i]->space == SPACE_SHARED && m->variables[i]->is_extern) {
      SharedVariable v = {m->variables[i]->name, k->shared_base + k->shared_static, UINT64_MAX};
      g_array_append_val(names, v);
    }
  k->n_shared_variables = names->len;
  k->shared_variables = arena_memdup(k->arena, names->data, names->len * sizeof(SharedVariable));
}

/* Shared variables of the module, then those of the entry, then those of the functions it may call. */
static void layout_shared(Decoder *d)
{
  Kernel *k = d->kernel;
  const PtxModule *m = k->module;
  uint64_t end = m->shared_bytes;
  for (unsigned i = 0; i <= m->n_functions; i++) {
    const PtxFunction *f = i ? m->functions[i - 1] : k->function;
    if (!f->shared_bytes || (i && f->is_entry)) continue;
    end = (end + 127) / 128 * 128;
    uint64_t *start = g_new(uint64_t, 1);
    *start = end;
    g_hash_table_insert(d->shared, (void *)f, start);
    end += f->shared_bytes;
  }
  /* the assembler counts the gap before dynamic shared memory as static, so the launch need not ask for it */
  uint64_t align = MAX(m->dynamic_align, 1);
  k->shared_static = (end + align - 1) / align * align;
}

/* Calls that stay calls need a stack; its size is what a launch gives a thread unless told otherwise, times
 * many. */
static void finish_stack(Decoder *d)
{
  Kernel *k = d->kernel;
  const Routine *entry = g_ptr_array_index(d->routines, 0);
  k->local_bytes = k->stack_start = (entry->local_bytes + 15) / 16 * 16;
  k->n_routines = d->routines->len;
  k->routines = arena_memdup(k->arena, d->routines->pdata, d->routines->len * sizeof(void *));
  k->stack_top = k->local_bytes || k->n_routines > 1 ? entry->top : 0;
  if (k->n_routines > 1 || d->allocates) k->local_bytes += STACK_BYTES;
  k->slot_bytes = arena_memdup(k->arena, d->slot_bytes->data, d->slot_bytes->len);
}

Kernel *kernel_decode(const PtxModule *module, const PtxFunction *function, GError **error)
{
  Kernel *k = g_new0(Kernel, 1);
  k->module = module;
  k->function = function;
  k->arena = arena_new();
  k->local_bytes = 0;
  /* newer targets keep the first bytes of the window for themselves, which also catches null pointers */
  k->shared_base =
      module->target && g_str_has_prefix(module->target, "sm_") && atoi(module->target + 3) >= 90 ? 1024 : 0;
  GError *local = NULL;
  Decoder d = {.module = module, .kernel = k, .function = function, .error = &local};
  d.shared = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, g_free);
  d.reported = g_hash_table_new(g_direct_hash, g_direct_equal);
  d.words = g_hash_table_new(g_str_hash, g_str_equal);
  d.routines = g_ptr_array_new();
  d.slot_bytes = g_byte_array_new();
  layout_shared(&d);
  name_shared(&d);
  d.code = g_array_new(FALSE, TRUE, sizeof(Inst));
  d.constants = g_array_new(FALSE, TRUE, SLOT_BYTES);
  d.constant_index = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  d.reads = g_array_new(FALSE, TRUE, sizeof(uint32_t));
  d.writes = g_array_new(FALSE, TRUE, sizeof(uint32_t));
  d.specials = g_array_new(FALSE, TRUE, sizeof(SpecialUse));
  flow_decode(&d);
  finish_stack(&d);
  k->n_code = d.code->len;
  k->code = arena_memdup(k->arena, d.code->data, d.code->len * sizeof(Inst));
  k->n_constants = d.constants->len;
  k->constants = g_aligned_alloc0(d.constants->len + 1, SLOT_BYTES, 128);
  if (k->n_constants) memcpy(k->constants, d.constants->data, (size_t)k->n_constants * SLOT_BYTES);
  k->n_specials = d.specials->len;
  k->specials = arena_memdup(k->arena, d.specials->data, d.specials->len * sizeof(SpecialUse));
  g_array_free(d.code, TRUE);
  g_array_free(d.constants, TRUE);
  g_hash_table_destroy(d.constant_index);
  g_array_free(d.reads, TRUE);
  g_array_free(d.writes, TRUE);
  g_array_free(d.specials, TRUE);
  g_hash_table_destroy(d.shared);
  g_hash_table_destroy(d.reported);
  g_hash_table_destroy(d.words);
  g_ptr_array_free(d.routines, TRUE);
  g_byte_array_free(d.slot_bytes, TRUE);
  if (!local) {
    flow_reconverge(k);
    return k;
  }
  kernel_free(k);
  g_propagate_error(error, local);
  return NULL;
}

void kernel_free(Kernel *kernel)
{
  if (!kernel) return;
  g_aligned_free(kernel->constants);
  arena_free(kernel->arena);
  g_free(kernel);
}
