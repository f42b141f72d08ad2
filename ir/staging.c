#include "ir/staging.h"
#include "ir/mechanism.h"
#include <string.h>

/* A part's rows at most: of tiles that many rows share, less, so that the ring keeps its slots. */
#define WIDEST_ROW      224
#define MANY_ROWS       128
#define WIDEST_MANY     64
#define WIDEST_ODD      128 /* where the columns do not divide into such rows */
#define LEAST_WITH_REST 144 /* columns of a tile beyond which a last part may be narrower */
/* Clocks that a part costs beyond its bytes: two barriers, a fence, starting the copy. Only the proportion to
 * the other terms matters. */
#define PART_COST    400
#define WIDEST_PANEL 128
#define BANK_BYTES   128 /* what shared memory takes a clock */
/* Of tiles that are stored across: fewer columns are written fast enough from registers; a part's at most. */
#define LEAST_ACROSS 64
#define PART_ACROSS  (80 * 64) /* elements of a part */

const StagingRules staging_usual = {
    .swizzles = SWIZZLES_ALL, .sector = 32, .panel = WIDEST_PANEL, .box = G_MAXUINT};

StagingRules staging_rules(const Gpu *gpu)
{
  unsigned n, swizzles = 0; /* where only threads write and read the parts, any will do */
  const double *listed = gpu_numbers(gpu, "tma.swizzles", &n);
  for (unsigned i = 0; i < n; i++)
    swizzles |= (unsigned)listed[i];
  if (!listed) swizzles = SWIZZLES_ALL;
  double box = gpu_fact(gpu, "tma.box_max");
  bool transposes = gpu_fact(gpu, "matrix_store.transpose") != 0; /* without matrix stores threads do it */
  return (StagingRules){.swizzles = swizzles,
                        .sector = gpu->global_sector,
                        .box = fact_known(box) ? (unsigned)box : G_MAXUINT,
                        .panel = transposes ? swizzle_widest(swizzles, WIDEST_PANEL) : 0};
}

unsigned staging_swizzle(const StagingRules *rules, unsigned row_bytes)
{
  bool one = row_bytes == 128 || row_bytes == 64 || row_bytes == 32;
  return one && rules->swizzles & row_bytes ? row_bytes : 0;
}

/* How many of the eight rows of 16 bytes that a matrix store writes at once fall into the same banks. */
static unsigned conflicts(const StagingRules *rules, unsigned row_bytes)
{
  unsigned most = 1, hits[BANK_BYTES / 16] = {0};
  if (staging_swizzle(rules, row_bytes)) return 1;
  for (unsigned row = 0; row < 8; row++) {
    unsigned n = ++hits[row * row_bytes % BANK_BYTES / 16];
    most = MAX(most, n);
  }
  return most;
}

/* Rows that begin or end within a sector are written twice in part: measured, a product with parts of 80
 * bytes took a quarter longer than one with parts of 64. with_rest: the last part may be narrower than the
 * others. */
static unsigned best_width(const StagingRules *rules, unsigned rows, unsigned columns, unsigned narrow,
                           unsigned wide, unsigned widest, bool with_rest)
{
  unsigned best = 0, least = G_MAXUINT;
  for (unsigned width = 8; width <= MIN(columns, rules->box) && width * wide <= widest; width += 8) {
    unsigned rest = columns % width;
    if ((rest && !with_rest) || width * narrow % 16) continue;
    if (width < columns && (width * narrow % rules->sector || rest * narrow % rules->sector)) continue;
    unsigned whole = rows * (columns - rest) * wide / BANK_BYTES, last = rows * rest * wide / BANK_BYTES;
    unsigned cost = (columns / width + (rest > 0)) * PART_COST + whole * conflicts(rules, width * wide) +
                    (last ? last * conflicts(rules, rest * wide) : 0);
    if (cost > least) continue;
    least = cost;
    best = width;
  }
  return best;
}

unsigned staging_width(const StagingRules *rules, unsigned rows, unsigned columns, unsigned narrow,
                       unsigned wide)
{
  unsigned widest = rows <= MANY_ROWS ? WIDEST_ROW : WIDEST_MANY;
  unsigned width = best_width(rules, rows, columns, narrow, wide, widest, false);
  if (width * wide < WIDEST_MANY && rows > MANY_ROWS)
    width = best_width(rules, rows, columns, narrow, wide, WIDEST_ODD, false);
  /* Rows of a sector are stored slowly: better all but the last part are wider. What that takes of the ring
   * costs narrower tiles more: 256 x 112 lost a slot, and a fifth of its speed (measured). */
  unsigned wider = width * wide < WIDEST_MANY && columns > LEAST_WITH_REST
                       ? best_width(rules, rows, columns, narrow, wide, WIDEST_MANY, true)
                       : 0;
  return MAX(width, wider);
}

unsigned staging_width_in(const StagingRules *rules, unsigned rows, unsigned columns, unsigned narrow,
                          unsigned wide, unsigned long room)
{
  unsigned width = staging_width(rules, rows, columns, narrow, wide);
  for (unsigned widest = WIDEST_ROW; rows > MANY_ROWS && widest > width * wide;
       widest -= MIN(widest, rules->sector)) {
    unsigned wider = best_width(rules, rows, columns, narrow, wide, widest, false);
    if (wider > width && (unsigned long)STAGING_SLOTS * rows * wider * wide <= room) return wider;
  }
  return width;
}

unsigned staging_bytes(const StagingRules *rules, unsigned rows, unsigned columns, unsigned element_bytes)
{
  unsigned width = staging_width(rules, rows, columns, element_bytes, element_bytes);
  return width ? STAGING_SLOTS * rows * (width + columns % width) * element_bytes : 0;
}

unsigned staging_width_least(const StagingRules *rules, unsigned columns, unsigned element_bytes)
{
  unsigned width = 2 * rules->sector / element_bytes;
  return columns > width && width <= rules->box && columns % width * element_bytes % rules->sector == 0
             ? width
             : 0;
}

unsigned staging_bytes_least(const StagingRules *rules, unsigned rows, unsigned columns,
                             unsigned element_bytes)
{
  unsigned width = staging_width_least(rules, columns, element_bytes);
  return width ? rows * (width + columns % width) * element_bytes : 0;
}

unsigned staging_width_across(const StagingRules *rules, unsigned rows, unsigned columns,
                              unsigned element_bytes)
{
  if (!rules->panel || columns < LEAST_ACROSS || element_bytes < 2 || rows * element_bytes % rules->panel ||
      rules->panel / element_bytes > rules->box)
    return 0;
  unsigned best = 0; /* a matrix store writes 16 columns */
  for (unsigned width = 16; width <= MIN(columns, rules->box) && width * rows <= PART_ACROSS; width += 16)
    if (columns % width == 0) best = width;
  return best;
}

unsigned staging_bytes_across(const StagingRules *rules, unsigned rows, unsigned columns,
                              unsigned element_bytes)
{
  return STAGING_SLOTS * rows * staging_width_across(rules, rows, columns, element_bytes) * element_bytes;
}
