/* The constructors that instruction families name. Each is the documented fragment of one instruction,
 * repeated over the tile in registers and warps. */
#include "ir/layout.h"
#include <string.h>

static Layout *layout_new(Arena *arena, unsigned rank, const unsigned *extents)
{
  Layout *layout = arena_new_object(arena, Layout);
  layout->rank = rank;
  for (unsigned i = 0; i < rank; i++)
    layout->extent[i] = extents[i];
  return layout;
}

/* Appends a mode; one of a single digit is nothing. */
static void mode(Layout *layout, LayoutPlace place, unsigned size, int dim, unsigned step)
{
  if (size == 1) return;
  g_assert(layout->n < LAYOUT_MAX_MODES);
  layout->modes[layout->n++] = (LayoutMode){place, size, dim, dim == LAYOUT_REPLICATED ? 0 : step};
}

static bool divides(unsigned divisor, unsigned value)
{
  return divisor && value && value % divisor == 0;
}

/* Elements of a type in a 32-bit register, or 0 if warp MMAs do not take the type. */
static unsigned elements_per_register(NumberType type)
{
  return number_elements(type, 4);
}

/* A operand, one instruction: 16 rows, k = 8 registers' worth of elements a row. */
static void operand_a(Layout *layout, unsigned e)
{
  mode(layout, PLACE_REGISTER, e, 1, 1);
  mode(layout, PLACE_REGISTER, 2, 0, 8);
  mode(layout, PLACE_REGISTER, 2, 1, 4 * e);
  mode(layout, PLACE_LANE, 4, 1, e);
  mode(layout, PLACE_LANE, 8, 0, 1);
}

bool layout_is_left_operand(const Layout *layout, NumberType type)
{
  Layout first = {0};
  operand_a(&first, elements_per_register(type));
  return layout->rank == 2 && layout->n >= first.n &&
         !memcmp(layout->modes, first.modes, first.n * sizeof *first.modes);
}

const Layout *layout_mma_a(Arena *arena, NumberType type, unsigned m, unsigned k, unsigned warps_m,
                           unsigned warps_n)
{
  unsigned e = elements_per_register(type);
  if (!e || !warps_n || !divides(16 * warps_m, m) || !divides(8 * e, k)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, k});
  operand_a(layout, e);
  mode(layout, PLACE_REGISTER, m / (16 * warps_m), 0, 16);
  mode(layout, PLACE_REGISTER, k / (8 * e), 1, 8 * e);
  mode(layout, PLACE_WARP, warps_m, 0, m / warps_m);
  mode(layout, PLACE_WARP, warps_n, LAYOUT_REPLICATED, 0);
  layout->name = arena_printf(arena, "mma.a(%u, %u)", warps_m, warps_n);
  return layout;
}

const Layout *layout_mma_a_runs(Arena *arena, unsigned m, unsigned k, unsigned run, unsigned warps_m,
                                unsigned warps_n)
{
  if (!warps_n || !divides(16 * warps_m, m) || !divides(8, run) || !divides(4 * run, k)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, k});
  mode(layout, PLACE_REGISTER, 2, 1, 4);
  mode(layout, PLACE_REGISTER, 2, 0, 8);
  mode(layout, PLACE_REGISTER, 2, 1, 1);
  mode(layout, PLACE_LANE, 4, 1, run);
  mode(layout, PLACE_LANE, 8, 0, 1);
  mode(layout, PLACE_REGISTER, m / (16 * warps_m), 0, 16);
  mode(layout, PLACE_REGISTER, 2, 1, 2);
  mode(layout, PLACE_REGISTER, run / 8, 1, 8);
  mode(layout, PLACE_REGISTER, k / (4 * run), 1, 4 * run);
  mode(layout, PLACE_WARP, warps_m, 0, m / warps_m);
  mode(layout, PLACE_WARP, warps_n, LAYOUT_REPLICATED, 0);
  layout->name = arena_printf(arena, "mma.a_runs(%u, %u, %u)", run, warps_m, warps_n);
  return layout;
}

