/* Every layout constructor against the fragment formulas of the instruction set's documentation, written a
 * second time here by thread, register and byte, and enumerated over the whole tile. */
#include "ir/layout.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct Place {
  unsigned row, column;
} Place;

/* Bytes of one element -> number type of that width. */
static NumberType type_of_bytes(unsigned bytes)
{
  return bytes == 1 ? NUMBER_E4M3 : bytes == 2 ? NUMBER_BF16 : NUMBER_TF32;
}

static void expect_at(const Layout *layout, unsigned warp, unsigned lane, unsigned reg, Place place)
{
  unsigned coordinate[LAYOUT_MAX_DIMS];
  layout_at(layout, 0, warp, lane, reg, coordinate);
  if (coordinate[0] != place.row || coordinate[1] != place.column)
    fail_msg("%s warp %u lane %u register %u: [%u, %u] instead of [%u, %u]", layout->name, warp, lane, reg,
             coordinate[0], coordinate[1], place.row, place.column);
}

/* Each element lies somewhere, and `copies` times in all. */
static void expect_cover(const Layout *layout, unsigned copies)
{
  unsigned elements = 1;
  for (unsigned i = 0; i < layout->rank; i++)
    elements *= layout->extent[i];
  g_autofree unsigned *seen = g_new0(unsigned, elements);
  unsigned warps = layout_size(layout, PLACE_WARP), lanes = layout_size(layout, PLACE_LANE);
  unsigned registers = MAX(layout_registers(layout), layout_size(layout, PLACE_OFFSET));
  for (unsigned w = 0; w < warps; w++)
    for (unsigned l = 0; l < lanes; l++)
      for (unsigned r = 0; r < registers; r++) {
        unsigned coordinate[LAYOUT_MAX_DIMS], at = 0;
        layout_at(layout, 0, w, l, r, coordinate);
        for (unsigned i = 0; i < layout->rank; i++) {
          assert_true(coordinate[i] < layout->extent[i]);
          at = at * layout->extent[i] + coordinate[i];
        }
        seen[at]++;
      }
  for (unsigned i = 0; i < elements; i++)
    assert_int_equal(seen[i], copies);
}

/* ---- warpgroup MMAs ---- */

static void test_group_d(void **state)
{
  static const unsigned columns[] = {8, 16, 64, 112, 128, 160, 176, 192, 256};
  g_autoptr(Arena) arena = arena_new();
  for (unsigned c = 0; c < G_N_ELEMENTS(columns); c++)
    for (unsigned groups = 1; groups <= 2; groups++)
      for (unsigned repeat = 1; repeat <= 2; repeat++) {
        unsigned n = columns[c], m = 64 * groups * repeat;
        const Layout *layout = layout_group_d(arena, m, n, groups);
        assert_non_null(layout);
        assert_int_equal(layout_registers(layout), n / 2 * repeat);
        assert_int_equal(layout_size(layout, PLACE_WARP), 4 * groups);
        for (unsigned warp = 0; warp < 4 * groups; warp++)
          for (unsigned l = 0; l < 32; l++)
            for (unsigned reg = 0; reg < n / 2 * repeat; reg++) {
              unsigned i = reg % (n / 2), atom = reg / (n / 2), w = warp % 4, group = warp / 4;
              Place place = {group * 64 * repeat + 64 * atom + 16 * w + l / 4 + 8 * (i >> 1 & 1),
                             8 * (i >> 2) + 2 * (l % 4) + (i & 1)};
              expect_at(layout, warp, l, reg, place);
            }
        expect_cover(layout, 1);
      }
  assert_null(layout_group_d(arena, 96, 64, 1));
  assert_null(layout_group_d(arena, 64, 12, 1));
}

/* Register r of a 32-bit fragment holds 4 / bytes elements, lowest first. */
static void test_group_a(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  for (unsigned bytes = 1; bytes <= 4; bytes *= 2) {
    unsigned e = 4 / bytes, k1 = 8 * e;
    for (unsigned steps = 1; steps <= 3; steps++)
      for (unsigned groups = 1; groups <= 2; groups++) {
        const Layout *layout = layout_group_a(arena, type_of_bytes(bytes), 64 * groups, k1 * steps, groups);
        assert_non_null(layout);
        for (unsigned warp = 0; warp < 4 * groups; warp++)
          for (unsigned l = 0; l < 32; l++)
            for (unsigned i = 0; i < 4 * e * steps; i++) {
              unsigned step = i / (4 * e), r = i / e % 4, b = i % e;
              Place place = {64 * (warp / 4) + 16 * (warp % 4) + l / 4 + 8 * (r & 1),
                             step * k1 + e * (l % 4) + b + 4 * e * (r >> 1)};
              expect_at(layout, warp, l, i, place);
            }
        expect_cover(layout, 1);
      }
  }
  assert_null(layout_group_a(arena, NUMBER_BF16, 64, 24, 1));
  assert_null(layout_group_a(arena, NUMBER_F64, 64, 32, 1));
}

