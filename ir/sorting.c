#include "ir/sorting.h"
#include <stdlib.h>

static bool is_power(unsigned x)
{
  return x && !(x & (x - 1));
}

static unsigned log_of(unsigned power)
{
  return (unsigned)__builtin_ctz(power);
}

/* Digits of a mode, each of two. */
static bool add_bits(Sorting *sorting, const LayoutMode *mode, unsigned divisor)
{
  for (unsigned digit = 1; digit < mode->size; digit *= 2) {
    if (sorting->n == SORTING_MAX_BITS) return false;
    unsigned mask = mode->place == PLACE_REGISTER ? 1u << sorting->registers++ : divisor * digit;
    sorting->bit[sorting->n++] = (SortingBit){mode->place, mask, mode->step * digit};
  }
  return true;
}

static int by_column(const void *a, const void *b)
{
  const SortingBit *x = a, *y = b;
  return (x->column > y->column) - (x->column < y->column);
}

bool sorting_of(const Layout *layout, unsigned dim, unsigned keep, Sorting *sorting)
{
  static const LayoutPlace places[] = {PLACE_REGISTER, PLACE_LANE, PLACE_WARP};
  *sorting = (Sorting){.rows_of_thread = 1, .warps = layout_size(layout, PLACE_WARP)};
  if (layout->rank != 2 || !is_power(keep) || !is_power(layout->extent[dim]) || keep > layout->extent[dim])
    return false;
  for (unsigned p = 0; p < G_N_ELEMENTS(places); p++) {
    unsigned divisor = 1;
    for (unsigned i = 0; i < layout->n; i++) {
      const LayoutMode *mode = &layout->modes[i];
      if (mode->place != places[p]) continue;
      bool along = mode->dim == (int)dim, other = !along && mode->dim != LAYOUT_REPLICATED;
      if (!is_power(mode->size) || (along && !is_power(mode->step))) return false;
      if (along && !add_bits(sorting, mode, divisor)) return false;
      if (other && mode->place == PLACE_LANE) sorting->other_lanes |= (mode->size - 1) * divisor;
      if (other && mode->place == PLACE_REGISTER) sorting->rows_of_thread *= mode->size;
      divisor *= mode->size;
    }
  }
  sorting->kept = log_of(keep);
  if (sorting->n != log_of(layout->extent[dim])) return false;
  if (sorting->kept == sorting->n) qsort(sorting->bit, sorting->n, sizeof *sorting->bit, by_column);
  return true;
}

const Layout *sorting_layout(Arena *arena, const Layout *layout, unsigned dim, unsigned keep)
{
  Sorting sorting;
  if (!sorting_of(layout, dim, keep, &sorting)) return NULL;
  if (sorting.kept == sorting.n) return layout;
  static const LayoutPlace places[] = {PLACE_REGISTER, PLACE_LANE, PLACE_WARP};
  Layout *part = arena_memdup(arena, layout, sizeof *layout);
  part->extent[dim] = keep;
  part->n = 0;
  part->name = NULL;
  unsigned at = 0; /* bits so far */
  for (unsigned p = 0; p < G_N_ELEMENTS(places); p++)
    for (unsigned i = 0; i < layout->n; i++) {
      LayoutMode mode = layout->modes[i], rest = {.size = 1};
      if (mode.place != places[p]) continue;
      if (mode.dim == (int)dim) {
        unsigned bits = log_of(mode.size), kept = MIN(bits, sorting.kept - MIN(at, sorting.kept));
        rest = (LayoutMode){mode.place, mode.size >> kept, LAYOUT_REPLICATED, 0};
        mode = (LayoutMode){mode.place, 1u << kept, (int)dim, kept ? 1u << at : 0};
        at += bits;
      }
      bool repeats = mode.place != PLACE_REGISTER; /* lanes and warps have the same there */
      if (part->n + 2 > LAYOUT_MAX_MODES) return NULL;
      if (mode.size > 1 && (mode.dim != LAYOUT_REPLICATED || repeats)) part->modes[part->n++] = mode;
      if (rest.size > 1 && repeats) part->modes[part->n++] = rest;
    }
  return part;
}

unsigned sorting_lanes(const Sorting *sorting, uint32_t live)
{
  unsigned lanes = sorting->other_lanes;
  for (unsigned i = 0; i < sorting->n; i++)
    if (sorting->bit[i].place == PLACE_LANE && live >> i & 1) lanes |= sorting->bit[i].mask;
  return lanes;
}