/* Columns of warps: each has its share of every `part` of them, the shares of one part behind those of the part before it. */
static void pieces_of_parts(Layout *layout, unsigned n, unsigned warps_n, unsigned part)
{
  mode(layout, PLACE_REGISTER, part / (8 * warps_n), 1, 8);
  mode(layout, PLACE_REGISTER, n / part, 1, part);
}

/* The constructor with its warps, and where a warp's columns are not side by side the part that they are shares of. */
static const char *name_parts(Arena *arena, const char *name, unsigned warps_m, unsigned warps_n,
                              unsigned part, unsigned n)
{
  if (part == n) return arena_printf(arena, "%s(%u, %u)", name, warps_m, warps_n);
  return arena_printf(arena, "%s_parts(%u, %u, %u)", name, warps_m, warps_n, part);
}

const Layout *layout_mma_b_parts(Arena *arena, NumberType type, unsigned k, unsigned n, unsigned warps_m,
                                 unsigned warps_n, unsigned part)
{
  unsigned e = elements_per_register(type);
  if (!e || !warps_m || !divides(8 * warps_n, part) || !divides(part, n) || !divides(8 * e, k)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){k, n});
  mode(layout, PLACE_REGISTER, e, 0, 1);
  mode(layout, PLACE_REGISTER, 2, 0, 4 * e);
  mode(layout, PLACE_LANE, 4, 0, e);
  mode(layout, PLACE_LANE, 8, 1, 1);
  pieces_of_parts(layout, n, warps_n, part);
  mode(layout, PLACE_REGISTER, k / (8 * e), 0, 8 * e);
  mode(layout, PLACE_WARP, warps_m, LAYOUT_REPLICATED, 0);
  mode(layout, PLACE_WARP, warps_n, 1, part / warps_n);
  layout->name = name_parts(arena, "mma.b", warps_m, warps_n, part, n);
  return layout;
}

const Layout *layout_mma_b(Arena *arena, NumberType type, unsigned k, unsigned n, unsigned warps_m,
                           unsigned warps_n)
{
  return layout_mma_b_parts(arena, type, k, n, warps_m, warps_n, n);
}

/* Accumulator of one instruction: pairs of columns, then the row 8 further down. */
static void accumulator(Layout *layout)
{
  mode(layout, PLACE_REGISTER, 2, 1, 1);
  mode(layout, PLACE_REGISTER, 2, 0, 8);
  mode(layout, PLACE_LANE, 4, 1, 2);
  mode(layout, PLACE_LANE, 8, 0, 1);
}

const Layout *layout_mma_c_parts(Arena *arena, unsigned m, unsigned n, unsigned warps_m, unsigned warps_n,
                                 unsigned part)
{
  if (!divides(16 * warps_m, m) || !divides(8 * warps_n, part) || !divides(part, n)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, n});
  accumulator(layout);
  pieces_of_parts(layout, n, warps_n, part);
  mode(layout, PLACE_REGISTER, m / (16 * warps_m), 0, 16);
  mode(layout, PLACE_WARP, warps_m, 0, m / warps_m);
  mode(layout, PLACE_WARP, warps_n, 1, part / warps_n);
  layout->name = name_parts(arena, "mma.c", warps_m, warps_n, part, n);
  return layout;
}

const Layout *layout_mma_c(Arena *arena, unsigned m, unsigned n, unsigned warps_m, unsigned warps_n)
{
  return layout_mma_c_parts(arena, m, n, warps_m, warps_n, n);
}

/* Warps of a group have 16 rows each; a warpgroup has 64 * r consecutive rows, r the slowest register mode.
 */
