/* Does a product read a box with the swizzle that it was loaded with?
 *
 * Each load of a tensor's box notes its swizzle for the memory it covers. The note holds for as long as a
 * bulk load is the last writer there: what ordinary instructions write has the layout they choose. */
#include "simulator/race_cells.h"
#include <string.h>

#define PIECE 16

void layout_loaded(Block *b, const BulkOperation *op)
{
  if (!b->layouts && !op->tensor) return;
  if (!b->layouts) b->layouts = g_malloc0(b->shared_bytes / PIECE + 1);
  uint64_t first = op->to_offset / PIECE, n = op->extent / PIECE;
  if ((first + n) * PIECE > b->shared_bytes) return;
  memset(b->layouts + first, op->tensor ? 1 + op->map.swizzle_log : 0, n);
}

void layout_product(Warp *w, const Inst *in, uint32_t width, uint32_t offset)
{
  const Block *b = w->block;
  uint8_t note = b->layouts ? b->layouts[offset / PIECE] : 0;
  uint32_t loaded = note ? 8u << note : 0; /* 16: none */
  if (!note || loaded == width) return;
  const Clocks *k = b->cluster->check;
  unsigned agent = 0;
  const Inst *writer = cells_writer(w, b, offset, &agent);
  if (!writer || agent < 4 * k->warps) return;
  fault_other(w, in, 0, SIM_FAULT_WGMMA, offset, writer, NULL,
              "the box at %s was loaded with a swizzle of %u bytes; the descriptor says %u (0: none)",
              shared_name(b, offset).text, loaded == PIECE ? 0 : loaded, width == PIECE ? 0 : width);
}