/* Of each 16 of k a lane has four that it has of an accumulator, and shared memory has them side by side. */
static void test_paired(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  unsigned extents[2] = {64, 128};
  const Layout *a = layout_group_a_paired(arena, NUMBER_E4M3, 128, 128, 2),
               *b = layout_shared_paired(arena, extents, 1, NUMBER_E4M3, 128);
  assert_true(layout_is_paired_operand(a));
  assert_true(layout_is_shared_paired(b));
  assert_true(layout_same_threads(layout_group_d(arena, 128, 128, 2), a));
  assert_false(layout_same_threads(layout_group_d(arena, 128, 128, 2),
                                   layout_group_a(arena, NUMBER_E4M3, 128, 128, 2)));
  expect_cover(a, 1);
  for (unsigned l = 0; l < 32; l++)
    for (unsigned i = 0; i < 64;
         i++) { /* the instruction's place along k of a register is that of its byte in a row of b */
      unsigned at[LAYOUT_MAX_DIMS], row[LAYOUT_MAX_DIMS] = {0};
      layout_at(a, 0, 0, l, i, at);
      unsigned place = i / 16 * 32 + i / 8 % 2 * 16 + 4 * (l % 4) + i % 4;
      row[1] = at[1];
      assert_int_equal(layout_byte_offset(b, NUMBER_E4M3, row), place);
    }
  assert_null(layout_group_a_paired(arena, NUMBER_BF16, 64, 64, 1));
  assert_null(layout_group_a_paired(arena, NUMBER_E4M3, 64, 48, 1));
  assert_null(layout_shared_paired(arena, extents, 1, NUMBER_E4M3, 0));
  const Layout *turned = layout_turned(arena, NUMBER_E4M3, 64, 128, 4);
  assert_true(layout_is_turned(turned));
  assert_false(layout_is_turned(a));
  expect_cover(turned, 1);
  expect_cover(layout_turned(arena, NUMBER_E4M3, 96, 128, 4),
               1); /* two warps below one another, two beside */
  assert_null(layout_turned(arena, NUMBER_E4M3, 96, 32, 4));
}

/* Row of 64 that a lane's first or second row is where A lies across k: matrices of bytes, transposed, give a
 * lane pairs of rows; of words a lane loads pairs, of chunks of 16 bytes that are four chunks apart. */
static unsigned row_across(unsigned bytes, unsigned warp, unsigned lane, unsigned second)
{
  unsigned g = lane / 4;
  if (bytes == 1) return 16 * warp + 2 * g + second;
  return 32 * (warp / 2) + 8 * (warp % 2) + 4 * (g / 4) + 16 * (g / 2 % 2) + 2 * (g % 2) + second;
}

static void test_group_across(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  for (unsigned bytes = 1; bytes <= 4; bytes += 3)
    for (unsigned groups = 1; groups <= 2; groups++) {
      unsigned e = 4 / bytes, rows = 128 * groups, steps = 2;
      const Layout *d = layout_group_d_across(arena, bytes, rows, 24, groups);
      const Layout *a = layout_group_a_across(arena, type_of_bytes(bytes), rows, 8 * e * steps, groups);
      assert_non_null(d);
      assert_non_null(a);
      for (unsigned warp = 0; warp < 4 * groups; warp++)
        for (unsigned l = 0; l < 32; l++) {
          for (unsigned i = 0; i < 24; i++) {
            unsigned row = 128 * (warp / 4) + 64 * (i / 12) + row_across(bytes, warp % 4, l, i >> 1 & 1);
            expect_at(d, warp, l, i, (Place){row, i % 12 / 4 * 8 + 2 * (l % 4) + (i & 1)});
          }
          /* registers of 32 bits by the place that the instruction gives them; elements of one follow k */
          for (unsigned i = 0; i < 8 * e * steps; i++) {
            unsigned b = i % e, second = i / e & 1, half = i / e >> 1 & 1, part = i / (4 * e) & 1,
                     step = i / (8 * e);
            unsigned row = 128 * (warp / 4) + 64 * part + row_across(bytes, warp % 4, l, second);
            expect_at(a, warp, l, i, (Place){row, 8 * e * step + 4 * e * half + e * (l % 4) + b});
          }
        }
      expect_cover(d, 1);
      expect_cover(a, 1);
    }
  assert_null(layout_group_d_across(arena, 2, 64, 32, 1));
  assert_null(layout_group_a_across(arena, NUMBER_BF16, 64, 32, 1));
  assert_null(layout_group_d_across(arena, 1, 96, 32, 1));
  assert_null(layout_group_a_across(arena, NUMBER_S8, 64, 48, 1));
}

