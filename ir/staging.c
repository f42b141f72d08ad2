#include "ir/staging.h"
#include <glib.h>

/* A part's rows at most: of tiles that many rows share, less, so that the ring keeps its slots. */
#define WIDEST_ROW  224
#define MANY_ROWS   128
#define WIDEST_MANY 64
#define WIDEST_ODD  128 /* where the columns do not divide into such rows */
/* Clocks that a part costs beyond its bytes: two barriers, a fence, starting the copy. Only the proportion to
 * the other terms matters. */
#define PART_COST  400
#define BANK_BYTES 128 /* what shared memory takes a clock */
/* Rows that begin or end within a sector are written twice in part: measured, a product with parts of 80
 * bytes took a quarter longer than one with parts of 64. */
#define SECTOR 32

unsigned staging_swizzle(unsigned row_bytes)
{
  return row_bytes == 128 || row_bytes == 64 || row_bytes == 32 ? row_bytes : 0;
}

/* How many of the eight rows of 16 bytes that a matrix store writes at once fall into the same banks. */
static unsigned conflicts(unsigned row_bytes)
{
  unsigned most = 1, hits[BANK_BYTES / 16] = {0};
  if (staging_swizzle(row_bytes)) return 1;
  for (unsigned row = 0; row < 8; row++) {
    unsigned n = ++hits[row * row_bytes % BANK_BYTES / 16];
    most = MAX(most, n);
  }
  return most;
}

static unsigned best_width(unsigned rows, unsigned columns, unsigned narrow, unsigned wide, unsigned widest)
{
  unsigned best = 0, least = G_MAXUINT;
  for (unsigned width = 8; width <= columns && width * wide <= widest; width += 8) {
    if (columns % width || width * narrow % 16) continue;
    if (width < columns && width * narrow % SECTOR) continue;
    unsigned tile = rows * columns * wide / BANK_BYTES;
    unsigned cost = columns / width * PART_COST + tile * conflicts(width * wide);
    if (cost > least) continue;
    least = cost;
    best = width;
  }
  return best;
}

unsigned staging_width(unsigned rows, unsigned columns, unsigned narrow, unsigned wide)
{
  if (rows <= MANY_ROWS) return best_width(rows, columns, narrow, wide, WIDEST_ROW);
  unsigned width = best_width(rows, columns, narrow, wide, WIDEST_MANY);
  return width * wide >= WIDEST_MANY ? width : best_width(rows, columns, narrow, wide, WIDEST_ODD);
}

unsigned staging_width_in(unsigned rows, unsigned columns, unsigned narrow, unsigned wide, unsigned long room)
{
  unsigned width = staging_width(rows, columns, narrow, wide);
  for (unsigned widest = WIDEST_ROW; rows > MANY_ROWS && widest > width * wide; widest -= SECTOR) {
    unsigned wider = best_width(rows, columns, narrow, wide, widest);
    if (wider > width && (unsigned long)STAGING_SLOTS * rows * wider * wide <= room) return wider;
  }
  return width;
}

unsigned staging_bytes(unsigned rows, unsigned columns, unsigned element_bytes)
{
  return STAGING_SLOTS * rows * staging_width(rows, columns, element_bytes, element_bytes) * element_bytes;
}
