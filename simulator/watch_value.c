/* What a warp holds, as JSON. A value nobody has written is null, one that cannot be reached is "out". */
#include "simulator/flow.h"
#include "simulator/watch.h"
#include <math.h>
#include <string.h>

static json_t *number_value(NumberType type, const void *memory)
{
  uint64_t bits = 0;
  memcpy(&bits, memory, number_bytes(type));
  switch (number_class(type)) {
  case NUMBER_FLOAT: {
    double value = number_to_double(type, memory);
    return isfinite(value) ? json_real(value)
                           : json_string(isnan(value) ? "nan"
                                         : value > 0  ? "inf"
                                                      : "-inf");
  }
  case NUMBER_BITS: {
    g_autofree char *text = g_strdup_printf("0x%" G_GINT64_MODIFIER "x", bits);
    return json_string(text);
  }
  case NUMBER_SIGNED: {
    unsigned unused = 64 - number_bits(type);
    return json_integer((json_int_t)((int64_t)(bits << unused) >> unused));
  }
  default: return json_integer((json_int_t)bits);
  }
}

/* The type a register is shown in: its own if that is a number's, else its bits. */
static NumberType shown_type(const Watch *watch, const WatchRegister *r)
{
  NumberType type;
  if (watch && watch->typed) return watch->type;
  if (number_parse(ptx_type_name(r->type), &type)) return type;
  return ptx_type_bytes(r->type) == 8 ? NUMBER_B64 : ptx_type_bytes(r->type) == 2 ? NUMBER_B16 : NUMBER_B32;
}

static bool is_undefined(const Warp *w, uint32_t slot, unsigned lane)
{
  return undefined_lanes(w, slot) >> lane & 1;
}

static const uint8_t *lane_bytes(const Warp *w, const WatchRegister *r, unsigned lane)
{
  unsigned bytes = ptx_type_bytes(r->type);
  return (const uint8_t *)operand(w, r->slot) + (size_t)lane * MAX(bytes, 4);
}

static json_t *lane_value(const Warp *w, const WatchRegister *r, NumberType type, unsigned lane)
{
  if (is_undefined(w, r->slot, lane)) return json_null();
  if (r->type == TYPE_PRED) return json_boolean(predicate(w, r->slot) >> lane & 1);
  unsigned n = MAX(ptx_type_bytes(r->type) / number_bytes(type), 1);
  const uint8_t *at = lane_bytes(w, r, lane);
  if (n == 1) return number_value(type, at);
  json_t *packed = json_array();
  for (unsigned i = 0; i < n; i++)
    json_array_append_new(packed, number_value(type, at + (size_t)i * number_bytes(type)));
  return packed;
}

static bool is_in_flight(const Watch *watch, const Warp *w)
{
  for (guint i = 0; w->in_flight && i < watch->registers->len; i++)
    if (w->in_flight[g_array_index(watch->registers, WatchRegister, i).slot]) return true;
  return false;
}

static json_t *registers_value(const Watch *watch, const Warp *w)
{
  json_t *list = json_array();
  for (guint i = 0; i < watch->registers->len; i++) {
    const WatchRegister *r = &g_array_index(watch->registers, WatchRegister, i);
    NumberType type = shown_type(watch, r);
    json_t *lanes = json_array();
    for (unsigned l = 0; l < LANES; l++)
      json_array_append_new(lanes, lane_value(w, r, type, l));
    const char *name = r->type == TYPE_PRED ? ptx_type_name(r->type) : number_name(type);
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:o}", "register", r->name, "type", name, "lanes", lanes));
  }
  return json_pack("{s:s, s:o}", "watch", watch->text, "registers", list);
}

/* --- matrices --- */

/* Where element j of register i of a lane stands: the layouts of mma.sync's operands and results (PTX ISA,
 * matrix fragments); an accumulator of wgmma is a row of m16n8 ones. g: the lane's group of four, t: its
 * place there. */
static void fragment_place(const Watch *watch, unsigned i, unsigned lane, unsigned j, unsigned *row,
                           unsigned *column)
{
  unsigned e = 32 / number_bits(watch->type), g = lane / 4, t = lane % 4;
  switch (watch->form) {
  case 'a':
    *row = g + 8 * (i % 2);
    *column = i / 2 * 4 * e + t * e + j;
    break;
  case 'b':
    *row = i * 4 * e + t * e + j;
    *column = g;
    break;
  default:
    *row = g + 8 * (e == 1 ? i % 4 / 2 : i % 2);
    *column = e == 1 ? i / 4 * 8 + 2 * t + i % 2 : i / 2 * 8 + 2 * t + j;
    break;
  }
}

