/* Layout algebra: evaluation, slices, comparison. Modes are mixed-radix digits, see ir/layout.h. */
#include "ir/layout.h"
#include <string.h>

unsigned layout_size(const Layout *layout, LayoutPlace place)
{
  unsigned size = 1;
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].place == place) size *= layout->modes[i].size;
  return size;
}

unsigned layout_registers(const Layout *layout)
{
  return layout_size(layout, PLACE_REGISTER);
}

static unsigned first_offset_size(const Layout *layout)
{
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].place == PLACE_OFFSET) return layout->modes[i].size;
  return 1;
}

void layout_at(const Layout *layout, unsigned block, unsigned warp, unsigned lane, unsigned reg,
               unsigned *coordinate)
{
  unsigned index[PLACE_COUNT] = {[PLACE_REGISTER] = reg, [PLACE_LANE] = lane,  [PLACE_WARP] = warp,
                                 [PLACE_BLOCK] = block,  [PLACE_OFFSET] = reg, [PLACE_CELL] = reg};
  if (layout->row_pad) {
    unsigned row = first_offset_size(layout), padded = row + layout->row_pad;
    index[PLACE_OFFSET] = reg / padded * row + MIN(reg % padded, row - 1);
  }
  memset(coordinate, 0, layout->rank * sizeof *coordinate);
  for (unsigned i = 0; i < layout->n; i++) {
    const LayoutMode *mode = &layout->modes[i];
    unsigned digit = index[mode->place] % mode->size;
    index[mode->place] /= mode->size;
    if (mode->dim != LAYOUT_REPLICATED) coordinate[mode->dim] += digit * mode->step;
  }
}

static uint64_t swizzled(const Layout *layout, uint64_t address)
{
  uint64_t mask = ((uint64_t)1 << layout->swizzle_bits) - 1;
  uint64_t row = address >> (layout->swizzle_base + layout->swizzle_shift);
  return address ^ ((row & mask) << layout->swizzle_base);
}

uint64_t layout_byte_offset(const Layout *layout, NumberType type, const unsigned *coordinate)
{
  uint64_t offset = 0, stride = 1;
  bool first = true;
  for (unsigned i = 0; i < layout->n; i++) {
    const LayoutMode *mode = &layout->modes[i];
    if (mode->place != PLACE_OFFSET || mode->dim == LAYOUT_REPLICATED) continue;
    offset += stride * (coordinate[mode->dim] / mode->step % mode->size);
    stride *= mode->size + (first ? layout->row_pad : 0);
    first = false;
  }
  return swizzled(layout, number_bytes_of(type, offset));
}

uint64_t layout_bytes(const Layout *layout, NumberType type)
{
  uint64_t size = layout_size(layout, PLACE_OFFSET), row = first_offset_size(layout);
  return number_bytes_of(type, size + size / row * layout->row_pad);
}

/* One mode where neighbours of a place go on along the same dimension; modes of one digit are nothing. The
 * form is canonical: the first mode ends exactly where the map stops being linear. */
static unsigned normalise(const Layout *layout, LayoutPlace place, LayoutMode *modes)
{
  unsigned n = 0;
  for (unsigned i = 0; i < layout->n; i++) {
    LayoutMode mode = layout->modes[i];
    if (mode.place != place || mode.size == 1) continue;
    if (mode.dim == LAYOUT_REPLICATED) mode.step = 0;
    LayoutMode *last = n ? &modes[n - 1] : NULL;
    if (last && last->dim == mode.dim && mode.step == last->step * last->size)
      last->size *= mode.size;
    else
      modes[n++] = mode;
  }
  return n;
}