/* A lane has squares, eight below one another and four side by side. */
static void test_patches(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  const Layout *layout = layout_patches(arena, 64, 128, 4, 8);
  assert_non_null(layout);
  for (unsigned warp = 0; warp < 8; warp++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned i = 0; i < 32; i++) {
        Place place = {32 * (warp % 2) + 4 * (l % 8) + i / 4 % 4,
                       64 * (i / 16) + 16 * (warp / 2) + 4 * (l / 8) + i % 4};
        expect_at(layout, warp, l, i, place);
      }
  expect_cover(layout, 1);
  assert_int_equal(layout_side_by_side(layout, 0), 4);
  assert_int_equal(layout_side_by_side(layout, 1), 4);
  assert_int_equal(layout_side_by_side(layout_group_d(arena, 64, 64, 1), 0), 1);
  assert_int_equal(layout_side_by_side(layout_group_d_across(arena, 4, 64, 64, 1), 0), 2);
  assert_null(layout_patches(arena, 24, 64, 4, 8));
  assert_null(layout_patches(arena, 64, 32, 4, 8));
}

/* Tiles that no power of two divides among threads: whoever is left has what another one has. */
static void test_replicated(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  const unsigned extents[][2] = {{1, 64}, {64, 1}, {3, 5}, {1, 1}, {24, 6}, {7, 128}, {10, 48}};
  for (unsigned i = 0; i < G_N_ELEMENTS(extents); i++)
    for (unsigned warps = 1; warps <= 12; warps += warps < 2 ? 1 : 2) {
      const Layout *layout = layout_replicated(arena, 2, extents[i], warps);
      assert_non_null(layout);
      unsigned places = 32 * warps * layout_registers(layout), elements = extents[i][0] * extents[i][1];
      assert_int_equal(places % elements, 0);
      expect_cover(layout, places / elements);
    }
  assert_null(layout_replicated(arena, 3, (unsigned[]){2, 2, 2}, 4));
}

/* The accumulator of one product is, packed to 16 bits, the A operand of the next. */
static void test_group_d_packs_to_a(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  for (unsigned n = 16; n <= 256; n += 16)
    assert_true(layout_equal(layout_group_d(arena, 64, n, 1), layout_group_a(arena, NUMBER_BF16, 64, n, 1)));
  assert_false(
      layout_equal(layout_group_d(arena, 64, 128, 1), layout_group_a(arena, NUMBER_E4M3, 64, 128, 1)));
}

/* ---- warp MMAs ---- */

static void check_mma_a(Arena *arena, unsigned bytes, unsigned atoms, unsigned steps, unsigned wm,
                        unsigned wn)
{
  unsigned e = 4 / bytes, m = 16 * atoms * wm, k1 = 8 * e;
  const Layout *layout = layout_mma_a(arena, type_of_bytes(bytes), m, k1 * steps, wm, wn);
  assert_non_null(layout);
  for (unsigned warp = 0; warp < wm * wn; warp++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned i = 0; i < 4 * e * atoms * steps; i++) {
        unsigned b = i % e, r = i / e % 4, atom = i / (4 * e) % atoms, step = i / (4 * e * atoms);
        Place place = {warp % wm * 16 * atoms + 16 * atom + l / 4 + 8 * (r & 1),
                       step * k1 + e * (l % 4) + b + 4 * e * (r >> 1)};
        expect_at(layout, warp, l, i, place);
      }
  expect_cover(layout, wn);
}

/* Which k a register has: those of a step are at bit 4 i of both halves of a word, i = 0 and 1 of the first step, 2 and 3 of the
 * next one. */
static void check_mma_a_runs(Arena *arena, unsigned atoms, unsigned run, unsigned chunks, unsigned wm,
                             unsigned wn)
{
  unsigned m = 16 * atoms * wm, steps = run / 4 * chunks;
  const Layout *layout = layout_mma_a_runs(arena, m, 4 * run * chunks, run, wm, wn);
  assert_non_null(layout);
  for (unsigned warp = 0; warp < wm * wn; warp++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned i = 0; i < 8 * atoms * steps; i++) {
        unsigned b = i % 2, r = i / 2 % 4, atom = i / 8 % atoms, step = i / (8 * atoms);
        unsigned word = step / 2 % (run / 8), chunk = step / (run / 4);
        Place place = {warp % wm * 16 * atoms + 16 * atom + l / 4 + 8 * (r & 1),
                       4 * run * chunk + run * (l % 4) + 8 * word + 2 * (step % 2) + (r >> 1) + 4 * b};
        expect_at(layout, warp, l, i, place);
      }
  expect_cover(layout, wn);
}

static void check_mma_b(Arena *arena, unsigned bytes, unsigned atoms, unsigned steps, unsigned wm,
                        unsigned wn)
{
  unsigned e = 4 / bytes, n = 8 * atoms * wn, k1 = 8 * e;
  const Layout *layout = layout_mma_b(arena, type_of_bytes(bytes), k1 * steps, n, wm, wn);
  assert_non_null(layout);
  for (unsigned warp = 0; warp < wm * wn; warp++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned i = 0; i < 2 * e * atoms * steps; i++) {
        unsigned b = i % e, r = i / e % 2, atom = i / (2 * e) % atoms, step = i / (2 * e * atoms);
        Place place = {step * k1 + e * (l % 4) + b + 4 * e * r, warp / wm * 8 * atoms + 8 * atom + l / 4};
        expect_at(layout, warp, l, i, place);
      }
  expect_cover(layout, wm);
}