uint64_t sorting_exchanged(const Sorting *sorting, bool more)
{
  uint32_t whole = 0, first = 0, meeting = 0;
  uint64_t most = 0;
  for (unsigned i = 0; i < sorting->n; i++) {
    whole |= 1u << i;
    if (i < sorting->kept) first |= 1u << i;
    if (sorting->bit[i].place == PLACE_WARP) meeting |= 1u << i;
  }
  const struct {
    bool needed;
    uint32_t live; /* of bits that are no warp's */
  } steps[] = {
      {(meeting & first) != 0, whole}, {(meeting & ~first) != 0, first}, {more && meeting & first, first}};
  for (unsigned s = 0; s < G_N_ELEMENTS(steps); s++) {
    uint64_t elements = (uint64_t)sorting->warps * sorting->rows_of_thread
                        << __builtin_popcount(sorting_lanes(sorting, steps[s].live));
    for (unsigned i = 0; i < sorting->n; i++)
      if (sorting->bit[i].place == PLACE_REGISTER && steps[s].live >> i & 1) elements *= 2;
    if (steps[s].needed) most = MAX(most, elements);
  }
  return most;
}

/* ---- By a bound ---- */

/* Groups of a warp for each of its share: the bound is then 1.4 times the share's, with eight 1.07; but these are put in order by each
 * warp, which takes as long as all that is left behind. */
#define LOOSE 2

bool sorting_bound_of(const Layout *layout, unsigned dim, unsigned keep, unsigned survivors,
                      SortingBound *bound)
{
  Sorting sorting;
  *bound = (SortingBound){.warps = 1, .groups = 1, .survivors = survivors};
  if (!survivors || !sorting_of(layout, dim, keep, &sorting)) return false;
  if (sorting.rows_of_thread > 1 || sorting.other_lanes || !is_power(survivors) || survivors <= keep ||
      survivors < SORTING_LANES)
    return false;
  unsigned lanes = 1;
  for (unsigned i = 0; i < sorting.n; i++) {
    if (sorting.bit[i].place == PLACE_WARP) bound->warps *= 2;
    if (sorting.bit[i].place == PLACE_LANE) lanes *= 2;
  }
  bound->registers = 1u << sorting.registers;
  bound->share = MAX(1, keep / bound->warps);
  while (bound->groups * SORTING_LANES < LOOSE * bound->share && bound->groups < bound->registers / 2)
    bound->groups *= 2;
  return lanes == SORTING_LANES && (bound->warps == 1 || bound->warps == sorting.warps) &&
         bound->groups * SORTING_LANES > bound->share;
}

const Layout *sorting_warp(Arena *arena, unsigned dim, unsigned registers)
{
  Layout *layout = arena_new_object(arena, Layout);
  *layout = (Layout){.rank = 2};
  layout->extent[dim] = registers * SORTING_LANES;
  layout->extent[1 - dim] = 1;
  if (registers > 1) layout->modes[layout->n++] = (LayoutMode){PLACE_REGISTER, registers, (int)dim, 1};
  layout->modes[layout->n++] = (LayoutMode){PLACE_LANE, SORTING_LANES, (int)dim, registers};
  return layout;
}

/* As one warp has the survivors, in all warps that have the row. */
static const Layout *survivors_layout(Arena *arena, const Layout *layout, unsigned dim, unsigned survivors)
{
  Layout *few = arena_memdup(arena, sorting_warp(arena, dim, survivors / SORTING_LANES), sizeof *few);
  few->extent[1 - dim] = layout->extent[1 - dim];
  for (unsigned i = 0; i < layout->n; i++) {
    LayoutMode mode = layout->modes[i];
    if (mode.place != PLACE_WARP || mode.size == 1) continue;
    if (mode.dim == (int)dim) mode = (LayoutMode){PLACE_WARP, mode.size, LAYOUT_REPLICATED, 0};
    if (few->n == LAYOUT_MAX_MODES) return NULL;
    few->modes[few->n++] = mode;
  }
  return few;
}

const Layout *sorting_result(Arena *arena, const Layout *layout, unsigned dim, unsigned keep,
                             unsigned survivors)
{
  SortingBound bound;
  if (sorting_bound_of(layout, dim, keep, survivors, &bound))
    layout = survivors_layout(arena, layout, dim, survivors);
  return layout ? sorting_layout(arena, layout, dim, keep) : NULL;
}

const Layout *sorting_picked(Arena *arena, const Layout *layout, unsigned dim, unsigned n)
{
  Sorting sorting;
  if (!is_power(n) || n < SORTING_LANES || !sorting_of(layout, dim, 1, &sorting)) return NULL;
  unsigned lanes = 1;
  for (unsigned i = 0; i < sorting.n; i++) {
    if (sorting.bit[i].place == PLACE_WARP) return NULL;
    if (sorting.bit[i].place == PLACE_LANE) lanes *= 2;
  }
  bool own = lanes == SORTING_LANES && sorting.rows_of_thread == 1 && !sorting.other_lanes;
  return own ? survivors_layout(arena, layout, dim, n) : NULL;
}

uint64_t sorting_bound_exchanged(const SortingBound *bound, const Layout *layout)
{
  if (bound->warps > 1) return bound->survivors + 2 * (uint64_t)bound->warps;
  return (uint64_t)layout_size(layout, PLACE_WARP) * bound->survivors;
}