bool layout_equal(const Layout *a, const Layout *b)
{
  if (a == b) return true;
  if (a->rank != b->rank || memcmp(a->extent, b->extent, a->rank * sizeof *a->extent)) return false;
  if (a->swizzle_bits != b->swizzle_bits || a->row_pad != b->row_pad) return false;
  if (a->swizzle_bits && (a->swizzle_base != b->swizzle_base || a->swizzle_shift != b->swizzle_shift))
    return false;
  if (a->row_pad && first_offset_size(a) != first_offset_size(b)) return false;
  if (a->n == b->n && !memcmp(a->modes, b->modes, a->n * sizeof *a->modes)) return true;
  for (LayoutPlace place = 0; place < PLACE_COUNT; place++) {
    LayoutMode x[LAYOUT_MAX_MODES], y[LAYOUT_MAX_MODES];
    unsigned n = normalise(a, place, x);
    if (normalise(b, place, y) != n) return false;
    for (unsigned i = 0; i < n; i++)
      if (x[i].size != y[i].size || x[i].dim != y[i].dim || x[i].step != y[i].step) return false;
  }
  return true;
}

static bool same_place(const Layout *layout, const unsigned *a, const unsigned *b)
{
  return !memcmp(a, b, layout->rank * sizeof *a);
}

/* The element's number in the tile. */
static size_t number_of(const Layout *layout, const unsigned *element)
{
  size_t number = 0;
  for (unsigned d = 0; d < layout->rank; d++)
    number = number * layout->extent[d] + element[d];
  return number;
}

/* Has thread 0 of `from` all that it has of `to`? A byte an element, for thousands of pairs are asked for. */
static bool first_thread_has(const Layout *from, const Layout *to)
{
  unsigned at[LAYOUT_MAX_DIMS];
  size_t elements = 1;
  for (unsigned d = 0; d < from->rank; d++)
    elements *= from->extent[d];
  g_autofree guint8 *has = g_malloc0(elements);
  for (unsigned r = 0; r < layout_registers(from); r++) {
    layout_at(from, 0, 0, 0, r, at);
    has[number_of(from, at)] = true;
  }
  for (unsigned r = 0; r < layout_registers(to); r++) {
    layout_at(to, 0, 0, 0, r, at);
    if (!has[number_of(to, at)]) return false;
  }
  return true;
}

/* Layouts are sums of digits: the registers of one thread and the first register of the others tell. */
bool layout_same_threads(const Layout *from, const Layout *to)
{
  if (layout_equal(from, to)) return true; /* nearly always: asked of every operation of a role */
  if (from->rank != to->rank || memcmp(from->extent, to->extent, from->rank * sizeof *from->extent))
    return false;
  unsigned a[LAYOUT_MAX_DIMS], b[LAYOUT_MAX_DIMS];
  for (LayoutPlace place = PLACE_LANE; place <= PLACE_WARP; place++) {
    unsigned n = layout_size(from, place), m = layout_size(to, place);
    for (unsigned i = 0; i < MAX(n, m); i++) {
      unsigned lane = place == PLACE_LANE ? i : 0, warp = place == PLACE_WARP ? i : 0;
      layout_at(from, 0, warp % n, lane % n, 0, a);
      layout_at(to, 0, warp % m, lane % m, 0, b);
      if (!same_place(from, a, b)) return false;
    }
  }
  return first_thread_has(from, to);
}

const Layout *layout_part(Arena *arena, const Layout *layout, const unsigned *extents)
{
  Layout *part = arena_memdup(arena, layout, sizeof *layout);
  for (unsigned d = 0; d < layout->rank; d++) {
    if (extents[d] == layout->extent[d]) continue;
    LayoutMode *slowest = NULL;
    for (unsigned i = 0; i < part->n; i++)
      if (part->modes[i].dim == (int)d && (!slowest || part->modes[i].step > slowest->step))
        slowest = &part->modes[i];
    if (!slowest || slowest->place != PLACE_REGISTER || !extents[d] || extents[d] % slowest->step ||
        slowest->size * slowest->step != layout->extent[d])
      return NULL;
    slowest->size = extents[d] / slowest->step;
    part->extent[d] = extents[d];
  }
  unsigned kept = 0;
  for (unsigned i = 0; i < part->n; i++)
    if (part->modes[i].size > 1) part->modes[kept++] = part->modes[i];
  part->n = kept;
  return part;
}