static void check_mma_c(Arena *arena, unsigned atoms_m, unsigned atoms_n, unsigned wm, unsigned wn)
{
  const Layout *layout = layout_mma_c(arena, 16 * atoms_m * wm, 8 * atoms_n * wn, wm, wn);
  assert_non_null(layout);
  for (unsigned warp = 0; warp < wm * wn; warp++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned reg = 0; reg < 4 * atoms_m * atoms_n; reg++) {
        unsigned i = reg % 4, atom_n = reg / 4 % atoms_n, atom_m = reg / 4 / atoms_n;
        Place place = {warp % wm * 16 * atoms_m + 16 * atom_m + l / 4 + 8 * (i >> 1),
                       warp / wm * 8 * atoms_n + 8 * atom_n + 2 * (l % 4) + (i & 1)};
        expect_at(layout, warp, l, reg, place);
      }
  expect_cover(layout, 1);
}

/* Each warp's share of every part lies in its registers: a part of the whole is the layout of a tile as wide. */
static void check_parts(Arena *arena, unsigned parts, unsigned atoms_n, unsigned wm, unsigned wn)
{
  unsigned share = 8 * atoms_n, part = share * wn, n = parts * part;
  const Layout *c = layout_mma_c_parts(arena, 32 * wm, n, wm, wn, part),
               *b = layout_mma_b_parts(arena, NUMBER_BF16, 32, n, wm, wn, part);
  assert_non_null(c);
  assert_non_null(b);
  for (unsigned warp = 0; warp < wm * wn; warp++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned reg = 0; reg < 8 * atoms_n * parts; reg++) {
        unsigned i = reg % 4, piece = reg / 4 % (atoms_n * parts), atom_m = reg / 4 / (atoms_n * parts);
        unsigned column = piece / atoms_n * part + warp / wm * share + 8 * (piece % atoms_n);
        expect_at(
            c, warp, l, reg,
            (Place){warp % wm * 32 + 16 * atom_m + l / 4 + 8 * (i >> 1), column + 2 * (l % 4) + (i & 1)});
        unsigned step = reg / 4 / (atoms_n * parts);
        expect_at(b, warp, l, reg, (Place){16 * step + 2 * (l % 4) + (i & 1) + 8 * (i >> 1), column + l / 4});
      }
  expect_cover(c, 1);
  expect_cover(b, wm);
  assert_true(layout_equal(layout_part(arena, c, (unsigned[]){32 * wm, part}),
                           layout_mma_c(arena, 32 * wm, part, wm, wn)));
}

static void test_mma(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  for (unsigned wm = 1; wm <= 4; wm *= 2)
    for (unsigned wn = 1; wn <= 2; wn++)
      for (unsigned atoms = 1; atoms <= 3; atoms++) {
        for (unsigned bytes = 1; bytes <= 4; bytes *= 2)
          for (unsigned steps = 1; steps <= 2; steps++) {
            check_mma_a(arena, bytes, atoms, steps, wm, wn);
            check_mma_b(arena, bytes, atoms, steps, wm, wn);
          }
        for (unsigned run = 8; run <= 32; run *= 2)
          check_mma_a_runs(arena, atoms, run, 1 + atoms % 2, wm, wn);
        check_mma_c(arena, atoms, 14, wm, wn); /* 14 * 8 = 112 columns */
        check_mma_c(arena, 2, atoms, wm, wn);
        check_parts(arena, 1 + atoms, atoms, wm, wn);
      }
  assert_null(layout_mma_c_parts(arena, 32, 96, 1, 2, 40));
  assert_null(layout_mma_b_parts(arena, NUMBER_BF16, 16, 64, 1, 4, 16));
  assert_null(layout_mma_c(arena, 24, 64, 1, 1));
  assert_null(layout_mma_c(arena, 16, 64, 0, 1));
  assert_null(layout_mma_a(arena, NUMBER_BF16, 16, 8, 1, 1));
  assert_null(layout_mma_b(arena, NUMBER_BF16, 16, 12, 1, 1));
  assert_null(layout_mma_a_runs(arena, 16, 64, 4, 1, 1));
  assert_null(layout_mma_a_runs(arena, 16, 96, 16, 1, 1));
}

/* ---- Vectors and scalar products ---- */

static void check_blocked(Arena *arena, unsigned rows, unsigned columns, unsigned vector, unsigned lanes,
                          unsigned row_warps, unsigned warps)
{
  const Layout *layout =
      layout_blocked(arena, 2, (unsigned[]){rows, columns}, vector, lanes, row_warps, warps);
  assert_non_null(layout);
  unsigned chunk = vector * lanes * row_warps, across = columns / chunk;
  unsigned pass = 32 / lanes * (warps / row_warps);
  for (unsigned w = 0; w < warps; w++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned r = 0; r < rows * columns / (32 * warps); r++) {
        unsigned v = r % vector, chunk_index = r / vector % across, row_index = r / vector / across;
        Place place = {row_index * pass + w / row_warps * (32 / lanes) + l / lanes,
                       chunk_index * chunk + (w % row_warps * lanes + l % lanes) * vector + v};
        expect_at(layout, w, l, r, place);
      }
  expect_cover(layout, 1);
  assert_int_equal(layout_vector(layout, 1) % vector, 0);
}

