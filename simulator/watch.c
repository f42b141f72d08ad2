/* Reading the texts of --watch. */
#include "simulator/watch.h"
#include "simulator/flow.h"
#include <stdlib.h>
#include <string.h>

#define MAX_ELEMENTS 65536

static bool wrong(const char *text, GError **error, const char *hint, const char *format, ...)
    G_GNUC_PRINTF(4, 5);
static bool wrong(const char *text, GError **error, const char *hint, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  g_autofree char *what = g_strdup_vprintf(format, list);
  va_end(list);
  error_set(error, ERROR_USAGE, NULL, "bad-watch", hint, "--watch %s: %s", text, what);
  return false;
}

/* --- registers by name --- */

/* Registers have no table of their own: whatever the entry uses is named by an operand. */
static const PtxSymbol *find_in_operand(const PtxOperand *o, const char *name)
{
  if (o->kind == OPERAND_REGISTER && o->symbol && !strcmp(o->symbol->name, name)) return o->symbol;
  for (unsigned i = 0; i < o->n; i++) {
    const PtxSymbol *found = find_in_operand(&o->items[i], name);
    if (found) return found;
  }
  return NULL;
}

static const PtxSymbol *find_register(const PtxFunction *f, const char *name)
{
  for (unsigned i = 0; i < f->n_code; i++) {
    const PtxInstruction *in = &f->code[i];
    if (in->guard && !strcmp(in->guard->name, name)) return in->guard;
    for (unsigned k = 0; k < in->n_operands; k++) {
      const PtxSymbol *found = find_in_operand(&in->operands[k], name);
      if (found) return found;
    }
  }
  return NULL;
}

static WatchRegister register_of(const Kernel *kernel, const PtxSymbol *symbol)
{
  WatchRegister r = {symbol->name, kernel->routines[0]->frame->first_slot + symbol->slot, symbol->type};
  for (unsigned i = 0; symbol->is_special && i < kernel->n_specials; i++)
    if (!strcmp(kernel->specials[i].name, symbol->name)) r.slot = kernel->specials[i].slot;
  return r;
}

static bool add_register(const Kernel *kernel, const char *name, Watch *watch, GError **error)
{
  const PtxSymbol *symbol = find_register(kernel->function, name);
  if (!symbol) return wrong(watch->text, error, NULL, "%s uses no register %s", kernel->function->name, name);
  WatchRegister r = register_of(kernel, symbol);
  g_array_append_val(watch->registers, r);
  return true;
}

/* "%f0..%f3", or several separated by commas */
static bool add_registers(const Kernel *kernel, const char *list, Watch *watch, GError **error)
{
  g_auto(GStrv) words = g_strsplit(list, ",", -1);
  for (unsigned i = 0; words[i]; i++) {
    char *dots = strstr(words[i], "..");
    if (!dots) {
      if (!add_register(kernel, words[i], watch, error)) return false;
      continue;
    }
    *dots = 0;
    const char *last = dots + 2;
    size_t prefix = strlen(words[i]);
    while (prefix && g_ascii_isdigit(words[i][prefix - 1]))
      prefix--;
    unsigned long from = strtoul(words[i] + prefix, NULL, 10);
    bool alike = !strncmp(words[i], last, prefix) && g_ascii_isdigit(last[prefix]);
    unsigned long to = alike ? strtoul(last + prefix, NULL, 10) : 0;
    if (!alike || to < from || to - from > 1024)
      return wrong(watch->text, error, NULL, "%s..%s is no range of registers", words[i], last);
    for (; from <= to; from++) {
      g_autofree char *name = g_strdup_printf("%.*s%lu", (int)prefix, words[i], from);
      if (!add_register(kernel, name, watch, error)) return false;
    }
  }
  return true;
}

static void add_operand(const Kernel *kernel, const PtxOperand *o, GArray *registers)
{
  if (o->kind == OPERAND_REGISTER && o->symbol) {
    WatchRegister r = register_of(kernel, o->symbol);
    for (guint i = 0; i < registers->len; i++)
      if (g_array_index(registers, WatchRegister, i).slot == r.slot) return;
    g_array_append_val(registers, r);
  }
  for (unsigned i = 0; i < o->n; i++)
    add_operand(kernel, &o->items[i], registers);
}