const Layout *layout_group_d(Arena *arena, unsigned m, unsigned n, unsigned warpgroups)
{
  if (!divides(64 * warpgroups, m) || !divides(8, n)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, n});
  accumulator(layout);
  mode(layout, PLACE_REGISTER, n / 8, 1, 8);
  mode(layout, PLACE_REGISTER, m / (64 * warpgroups), 0, 64);
  mode(layout, PLACE_WARP, 4, 0, 16);
  mode(layout, PLACE_WARP, warpgroups, 0, m / warpgroups);
  layout->name = arena_printf(arena, "group.d(%u)", warpgroups);
  return layout;
}

const Layout *layout_group_d_beside(Arena *arena, unsigned m, unsigned n, unsigned warpgroups)
{
  if (!divides(64, m) || !divides(8 * warpgroups, n)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, n});
  accumulator(layout);
  mode(layout, PLACE_REGISTER, n / (8 * warpgroups), 1, 8);
  mode(layout, PLACE_REGISTER, m / 64, 0, 64);
  mode(layout, PLACE_WARP, 4, 0, 16);
  mode(layout, PLACE_WARP, warpgroups, 1, n / warpgroups);
  return layout; /* it has no constructor in the text: instances come before the next product */
}

const Layout *layout_group_a(Arena *arena, NumberType type, unsigned m, unsigned k, unsigned warpgroups)
{
  unsigned e = elements_per_register(type);
  if (!e || !divides(64 * warpgroups, m) || !divides(8 * e, k)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, k});
  operand_a(layout, e);
  mode(layout, PLACE_REGISTER, m / (64 * warpgroups), 0, 64);
  mode(layout, PLACE_REGISTER, k / (8 * e), 1, 8 * e);
  mode(layout, PLACE_WARP, 4, 0, 16);
  mode(layout, PLACE_WARP, warpgroups, 0, m / warpgroups);
  layout->name = arena_printf(arena, "group.a(%u)", warpgroups);
  return layout;
}

/* ---- Operands whose k is in the order of an accumulator's columns ---- */

/* Of each 16 columns the four that a lane has: two side by side, and the two 8 further on. */
static void four_of_a_lane(Layout *layout, LayoutPlace place)
{
  mode(layout, place, 2, 1, 1);
  mode(layout, place, 2, 1, 8);
}

static bool begins_with_four(const Layout *layout, LayoutPlace place, int dim)
{
  static const unsigned steps[] = {1, 8};
  bool begins = layout->n >= G_N_ELEMENTS(steps);
  for (unsigned i = 0; begins && i < G_N_ELEMENTS(steps); i++) {
    const LayoutMode *digit = &layout->modes[i];
    begins = digit->place == place && digit->size == 2 && digit->dim == dim && digit->step == steps[i];
  }
  return begins;
}

/* The first lane digit along columns moves two of them, so they are a lane's of an accumulator. */
static bool lanes_have_pairs(const Layout *layout, unsigned row_step)
{
  unsigned next[LAYOUT_MAX_DIMS], below[LAYOUT_MAX_DIMS];
  if (layout->rank != 2 || layout_size(layout, PLACE_LANE) != 32) return false;
  layout_at(layout, 0, 0, 1, 0, next);
  layout_at(layout, 0, 0, 4, 0, below);
  return next[0] == 0 && next[1] == 2 && below[0] == row_step && below[1] == 0;
}

const Layout *layout_group_a_paired(Arena *arena, NumberType type, unsigned m, unsigned k,
                                    unsigned warpgroups)
{
  if (number_bits(type) != 8 || !divides(64 * warpgroups, m) || !divides(32, k)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, k});
  four_of_a_lane(layout, PLACE_REGISTER);
  mode(layout, PLACE_REGISTER, 2, 0, 8);
  mode(layout, PLACE_REGISTER, 2, 1, 16);
  mode(layout, PLACE_LANE, 4, 1, 2);
  mode(layout, PLACE_LANE, 8, 0, 1);
  mode(layout, PLACE_REGISTER, m / (64 * warpgroups), 0, 64);
  mode(layout, PLACE_REGISTER, k / 32, 1, 32);
  mode(layout, PLACE_WARP, 4, 0, 16);
  mode(layout, PLACE_WARP, warpgroups, 0, m / warpgroups);
  layout->name = arena_printf(arena, "group.a_paired(%u)", warpgroups);
  return layout;
}