static void test_blocked(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  check_blocked(arena, 8, 512, 8, 32, 2, 4);
  check_blocked(arena, 1, 1024, 4, 32, 4, 4);
  check_blocked(arena, 64, 112, 8, 2, 1, 4);
  check_blocked(arena, 128, 160, 4, 8, 1, 8);
  check_blocked(arena, 32, 176, 8, 2, 1, 1);
  check_blocked(arena, 32, 3, 1, 1, 3, 3);
  assert_null(layout_blocked(arena, 2, (unsigned[]){8, 100}, 8, 4, 1, 1));
  assert_null(layout_blocked(arena, 2, (unsigned[]){8, 128}, 8, 3, 1, 1));
  assert_null(layout_blocked(arena, 2, (unsigned[]){3, 128}, 8, 16, 1, 1));
  const Layout *vector = layout_blocked(arena, 1, (unsigned[]){256}, 2, 16, 1, 4);
  assert_non_null(vector);
  expect_cover(vector, 2 * 4);
}

static void check_fma(Arena *arena, unsigned tm, unsigned tn, unsigned threads_n, unsigned threads)
{
  unsigned threads_m = threads / threads_n, group = tn % 4 == 0 ? 4 : tn % 2 == 0 ? 2 : 1;
  const Layout *layout = layout_fma_c(arena, tm * threads_m, tn * threads_n, tm, tn, 4, threads_n, threads);
  assert_non_null(layout);
  for (unsigned t = 0; t < threads; t++)
    for (unsigned r = 0; r < tm * tn; r++) {
      unsigned tx = t % threads_n, ty = t / threads_n, i = r / tn, j = r % tn;
      Place place = {ty + i * threads_m, (j / group * threads_n + tx) * group + j % group};
      expect_at(layout, t / 32, t % 32, r, place);
    }
  expect_cover(layout, 1);
}

static void test_fma(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  check_fma(arena, 8, 8, 16, 256);
  check_fma(arena, 4, 4, 8, 64);
  check_fma(arena, 2, 6, 32, 128);
  check_fma(arena, 1, 1, 64, 128);
  check_fma(arena, 5, 3, 4, 32);
  assert_null(layout_fma_c(arena, 64, 64, 8, 8, 4, 8, 48));
  assert_null(layout_fma_c(arena, 64, 65, 8, 8, 4, 8, 64));
}

/* ---- Shared memory ---- */

/* Address bits 4.. are xored with those 3 further up; panels as wide as the swizzle follow one another. */
static uint64_t swizzled_offset(unsigned row, unsigned inner, unsigned rows, unsigned bytes, unsigned swizzle)
{
  unsigned width = swizzle / bytes;
  uint64_t address =
      (uint64_t)(inner / width) * rows * swizzle + (uint64_t)row * swizzle + inner % width * bytes;
  unsigned chunk = address >> 4 & (swizzle / 16 - 1), line = address >> 7 & (swizzle / 16 - 1);
  return (address & ~(uint64_t)(swizzle - 1)) | (uint64_t)(chunk ^ line) << 4 | (address & 15);
}

static void check_swizzle(Arena *arena, unsigned rows, unsigned columns, unsigned bytes, unsigned swizzle)
{
  NumberType type = type_of_bytes(bytes);
  for (unsigned inner = 0; inner < 2; inner++) {
    unsigned extents[2] = {inner ? rows : columns, inner ? columns : rows};
    const Layout *layout = layout_shared(arena, 2, extents, inner, type, swizzle, 0);
    assert_non_null(layout);
    assert_int_equal(layout_bytes(layout, type), rows * columns * bytes);
    for (unsigned row = 0; row < rows; row++)
      for (unsigned column = 0; column < columns; column++) {
        unsigned coordinate[2] = {inner ? row : column, inner ? column : row};
        assert_int_equal(layout_byte_offset(layout, type, coordinate),
                         swizzled_offset(row, column, rows, bytes, swizzle));
      }
    expect_cover(layout, 1);
  }
}

static void test_swizzle(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  for (unsigned swizzle = 32; swizzle <= 128; swizzle *= 2)
    for (unsigned bytes = 1; bytes <= 4; bytes *= 2) {
      check_swizzle(arena, 64, swizzle / bytes, bytes, swizzle);
      check_swizzle(arena, 24, 3 * swizzle / bytes, bytes, swizzle);
    }
  /* Eight rows of 128 bytes: 16-byte chunk c of row r lies at chunk c ^ r. */
  const Layout *atom = layout_shared(arena, 2, (unsigned[]){8, 64}, 1, NUMBER_F16, 128, 0);
  for (unsigned r = 0; r < 8; r++)
    for (unsigned c = 0; c < 8; c++)
      assert_int_equal(layout_byte_offset(atom, NUMBER_F16, (unsigned[]){r, c * 8}), r * 128 + (c ^ r) * 16);
  assert_null(layout_shared(arena, 2, (unsigned[]){64, 40}, 1, NUMBER_F16, 128, 0));
  assert_null(layout_shared(arena, 2, (unsigned[]){64, 64}, 1, NUMBER_F16, 128, 8));
  assert_null(layout_shared(arena, 2, (unsigned[]){64, 64}, 1, NUMBER_F16, 48, 0));
}