void watch_registers_of(const Kernel *kernel, const PtxInstruction *source, GArray *registers)
{
  const PtxFunction *f = kernel->function;
  if (source < f->code || source >= f->code + f->n_code) return;
  for (unsigned i = 0; i < source->n_operands; i++)
    add_operand(kernel, &source->operands[i], registers);
}

/* --- the forms of a watch --- */

static bool read_type(Watch *watch, const char *text, GError **error)
{
  if (number_parse(text, &watch->type)) {
    watch->typed = true;
    return true;
  }
  return wrong(watch->text, error, "f32, f16, bf16, e4m3, s32, u8 and the like", "unknown type '%s'", text);
}

static bool parse_registers(const Kernel *kernel, char **parts, Watch *watch, GError **error)
{
  watch->kind = WATCH_REGISTERS;
  if (parts[1] && parts[2]) return wrong(watch->text, error, NULL, "more than registers and a type");
  if (!add_registers(kernel, parts[0], watch, error)) return false;
  if (!parts[1]) return true;
  if (!read_type(watch, parts[1], error)) return false;
  for (guint i = 0; i < watch->registers->len; i++) {
    const WatchRegister *r = &g_array_index(watch->registers, WatchRegister, i);
    if (r->type == TYPE_PRED || ptx_type_bytes(r->type) < number_bytes(watch->type))
      return wrong(watch->text, error, NULL, "%s is of type %s, which holds no %s", r->name,
                   ptx_type_name(r->type), number_name(watch->type));
  }
  return true;
}

static bool parse_shape(Watch *watch, const char *shape, GError **error)
{
  unsigned first = 0, second = 0;
  char a = 0, b = 0, end = 0;
  bool read = sscanf(shape, "%c%u%c%u%c", &a, &first, &b, &second, &end) == 4;
  bool left = a == 'm' && (b == 'n' || b == 'k') && first == 16, right = a == 'k' && b == 'n' && second == 8;
  unsigned other = left ? second : first;
  if (!read || !(left || right) || !other || other > 256)
    return wrong(watch->text, error, "m16nN is an accumulator, m16kN a left operand, kNn8 a right one",
                 "unknown shape '%s'", shape);
  watch->rows = first;
  watch->columns = second;
  watch->form = right ? 'b' : b == 'k' ? 'a' : 'n';
  return true;
}

static bool parse_fragment(const Kernel *kernel, char **parts, Watch *watch, GError **error)
{
  watch->kind = WATCH_FRAGMENT;
  if (g_strv_length(parts) != 4)
    return wrong(watch->text, error, "fragment:m16n8:f32:%f0..%f3",
                 "a fragment has shape, type and registers");
  if (!parse_shape(watch, parts[1], error) || !read_type(watch, parts[2], error) ||
      !add_registers(kernel, parts[3], watch, error))
    return false;
  unsigned bits = number_bits(watch->type);
  if (bits > 32 || (watch->form == 'n' && bits < 16))
    return wrong(watch->text, error, NULL, "no fragment of this shape has elements of type %s",
                 number_name(watch->type));
  unsigned needed = watch->rows * watch->columns * bits / 32 / LANES;
  if (watch->registers->len != needed)
    return wrong(watch->text, error, NULL, "%u registers; a %u x %u fragment of %s has %u",
                 watch->registers->len, watch->rows, watch->columns, number_name(watch->type), needed);
  for (guint i = 0; i < needed; i++)
    if (ptx_type_bytes(g_array_index(watch->registers, WatchRegister, i).type) != 4)
      return wrong(watch->text, error, NULL, "registers of a fragment have 32 bits");
  return true;
}

static bool read_number(const char *text, uint64_t *value)
{
  char *end = NULL;
  *value = g_ascii_strtoull(text, &end, 0);
  return end != text && !*end;
}

