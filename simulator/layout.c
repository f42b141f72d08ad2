/* Does a product read a box as it was loaded, and nothing beside it?
 *
 * Each load of a tensor's box notes itself for the 16-byte pieces of memory it covers. The note holds for as long as a
 * bulk load is the last writer there: what ordinary instructions write has the layout they choose. */
#include "simulator/race_cells.h"
#include <string.h>

#define PIECE 16

/* Boxes of one instruction and one barrier: a tile may consist of several. */
struct LoadedBox {
  const Inst *in;
  uint64_t tensor; /* address; 0: no tensor's */
  uint32_t barrier;
  uint8_t swizzle_log;
};

static uint16_t box_index(Block *b, const BulkOperation *op)
{
  const LoadedBox box = {.in = op->base.in,
                         .tensor = op->tensor ? op->map.address : 0,
                         .barrier = op->barrier_offset,
                         .swizzle_log = op->tensor ? op->map.swizzle_log : 0};
  if (!box.tensor) return 0;
  for (unsigned i = 0; i < b->boxes->len; i++) {
    const LoadedBox *known = &g_array_index(b->boxes, LoadedBox, i);
    if (known->in == box.in && known->tensor == box.tensor && known->barrier == box.barrier &&
        known->swizzle_log == box.swizzle_log)
      return (uint16_t)(i + 1);
  }
  if (b->boxes->len == UINT16_MAX) return 0;
  g_array_append_val(b->boxes, box);
  return (uint16_t)b->boxes->len;
}

void layout_loaded(Block *b, const BulkOperation *op)
{
  if (!b->layouts && !op->tensor) return;
  if (!b->layouts) b->layouts = g_new0(uint16_t, b->shared_bytes / PIECE + 1);
  if (!b->boxes) b->boxes = g_array_new(FALSE, FALSE, sizeof(LoadedBox));
  uint64_t first = op->to_offset / PIECE, n = op->extent / PIECE;
  if ((first + n) * PIECE > b->shared_bytes) return;
  uint16_t index = box_index(b, op);
  for (uint64_t i = 0; i < n; i++)
    b->layouts[first + i] = index;
}

static bool is_loaded(const Warp *w, uint32_t offset)
{
  const Clocks *k = w->block->cluster->check;
  unsigned agent = 0;
  return cells_writer(w, w->block, offset, &agent) && agent >= 4 * k->warps;
}

static const LoadedBox *box_at(const Block *b, uint32_t offset)
{
  uint16_t index = b->layouts ? b->layouts[offset / PIECE] : 0;
  return index ? &g_array_index(b->boxes, LoadedBox, index - 1) : NULL;
}

static void check_swizzle(Warp *w, const Inst *in, const LoadedBox *box, uint32_t width, uint32_t offset)
{
  uint32_t loaded = 16u << box->swizzle_log; /* 16: none */
  if (loaded == width || !is_loaded(w, offset)) return;
  fault_other(w, in, 0, SIM_FAULT_WGMMA, offset, box->in, NULL,
              "the box at %s was loaded with a swizzle of %u bytes; the descriptor says %u (0: none)",
              shared_name(w->block, offset).text, loaded == PIECE ? 0 : loaded, width == PIECE ? 0 : width);
}

void layout_product(Warp *w, const Inst *in, uint32_t width, const uint32_t *offsets, unsigned n,
                    uint32_t *home, bool gaps)
{
  const Block *b = w->block;
  const LoadedBox *first = *home ? box_at(b, *home) : NULL;
  if (!*home) {
    *home = offsets[0];
    first = box_at(b, offsets[0]);
    if (first) check_swizzle(w, in, first, width, offsets[0]);
  }
  for (unsigned i = 0; first && i < n; i++) {
    const LoadedBox *box = box_at(b, offsets[i]);
    /* a tile may consist of boxes of several tensors, loaded together and lying side by side */
    if (!box || box == first || (box->barrier == first->barrier && (box->tensor == first->tensor || !gaps)))
      continue;
    if (!is_loaded(w, offsets[i]) || !is_loaded(w, *home)) continue;
    FaultParty party = {.run = b->cluster->run, .in = box->in};
    memcpy(party.block, b->id, sizeof party.block);
    fault_party(w, in, 0, SIM_FAULT_WGMMA, !b->cluster->run->ours, offsets[i], &party,
                "an operand that begins at %s leaves the tile that was loaded there: at 0x%x lies %s",
                shared_name(b, *home).text, offsets[i],
                box->barrier == first->barrier ? "a tile of another tensor" : "another slot");
    return;
  }
}