static void test_padding(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  const Layout *layout = layout_shared(arena, 2, (unsigned[]){16, 40}, 1, NUMBER_F32, 0, 4);
  assert_non_null(layout);
  assert_int_equal(layout_bytes(layout, NUMBER_F32), 16 * 44 * 4);
  for (unsigned row = 0; row < 16; row++)
    for (unsigned column = 0; column < 40; column++) {
      unsigned coordinate[2] = {row, column}, back[2];
      uint64_t offset = layout_byte_offset(layout, NUMBER_F32, coordinate);
      assert_int_equal(offset, (row * 44 + column) * 4);
      layout_at(layout, 0, 0, 0, (unsigned)offset / 4, back);
      assert_memory_equal(coordinate, back, sizeof back);
    }
  const Layout *three = layout_shared(arena, 3, (unsigned[]){3, 5, 7}, 2, NUMBER_F16, 0, 0);
  assert_int_equal(layout_byte_offset(three, NUMBER_F16, (unsigned[]){2, 3, 4}), ((2 * 5 + 3) * 7 + 4) * 2);
}

/* ---- Operations ---- */

static void test_slice(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  const Layout *layout = layout_group_d(arena, 128, 176, 2);
  for (unsigned keep = 0; keep < 2; keep++) {
    const Layout *slice = layout_slice(arena, layout, keep);
    assert_int_equal(slice->extent[1 - keep], 1);
    assert_int_equal(slice->extent[keep], layout->extent[keep]);
    /* Row sums: two registers (rows 8 apart); column biases: a quarter of the columns. */
    assert_int_equal(layout_registers(slice), keep ? 44 : 2);
    for (unsigned w = 0; w < 8; w++)
      for (unsigned l = 0; l < 32; l++)
        for (unsigned r = 0; r < layout_registers(slice); r++) {
          unsigned whole[2], part[2];
          unsigned from = keep ? r / 2 * 4 + r % 2 : r * 2; /* a register of the tile in that row or column */
          layout_at(layout, 0, w, l, from, whole);
          layout_at(slice, 0, w, l, r, part);
          assert_int_equal(part[keep], whole[keep]);
          assert_int_equal(part[1 - keep], 0);
        }
  }
}

/* A row of each 16: of the warp that has these, in the registers of each 64 rows. */
static void test_every(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  const Layout *layout = layout_group_d(arena, 128, 176, 1), *rows = layout_every(arena, layout, 0, 16);
  assert_non_null(rows);
  assert_int_equal(rows->extent[0], 8);
  assert_int_equal(layout_registers(rows), layout_registers(layout) / 2);
  bool seen[8] = {false};
  for (unsigned w = 0; w < 4; w++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned r = 0; r < layout_registers(layout); r++) {
        unsigned whole[2], part[2];
        layout_at(layout, 0, w, l, r, whole);
        layout_at(rows, 0, w, l, r / 4 * 2 + r % 2, part); /* pairs of columns in two rows, 8 apart */
        assert_int_equal(part[0], whole[0] / 16);
        assert_int_equal(part[1], whole[1]);
        seen[part[0]] = true;
      }
  for (unsigned i = 0; i < 8; i++)
    assert_true(seen[i]);
  assert_non_null(layout_every(arena, layout_mma_c(arena, 64, 64, 2, 2), 0, 16));
  assert_null(layout_every(arena, layout, 0, 24)); /* no divisor of the rows */
  assert_null(layout_every(arena, layout, 0, 32)); /* rows of a warp and of the next */
  /* along columns: half of a warp's lanes have the same 128, the other half the next */
  layout = layout_blocked(arena, 2, (unsigned[]){2, 4096}, 8, 32, 4, 8);
  const Layout *columns = layout_every(arena, layout, 1, 128);
  assert_non_null(columns);
  assert_int_equal(columns->extent[1], 32);
  assert_int_equal(layout_registers(columns), 4);
  for (unsigned w = 0; w < 8; w++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned r = 0; r < layout_registers(layout); r++) {
        unsigned whole[2], part[2];
        layout_at(layout, 0, w, l, r, whole);
        layout_at(columns, 0, w, l, r / 8, part);
        assert_int_equal(part[0], whole[0]);
        assert_int_equal(part[1], whole[1] / 128);
      }
  assert_null(layout_every(arena, layout, 1, 512)); /* of two warps */
  layout = layout_blocked_whole(arena, (unsigned[]){1, 1024}, 1, 32, 128, 4, 4);
  assert_non_null(layout);
  assert_non_null(layout_every(arena, layout, 1, 128));
}