/* RxC:TYPE[:swizzleB][:pitchB] */
static bool parse_matrix(Watch *watch, char **parts, GError **error)
{
  char end = 0;
  if (!parts[0] || !parts[1] || sscanf(parts[0], "%ux%u%c", &watch->rows, &watch->columns, &end) != 2 ||
      !watch->rows || !watch->columns || (uint64_t)watch->rows * watch->columns > MAX_ELEMENTS)
    return wrong(watch->text, error, "such as shared:0x400:64x64:bf16:swizzle128",
                 "rows x columns (at most %u elements) and a type are needed", MAX_ELEMENTS);
  if (!read_type(watch, parts[1], error)) return false;
  uint64_t row = (uint64_t)watch->columns * number_bytes(watch->type);
  for (parts += 2; *parts; parts++) {
    uint64_t value = 0;
    if (g_str_has_prefix(*parts, "pitch") && read_number(*parts + 5, &value) && value) {
      watch->pitch = value;
    } else if (watch->kind == WATCH_SHARED && g_str_has_prefix(*parts, "swizzle") &&
               read_number(*parts + 7, &value) && (value == 32 || value == 64 || value == 128)) {
      watch->swizzle = (unsigned)value;
    } else {
      return wrong(watch->text, error, "pitchBYTES, and of shared memory swizzle32, swizzle64 or swizzle128",
                   "unknown '%s'", *parts);
    }
  }
  if (!watch->pitch) watch->pitch = watch->swizzle ? watch->swizzle : row;
  if (watch->swizzle && row > watch->swizzle)
    return wrong(watch->text, error, NULL, "a row of %u bytes is wider than the swizzle", (unsigned)row);
  return true;
}

/* AT, AT+BYTES */
static bool split_offset(char *place, uint64_t *offset)
{
  char *plus = strchr(place, '+');
  *offset = 0;
  if (!plus) return true;
  *plus = 0;
  return read_number(plus + 1, offset);
}

static bool parse_shared(const Kernel *kernel, char **parts, Watch *watch, GError **error)
{
  uint64_t base = 0;
  watch->kind = WATCH_SHARED;
  bool ok = parts[1] && split_offset(parts[1], &watch->at);
  watch->at_register = ok && parts[1][0] == '%';
  if (watch->at_register) {
    if (!add_register(kernel, parts[1], watch, error)) return false;
  } else if (!ok || !read_number(parts[1], &base)) {
    return wrong(watch->text, error, "a number such as 0x400, or a register", "no shared address");
  }
  watch->at += base;
  return parse_matrix(watch, parts + 2, error);
}

static const Buffer *find_buffer(const Run *run, const char *name)
{
  for (unsigned i = 0; i < run->n_buffers; i++)
    if (run->buffers[i].name && !strcmp(run->buffers[i].name, name)) return &run->buffers[i];
  for (unsigned i = 0; i < run->n_variables; i++)
    if (run->variables[i].data && !strcmp(run->variables[i].name, name)) return &run->variables[i];
  return NULL;
}

static bool parse_global(const Run *run, char **parts, Watch *watch, GError **error)
{
  watch->kind = WATCH_GLOBAL;
  if (!parts[1] || !split_offset(parts[1], &watch->at))
    return wrong(watch->text, error, "such as global:c+128:2x8:f32", "no buffer");
  watch->buffer = find_buffer(run, parts[1]);
  if (!watch->buffer) {
    GString *names = g_string_new("there are");
    for (unsigned i = 0; i < run->n_buffers; i++)
      if (run->buffers[i].name) g_string_append_printf(names, "%s %s", i ? "," : "", run->buffers[i].name);
    wrong(watch->text, error, names->str, "no buffer '%s'", parts[1]);
    g_string_free(names, TRUE);
    return false;
  }
  return parse_matrix(watch, parts + 2, error);
}

bool watch_parse(const Run *run, const Kernel *kernel, const char *text, Watch *watch, GError **error)
{
  *watch = (Watch){.text = text, .registers = g_array_new(FALSE, FALSE, sizeof(WatchRegister))};
  g_auto(GStrv) parts = g_strsplit(text, ":", -1);
  if (text[0] == '%') return parse_registers(kernel, parts, watch, error);
  if (!strcmp(parts[0] ? parts[0] : "", "fragment")) return parse_fragment(kernel, parts, watch, error);
  if (!strcmp(parts[0] ? parts[0] : "", "shared")) return parse_shared(kernel, parts, watch, error);
  if (!strcmp(parts[0] ? parts[0] : "", "global")) return parse_global(run, parts, watch, error);
  return wrong(text, error, "%REGISTER, fragment:..., shared:... or global:...; docs/simulator.md",
               "nothing that can be watched");
}

void watch_clear(void *watch)
{
  g_array_free(((Watch *)watch)->registers, TRUE);
}