static json_t *fragment_rows(const Watch *watch, const Warp *w)
{
  unsigned e = 32 / number_bits(watch->type);
  g_autofree json_t **cells = g_new0(json_t *, (size_t)watch->rows * watch->columns);
  for (guint i = 0; i < watch->registers->len; i++) {
    const WatchRegister *r = &g_array_index(watch->registers, WatchRegister, i);
    for (unsigned l = 0; l < LANES; l++)
      for (unsigned j = 0; j < e; j++) {
        unsigned row, column;
        fragment_place(watch, i, l, j, &row, &column);
        json_t *value =
            is_undefined(w, r->slot, l)
                ? json_null()
                : number_value(watch->type, lane_bytes(w, r, l) + (size_t)j * number_bytes(watch->type));
        cells[(size_t)row * watch->columns + column] = value;
      }
  }
  json_t *rows = json_array();
  for (unsigned r = 0; r < watch->rows; r++) {
    json_t *line = json_array();
    for (unsigned c = 0; c < watch->columns; c++)
      json_array_append_new(line, cells[(size_t)r * watch->columns + c]);
    json_array_append_new(rows, line);
  }
  return rows;
}

/* A stretch of memory as the warp sees it. */
typedef struct Window {
  const uint8_t *data;
  const uint64_t *defined; /* bit per byte, NULL: all */
  uint64_t first, end;     /* offsets that exist */
} Window;

static json_t *element_value(const Watch *watch, const Window *m, uint64_t at)
{
  unsigned bytes = number_bytes(watch->type);
  if (at < m->first || at > m->end || m->end - at < bytes) return json_string("out");
  const Place p = {.at = (uint8_t *)m->data + at, .offset = at, .defined = (uint64_t *)m->defined};
  return memory_is_defined(&p, bytes) ? number_value(watch->type, m->data + at) : json_null();
}

/* Swizzles exchange pieces of 16 bytes: the piece's number within the span is combined with the span's within
 * the pattern. (PTX ISA, tensor swizzling modes) */
static uint64_t swizzled(const Watch *watch, uint64_t at)
{
  return watch->swizzle ? at ^ (at >> 3 & (watch->swizzle - 1) & ~(uint64_t)15) : at;
}

static json_t *memory_rows(const Watch *watch, const Window *m, uint64_t at)
{
  json_t *rows = json_array();
  for (unsigned r = 0; r < watch->rows; r++) {
    json_t *line = json_array();
    for (unsigned c = 0; c < watch->columns; c++)
      json_array_append_new(
          line,
          element_value(watch, m,
                        swizzled(watch, at + r * watch->pitch + (uint64_t)c * number_bytes(watch->type))));
    json_array_append_new(rows, line);
  }
  return rows;
}

static json_t *memory_value(const Watch *watch, const Warp *w, unsigned lane)
{
  if (watch->kind == WATCH_GLOBAL) {
    const Window m = {watch->buffer->data, watch->buffer->defined, 0, watch->buffer->bytes};
    return memory_rows(watch, &m, watch->at);
  }
  uint64_t at = watch->at;
  if (watch->at_register) {
    const WatchRegister *r = &g_array_index(watch->registers, WatchRegister, 0);
    uint64_t value = 0;
    memcpy(&value, lane_bytes(w, r, lane), MIN(ptx_type_bytes(r->type), 8));
    if (value >> 32 == WINDOW_SHARED >> 32) value -= WINDOW_SHARED;
    at += value;
  }
  const Block *b = w->block;
  const Window m = {b->shared, b->defined, b->cluster->run->kernel->shared_base, b->shared_bytes};
  return memory_rows(watch, &m, at);
}

json_t *watch_value(const Watch *watch, const Warp *w, unsigned lane)
{
  json_t *object = NULL;
  if (watch->kind == WATCH_REGISTERS)
    object = registers_value(watch, w);
  else
    object =
        json_pack("{s:s, s:s, s:o}", "watch", watch->text, "type", number_name(watch->type), "rows",
                  watch->kind == WATCH_FRAGMENT ? fragment_rows(watch, w) : memory_value(watch, w, lane));
  bool registers = watch->kind == WATCH_REGISTERS || watch->kind == WATCH_FRAGMENT;
  if (registers && is_in_flight(watch, w)) json_object_set_new(object, "in_flight", json_true());
  return object;
}