static void test_transposed(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  const Layout *layout = layout_mma_c(arena, 32, 112, 2, 1), *other = layout_transposed(arena, layout);
  for (unsigned w = 0; w < 2; w++)
    for (unsigned l = 0; l < 32; l++)
      for (unsigned r = 0; r < layout_registers(layout); r++) {
        unsigned a[2], b[2];
        layout_at(layout, 0, w, l, r, a);
        layout_at(other, 0, w, l, r, b);
        assert_true(a[0] == b[1] && a[1] == b[0]);
      }
  assert_true(layout_equal(layout_transposed(arena, other), layout));
  assert_false(layout_equal(other, layout));
}

static void test_equal(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  const char *message;
  unsigned extents[2] = {64, 32};
  /* The same map cut into modes in another way. */
  const Layout *cut =
      layout_parse(arena, "{register 2:1.1 2:0.8 2:1.8 2:1.16 | lane 2:1.2 2:1.4 8:0.1 | warp 2:0.16 2:0.32}",
                   NUMBER_F32, 2, extents, &message);
  assert_non_null(cut);
  assert_true(layout_equal(cut, layout_group_d(arena, 64, 32, 1)));
  const Layout *swapped =
      layout_parse(arena, "{register 2:1.1 2:0.8 2:1.16 2:1.8 | lane 4:1.2 8:0.1 | warp 4:0.16}", NUMBER_F32,
                   2, extents, &message);
  assert_non_null(swapped);
  assert_false(layout_equal(swapped, cut));
  assert_false(layout_equal(layout_shared(arena, 2, extents, 1, NUMBER_F32, 128, 0),
                            layout_shared(arena, 2, extents, 1, NUMBER_F32, 64, 0)));
}

static void test_vector(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  assert_int_equal(layout_vector(layout_group_d(arena, 64, 112, 1), 1), 2);
  assert_int_equal(layout_vector(layout_group_d(arena, 64, 112, 1), 0), 1);
  assert_int_equal(layout_vector(layout_group_a(arena, NUMBER_E4M3, 64, 32, 1), 1), 4);
  unsigned extents[2] = {8, 512};
  assert_int_equal(layout_vector(layout_blocked(arena, 2, extents, 8, 32, 1, 1), 1), 8);
  assert_int_equal(layout_vector(layout_blocked(arena, 2, (unsigned[]){32, 12}, 12, 1, 1, 1), 1), 4);
}

/* ---- Text ---- */

static void expect_round_trip(Arena *arena, const Layout *layout, NumberType type)
{
  const char *message = NULL, *text = layout_text(arena, layout);
  const Layout *back = layout_parse(arena, text, type, layout->rank, layout->extent, &message);
  if (!back) fail_msg("%s: %s", text, message);
  assert_true(layout_equal(layout, back));
  assert_string_equal(layout_text(arena, back), text);
  Layout *bare = arena_memdup(arena, layout, sizeof *layout);
  bare->name = NULL;
  text = layout_text(arena, bare);
  back = layout_parse(arena, text, type, layout->rank, layout->extent, &message);
  if (!back) fail_msg("%s: %s", text, message);
  assert_true(layout_equal(layout, back));
  assert_string_equal(layout_text(arena, back), text);
}

static void test_text(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  unsigned square[2] = {128, 64};
  const Layout *d = layout_group_d(arena, 128, 112, 2);
  expect_round_trip(arena, d, NUMBER_F32);
  expect_round_trip(arena, layout_slice(arena, d, 0), NUMBER_F32);
  expect_round_trip(arena, layout_slice(arena, d, 1), NUMBER_F32);
  expect_round_trip(arena, layout_transposed(arena, d), NUMBER_F32);
  expect_round_trip(arena, layout_slice(arena, layout_transposed(arena, d), 1), NUMBER_F32);
  expect_round_trip(arena, layout_group_a(arena, NUMBER_E4M3, 128, 64, 2), NUMBER_E4M3);
  expect_round_trip(arena, layout_group_a_paired(arena, NUMBER_E4M3, 128, 64, 2), NUMBER_E4M3);
  expect_round_trip(arena, layout_shared_paired(arena, square, 1, NUMBER_E4M3, 64), NUMBER_E4M3);
  expect_round_trip(arena, layout_turned(arena, NUMBER_E4M3, 128, 64, 4), NUMBER_E4M3);
  expect_round_trip(arena, layout_group_d_across(arena, 4, 256, 64, 2), NUMBER_F32);
  expect_round_trip(arena, layout_group_a_across(arena, NUMBER_E4M3, 128, 64, 2), NUMBER_E4M3);
  expect_round_trip(arena, layout_patches(arena, 128, 128, 8, 8), NUMBER_S8);
  expect_round_trip(arena, layout_mma_a(arena, NUMBER_F16, 64, 32, 2, 2), NUMBER_F16);
  expect_round_trip(arena, layout_mma_a_runs(arena, 64, 128, 16, 2, 2), NUMBER_S4);
  expect_round_trip(arena, layout_mma_b(arena, NUMBER_F16, 32, 64, 2, 2), NUMBER_F16);
  expect_round_trip(arena, layout_mma_c(arena, 64, 64, 2, 2), NUMBER_F32);
  expect_round_trip(arena, layout_mma_b_parts(arena, NUMBER_F16, 32, 64, 2, 2, 32), NUMBER_F16);
  expect_round_trip(arena, layout_mma_c_parts(arena, 64, 96, 2, 2, 32), NUMBER_F32);
  expect_round_trip(arena, layout_fma_c(arena, 128, 128, 8, 8, 4, 16, 256), NUMBER_F32);
  expect_round_trip(arena, layout_fma_c(arena, 128, 128, 8, 8, 1, 16, 256), NUMBER_F32);
  expect_round_trip(arena, layout_blocked(arena, 2, square, 8, 8, 1, 4), NUMBER_F16);
  expect_round_trip(arena, layout_shared(arena, 2, square, 1, NUMBER_F16, 128, 0), NUMBER_F16);
  expect_round_trip(arena, layout_shared(arena, 2, square, 0, NUMBER_F16, 0, 8), NUMBER_F16);
}