bool layout_is_paired_operand(const Layout *layout)
{
  return layout->rank == 2 && begins_with_four(layout, PLACE_REGISTER, 1) && lanes_have_pairs(layout, 1);
}

const Layout *layout_turned(Arena *arena, NumberType type, unsigned rows, unsigned columns, unsigned warps)
{
  unsigned down = warps; /* warps below one another; the others have further columns */
  while (down > 1 && (!divides(16 * down, rows) || !divides(down, warps)))
    down--;
  unsigned across = warps ? warps / down : 0;
  if (number_bits(type) != 8 || !divides(16 * down, rows) || !divides(32 * across, columns)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){rows, columns});
  four_of_a_lane(layout, PLACE_REGISTER);
  mode(layout, PLACE_REGISTER, 2, 0, 1);
  mode(layout, PLACE_REGISTER, 2, 1, 16);
  mode(layout, PLACE_LANE, 4, 1, 2);
  mode(layout, PLACE_LANE, 8, 0, 2);
  mode(layout, PLACE_REGISTER, columns / (32 * across), 1, 32);
  mode(layout, PLACE_WARP, down, 0, 16);
  mode(layout, PLACE_WARP, across, 1, columns / across);
  mode(layout, PLACE_REGISTER, rows / (16 * down), 0, 16 * down);
  return layout; /* the text has its modes */
}

bool layout_is_turned(const Layout *layout)
{
  return layout->rank == 2 && begins_with_four(layout, PLACE_REGISTER, 1) && lanes_have_pairs(layout, 2);
}

/* ---- Operands that lie across k ---- */

/* Rows of four warps, 64 together, where A is read from shared memory with rows side by side: a thread's two
 * rows are neighbours. Bytes come as 8x8 matrices of pairs of rows, transposed: a lane's pairs follow one
 * another. Words come as pairs of rows, half a warp at a time, from four swizzled rows of k: pairs of the two
 * chunks of 16 bytes that are four chunks apart then meet no bank twice. */
static void across_rows(Layout *layout, unsigned bytes, LayoutPlace place)
{
  bool words = bytes == 4;
  if (place == PLACE_LANE) {
    mode(layout, PLACE_LANE, words ? 2 : 8, 0, 2);
    mode(layout, PLACE_LANE, words ? 2 : 1, 0, 16);
    mode(layout, PLACE_LANE, words ? 2 : 1, 0, 4);
  } else {
    mode(layout, PLACE_WARP, words ? 2 : 4, 0, words ? 8 : 16);
    mode(layout, PLACE_WARP, words ? 2 : 1, 0, 32);
  }
}

const Layout *layout_group_d_across(Arena *arena, unsigned bytes, unsigned m, unsigned n, unsigned warpgroups)
{
  if ((bytes != 1 && bytes != 4) || !divides(64 * warpgroups, m) || !divides(8, n)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, n});
  mode(layout, PLACE_REGISTER, 2, 1, 1);
  mode(layout, PLACE_REGISTER, 2, 0, 1);
  mode(layout, PLACE_LANE, 4, 1, 2);
  across_rows(layout, bytes, PLACE_LANE);
  mode(layout, PLACE_REGISTER, n / 8, 1, 8);
  mode(layout, PLACE_REGISTER, m / (64 * warpgroups), 0, 64);
  across_rows(layout, bytes, PLACE_WARP);
  mode(layout, PLACE_WARP, warpgroups, 0, m / warpgroups);
  layout->name = arena_printf(arena, "group.d_across(%u, %u)", bytes, warpgroups);
  return layout;
}