const Layout *layout_slice(Arena *arena, const Layout *layout, unsigned keep)
{
  if (layout->rank != 2 || keep > 1) return NULL;
  Layout *slice = arena_memdup(arena, layout, sizeof *layout);
  unsigned drop = 1 - keep;
  slice->extent[drop] = 1;
  slice->n = 0;
  for (unsigned i = 0; i < layout->n; i++) {
    LayoutMode mode = layout->modes[i];
    if (mode.dim == (int)drop) mode = (LayoutMode){mode.place, mode.size, LAYOUT_REPLICATED, 0};
    if (mode.dim == LAYOUT_REPLICATED && mode.place == PLACE_REGISTER) continue;
    slice->modes[slice->n++] = mode;
  }
  /* Where both extents are 1 the text could not say which dimension went. */
  bool named = layout->name && slice->extent[keep] != 1;
  slice->name = named ? arena_printf(arena, "slice(%s, %u)", layout->name, layout->extent[drop]) : NULL;
  return slice;
}

/* A digit of which only the lower part stays within so many elements, in two. */
static bool splits(const LayoutMode *mode, unsigned every)
{
  return mode->place != PLACE_WARP && mode->step && every % mode->step == 0 &&
         mode->size % (every / mode->step) == 0;
}

const Layout *layout_every(Arena *arena, const Layout *layout, unsigned dim, unsigned every)
{
  if (layout->rank != 2 || !every || layout->extent[dim] % every) return NULL;
  Layout *part = arena_memdup(arena, layout, sizeof *layout);
  part->extent[dim] /= every;
  part->n = 0;
  part->name = NULL;
  for (unsigned i = 0; i < layout->n; i++) {
    LayoutMode mode = layout->modes[i], rest = {.size = 1};
    if (mode.dim == (int)dim) {
      bool within = mode.step * mode.size <= every, beyond = mode.step % every == 0;
      if (!within && !beyond && !splits(&mode, every)) return NULL;
      unsigned inner = within ? mode.size : beyond ? 1 : every / mode.step;
      if (!within)
        rest = (LayoutMode){mode.place, mode.size / inner, (int)dim, beyond ? mode.step / every : 1};
      mode = (LayoutMode){mode.place, inner, LAYOUT_REPLICATED, 0};
    }
    bool kept = mode.size > 1 && (mode.dim != LAYOUT_REPLICATED || mode.place != PLACE_REGISTER);
    if (part->n + 2 > LAYOUT_MAX_MODES) return NULL;
    if (kept) part->modes[part->n++] = mode;
    if (rest.size > 1) part->modes[part->n++] = rest;
  }
  return part;
}

const Layout *layout_transposed(Arena *arena, const Layout *layout)
{
  if (layout->rank != 2) return NULL;
  Layout *other = arena_memdup(arena, layout, sizeof *layout);
  other->extent[0] = layout->extent[1];
  other->extent[1] = layout->extent[0];
  for (unsigned i = 0; i < other->n; i++)
    if (other->modes[i].dim != LAYOUT_REPLICATED) other->modes[i].dim = 1 - other->modes[i].dim;
  other->name = layout->name ? arena_printf(arena, "transposed(%s)", layout->name) : NULL;
  return other;
}

unsigned layout_side_by_side(const Layout *layout, unsigned dim)
{
  unsigned run = 1;
  for (bool grown = true; grown;) {
    grown = false;
    for (unsigned i = 0; i < layout->n && !grown; i++) {
      const LayoutMode *mode = &layout->modes[i];
      grown = mode->place == PLACE_REGISTER && mode->dim == (int)dim && mode->step == run && mode->size > 1 &&
              !(mode->size & (mode->size - 1));
      if (grown) run *= mode->size;
    }
  }
  return run;
}

unsigned layout_vector(const Layout *layout, unsigned dim)
{
  unsigned run = 1;
  for (unsigned i = 0; i < layout->n; i++) {
    const LayoutMode *mode = &layout->modes[i];
    if (mode->place != PLACE_REGISTER || mode->size == 1) continue;
    if (mode->dim != (int)dim || mode->step != run) break;
    unsigned power = mode->size & -mode->size;
    run *= power;
    if (power != mode->size) break;
  }
  return run;
}