static void test_refused_texts(void **state)
{
  static const char *const texts[] = {
      "",
      "group.d",
      "group.d()",
      "group.d(3)",
      "group.d(2) x",
      "group.e(2)",
      "group.d(99999999999999999999)",
      "mma.c(0, 1)",
      "blocked(vector 8, lanes 5, row_warps 1, warps 4)",
      "blocked(lanes 8, vector 8, row_warps 1, warps 4)",
      "shared(inner 2, swizzle 0, pad 0)",
      "{register 2:1.1",
      "{register 2:7.1}",
      "{register 2:1.1 | lane 32:0.1}",
      "{register 128:0.1 64:1.2}",
      "{register 128:0.1 64:1.1 | offset 4:-}",
      "{register 0:0.1}",
      "{swizzle 3:4.3 register 128:0.1 64:1.1}",
      "slice(group.d(2), 64)",
      "transposed(transposed(transposed(transposed(transposed(transposed(group.d(2)))))))",
  };
  g_autoptr(Arena) arena = arena_new();
  unsigned extents[2] = {128, 64};
  for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
    const char *message = NULL;
    if (layout_parse(arena, texts[i], NUMBER_F32, 2, extents, &message)) fail_msg("accepted: %s", texts[i]);
    assert_non_null(message);
  }
}

/* Registers of a thread side by side in vectors, those of neighbouring lanes behind one another; each element
 * has one place. */
static void test_by_threads(void **state)
{
  (void)state;
  g_autoptr(Arena) arena = arena_new();
  const Layout *tile = layout_group_d(arena, 64, 72, 1), *shared = layout_by_threads(arena, tile, 4, 3);
  assert_non_null(shared);
  assert_int_equal(layout_bytes(shared, NUMBER_F32), 3 * 64 * 72 * 4);
  g_autofree bool *taken = g_new0(bool, 3 * 64 * 72);
  for (unsigned copy = 0; copy < 3; copy++)
    for (unsigned thread = 0; thread < 128; thread++)
      for (unsigned reg = 0; reg < 36; reg++) {
        unsigned at[LAYOUT_MAX_DIMS];
        layout_at(tile, 0, thread / 32, thread % 32, reg, at);
        at[0] += copy * 64;
        uint64_t place = layout_byte_offset(shared, NUMBER_F32, at) / 4;
        assert_int_equal(place, copy * 64 * 72 + reg / 4 * 512 + thread * 4 + reg % 4);
        assert_false(taken[place]);
        taken[place] = true;
      }
  expect_round_trip(arena, shared, NUMBER_F32);
  /* rows that several lanes hold have no one place; five registers are no vectors of four */
  assert_null(layout_by_threads(arena, layout_slice(arena, tile, 0), 4, 1));
  assert_null(layout_by_threads(arena, layout_blocked(arena, 1, (unsigned[]){160}, 5, 32, 1, 1), 4, 1));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_group_d),       cmocka_unit_test(test_group_a),
      cmocka_unit_test(test_paired),        cmocka_unit_test(test_group_d_packs_to_a),
      cmocka_unit_test(test_group_across),  cmocka_unit_test(test_patches),
      cmocka_unit_test(test_replicated),    cmocka_unit_test(test_mma),
      cmocka_unit_test(test_blocked),       cmocka_unit_test(test_fma),
      cmocka_unit_test(test_swizzle),       cmocka_unit_test(test_padding),
      cmocka_unit_test(test_slice),         cmocka_unit_test(test_every),
      cmocka_unit_test(test_transposed),    cmocka_unit_test(test_equal),
      cmocka_unit_test(test_vector),        cmocka_unit_test(test_text),
      cmocka_unit_test(test_refused_texts), cmocka_unit_test(test_by_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