const Layout *layout_group_a_across(Arena *arena, NumberType type, unsigned m, unsigned k,
                                    unsigned warpgroups)
{
  unsigned e = elements_per_register(type);
  if ((e != 1 && e != 4) || !divides(64 * warpgroups, m) || !divides(8 * e, k)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, k});
  mode(layout, PLACE_REGISTER, e, 1, 1);
  mode(layout, PLACE_REGISTER, 2, 0, 1);
  mode(layout, PLACE_REGISTER, 2, 1, 4 * e);
  mode(layout, PLACE_LANE, 4, 1, e);
  across_rows(layout, number_bytes(type), PLACE_LANE);
  mode(layout, PLACE_REGISTER, m / (64 * warpgroups), 0, 64);
  mode(layout, PLACE_REGISTER, k / (8 * e), 1, 8 * e);
  across_rows(layout, number_bytes(type), PLACE_WARP);
  mode(layout, PLACE_WARP, warpgroups, 0, m / warpgroups);
  layout->name = arena_printf(arena, "group.a_across(%u)", warpgroups);
  return layout;
}

const Layout *layout_blocked(Arena *arena, unsigned rank, const unsigned *extents, unsigned vector,
                             unsigned row_lanes, unsigned row_warps, unsigned warps)
{
  if (rank < 1 || rank > LAYOUT_MAX_DIMS || !vector || !divides(row_lanes, 32) || !divides(row_warps, warps))
    return NULL;
  int column = (int)rank - 1, row = (int)rank - 2;
  unsigned lane_rows = 32 / row_lanes, warp_rows = warps / row_warps, pass = lane_rows * warp_rows;
  unsigned lanes_wide = vector * row_lanes, chunk = lanes_wide * row_warps;
  if (!divides(chunk, extents[column]) || (rank > 1 && !divides(pass, extents[row]))) return NULL;
  Layout *layout = layout_new(arena, rank, extents);
  mode(layout, PLACE_REGISTER, vector, column, 1);
  mode(layout, PLACE_REGISTER, extents[column] / chunk, column, chunk);
  mode(layout, PLACE_LANE, row_lanes, column, vector);
  mode(layout, PLACE_WARP, row_warps, column, lanes_wide);
  if (rank == 1) {
    mode(layout, PLACE_LANE, lane_rows, LAYOUT_REPLICATED, 0);
    mode(layout, PLACE_WARP, warp_rows, LAYOUT_REPLICATED, 0);
  } else {
    mode(layout, PLACE_LANE, lane_rows, row, 1);
    mode(layout, PLACE_WARP, warp_rows, row, lane_rows);
    mode(layout, PLACE_REGISTER, extents[row] / pass, row, pass);
  }
  for (int dim = row - 1; dim >= 0; dim--)
    mode(layout, PLACE_REGISTER, extents[dim], dim, 1);
  layout->name = arena_printf(arena, "blocked(vector %u, lanes %u, row_warps %u, warps %u)", vector,
                              row_lanes, row_warps, warps);
  return layout;
}

const Layout *layout_blocked_whole(Arena *arena, const unsigned *extents, unsigned vector, unsigned row_lanes,
                                   unsigned whole, unsigned row_warps, unsigned warps)
{
  if (!vector || !divides(row_lanes, 32) || !divides(row_warps, warps)) return NULL;
  unsigned lane_rows = 32 / row_lanes, warp_rows = warps / row_warps, pass = lane_rows * warp_rows;
  unsigned lanes_wide = vector * row_lanes, chunk = whole * row_warps;
  if (!divides(lanes_wide, whole) || !divides(chunk, extents[1]) || !divides(pass, extents[0])) return NULL;
  Layout *layout = layout_new(arena, 2, extents);
  mode(layout, PLACE_REGISTER, vector, 1, 1);
  mode(layout, PLACE_REGISTER, whole / lanes_wide, 1, lanes_wide);
  mode(layout, PLACE_REGISTER, extents[1] / chunk, 1, chunk);
  mode(layout, PLACE_LANE, row_lanes, 1, vector);
  mode(layout, PLACE_WARP, row_warps, 1, whole);
  mode(layout, PLACE_LANE, lane_rows, 0, 1);
  mode(layout, PLACE_WARP, warp_rows, 0, lane_rows);
  mode(layout, PLACE_REGISTER, extents[0] / pass, 0, pass);
  return layout; /* the text has its modes */
}

/* The largest power of two that divides a number, up to `most`, which is one. */
static unsigned power_within(unsigned number, unsigned most)
{
  unsigned power = 1;
  while (2 * power <= most && number % (2 * power) == 0)
    power *= 2;
  return power;
}

const Layout *layout_replicated(Arena *arena, unsigned rank, const unsigned *extents, unsigned warps)
{
  if (rank < 1 || rank > 2 || !warps) return NULL;
  unsigned lanes = 32, spread = power_within(warps, 1u << 16), used = 1, warps_used = 1;
  Layout *layout = layout_new(arena, rank, extents);
  for (unsigned i = 0; i < rank; i++) {
    int dim = (int)(rank - 1 - i); /* columns first: neighbours in memory are neighbours in a warp */
    if (!extents[dim]) return NULL;
    unsigned wide = power_within(extents[dim], lanes / used);
    unsigned across = power_within(extents[dim] / wide, spread / warps_used);
    mode(layout, PLACE_REGISTER, extents[dim] / (wide * across), dim, wide * across);
    mode(layout, PLACE_LANE, wide, dim, 1);
    mode(layout, PLACE_WARP, across, dim, wide);
    used *= wide;
    warps_used *= across;
  }
  mode(layout, PLACE_LANE, lanes / used, LAYOUT_REPLICATED, 0);
  mode(layout, PLACE_WARP, warps / warps_used, LAYOUT_REPLICATED, 0);
  return layout; /* the text has its modes */
}

const Layout *layout_patches(Arena *arena, unsigned rows, unsigned columns, unsigned vector, unsigned warps)
{
  if (!vector || !divides(8 * vector, rows)) return NULL;
  unsigned down = 1; /* warps below one another */
  while (2 * down <= warps && divides(2 * down, warps) && divides(16 * down * vector, rows) && down < 2)
    down *= 2;
  unsigned across = warps / down;
  if (!across || !divides(4 * vector * across, columns)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){rows, columns});
  mode(layout, PLACE_REGISTER, vector, 1, 1);
  mode(layout, PLACE_REGISTER, vector, 0, 1);
  mode(layout, PLACE_LANE, 8, 0, vector);
  mode(layout, PLACE_LANE, 4, 1, vector);
  mode(layout, PLACE_WARP, down, 0, 8 * vector);
  mode(layout, PLACE_WARP, across, 1, 4 * vector);
  mode(layout, PLACE_REGISTER, rows / (8 * vector * down), 0, 8 * vector * down);
  mode(layout, PLACE_REGISTER, columns / (4 * vector * across), 1, 4 * vector * across);
  layout->name = arena_printf(arena, "patches(vector %u, warps %u)", vector, warps);
  return layout;
}

/* Columns in groups, the threads of a row side by side: one vector access a group, no bank conflicts. Rows of
 * a thread are as far apart as there are rows of threads. */
const Layout *layout_fma_c(Arena *arena, unsigned m, unsigned n, unsigned tm, unsigned tn, unsigned group,
                           unsigned threads_n, unsigned threads)
{
  unsigned widest = tn % 4 == 0 ? 4 : tn % 2 == 0 ? 2 : 1;
  if (group > widest) group = widest;
  if (!group) return NULL;
  if (!tm || !tn || !divides(threads_n, threads) || threads % 32) return NULL;
  unsigned threads_m = threads / threads_n;
  if ((uint64_t)tm * threads_m != m || (uint64_t)tn * threads_n != n) return NULL;
  if (!divides(threads_n, 32) && threads_n % 32) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, n});
  mode(layout, PLACE_REGISTER, group, 1, 1);
  mode(layout, PLACE_REGISTER, tn / group, 1, threads_n * group);
  mode(layout, PLACE_REGISTER, tm, 0, threads_m);
  unsigned lanes_n = MIN(threads_n, 32), lanes_m = 32 / lanes_n;
  mode(layout, PLACE_LANE, lanes_n, 1, group);
  mode(layout, PLACE_LANE, lanes_m, 0, 1);
  mode(layout, PLACE_WARP, threads_n / lanes_n, 1, lanes_n * group);
  mode(layout, PLACE_WARP, threads_m / lanes_m, 0, lanes_m);
  if (group == widest)
    layout->name = arena_printf(arena, "fma.c(%u, %u, %u, %u)", tm, tn, threads_n, threads);
  return layout;
}

static Layout *rows_of_lanes(Arena *arena, LayoutPlace place, unsigned m, unsigned n, unsigned warps)
{
  if (!divides(32 * warps, m) || !n) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){m, n});
  mode(layout, place, n, 1, 1);
  mode(layout, PLACE_LANE, 32, 0, 1);
  mode(layout, PLACE_WARP, warps, 0, 32);
  mode(layout, place, m / (32 * warps), 0, 32 * warps);
  return layout;
}

const Layout *layout_cells(Arena *arena, unsigned m, unsigned n, unsigned warps)
{
  Layout *layout = rows_of_lanes(arena, PLACE_CELL, m, n, warps);
  if (layout) layout->name = arena_printf(arena, "cells(%u)", warps);
  return layout;
}

const Layout *layout_rows(Arena *arena, unsigned m, unsigned n, unsigned warps)
{
  return rows_of_lanes(arena, PLACE_REGISTER, m, n, warps); /* its modes are its text */
}

const Layout *layout_upright(Arena *arena, unsigned rows, unsigned columns, unsigned vector, unsigned warps)
{
  if (!vector || !warps || !divides(32 * vector, rows) || !divides(warps, columns)) return NULL;
  Layout *layout = layout_new(arena, 2, (unsigned[]){rows, columns});
  mode(layout, PLACE_REGISTER, vector, 0, 1);
  mode(layout, PLACE_LANE, 32, 0, vector);
  mode(layout, PLACE_REGISTER, columns / warps, 1, 1);
  mode(layout, PLACE_WARP, warps, 1, columns / warps);
  mode(layout, PLACE_REGISTER, rows / (32 * vector), 0, 32 * vector);
  return layout; /* its modes are its text */
}

const Layout *layout_shared(Arena *arena, unsigned rank, const unsigned *extents, unsigned inner,
                            NumberType type, unsigned swizzle_bytes, unsigned row_pad)
{
  if (rank < 1 || rank > LAYOUT_MAX_DIMS || inner >= rank || (swizzle_bytes && row_pad) || row_pad > 4096)
    return NULL;
  if (swizzle_bytes != 0 && swizzle_bytes != 32 && swizzle_bytes != 64 && swizzle_bytes != 128) return NULL;
  unsigned row = swizzle_bytes ? number_elements(type, swizzle_bytes) : extents[inner];
  if (!divides(row, extents[inner])) return NULL;
  Layout *layout = layout_new(arena, rank, extents);
  /* The first mode stays even with a single digit where padding follows it. */
  layout->modes[layout->n++] = (LayoutMode){PLACE_OFFSET, row, (int)inner, 1};
  for (int dim = (int)rank - 1; dim >= 0; dim--)
    if (dim != (int)inner) mode(layout, PLACE_OFFSET, extents[dim], dim, 1);
  mode(layout, PLACE_OFFSET, extents[inner] / row, (int)inner, row);
  layout->row_pad = row_pad;
  if (swizzle_bytes) {
    layout->swizzle_bits = swizzle_bytes == 128 ? 3 : swizzle_bytes == 64 ? 2 : 1;
    layout->swizzle_base = 4;
    layout->swizzle_shift = 3;
  }
  layout->name = arena_printf(arena, "shared(inner %u, swizzle %u, pad %u)", inner, swizzle_bytes, row_pad);
  return layout;
}

const Layout *layout_shared_paired(Arena *arena, const unsigned *extents, unsigned inner, NumberType type,
                                   unsigned swizzle_bytes)
{
  const Layout *plain = layout_shared(arena, 2, extents, inner, type, swizzle_bytes, 0);
  if (!plain || !swizzle_bytes || number_bits(type) != 8) return NULL;
  Layout *layout = layout_new(arena, 2, extents);
  layout->swizzle_bits = plain->swizzle_bits;
  layout->swizzle_base = plain->swizzle_base;
  layout->swizzle_shift = plain->swizzle_shift;
  mode(layout, PLACE_OFFSET, 2, (int)inner, 1);
  mode(layout, PLACE_OFFSET, 2, (int)inner, 8);
  mode(layout, PLACE_OFFSET, 4, (int)inner, 2);
  mode(layout, PLACE_OFFSET, plain->modes[0].size / 16, (int)inner, 16);
  for (unsigned i = 1; i < plain->n; i++)
    layout->modes[layout->n++] = plain->modes[i];
  layout->name = arena_printf(arena, "shared_paired(inner %u, swizzle %u)", inner, swizzle_bytes);
  return layout;
}

bool layout_is_shared_paired(const Layout *layout)
{
  return layout->rank == 2 && layout->n && begins_with_four(layout, PLACE_OFFSET, layout->modes[0].dim);
}

/* Register modes in front of the lanes, as many digits as make a vector; false if they do not come out even.
 */
static bool vector_modes(Layout *to, const Layout *from, unsigned vector, unsigned *taken)
{
  for (unsigned i = 0; i < from->n && vector > 1; i++) {
    const LayoutMode *digit = &from->modes[i];
    if (digit->place != PLACE_REGISTER) continue;
    unsigned size = MIN(digit->size, vector);
    if (!divides(size, vector) || !divides(size, digit->size)) return false;
    mode(to, PLACE_OFFSET, size, digit->dim, digit->step);
    taken[i] = size;
    vector /= size;
  }
  return vector == 1;
}

const Layout *layout_by_threads(Arena *arena, const Layout *layout, unsigned vector, unsigned copies)
{
  static const LayoutPlace behind[] = {PLACE_LANE, PLACE_WARP, PLACE_REGISTER};
  unsigned taken[LAYOUT_MAX_MODES], extent[LAYOUT_MAX_DIMS];
  for (unsigned i = 0; i < layout->n; i++) {
    taken[i] = 1;
    if (layout->modes[i].dim == LAYOUT_REPLICATED) return NULL;
  }
  for (unsigned d = 0; d < layout->rank; d++)
    extent[d] = layout->extent[d] * (d ? 1 : copies);
  Layout *shared = layout_new(arena, layout->rank, extent);
  if (!vector_modes(shared, layout, vector, taken)) return NULL;
  for (unsigned p = 0; p < G_N_ELEMENTS(behind); p++)
    for (unsigned i = 0; i < layout->n; i++) {
      const LayoutMode *digit = &layout->modes[i];
      if (digit->place == behind[p])
        mode(shared, PLACE_OFFSET, digit->size / taken[i], digit->dim, digit->step * taken[i]);
    }
  mode(shared, PLACE_OFFSET, copies, 0, layout->extent[0]);
  return shared;
}
