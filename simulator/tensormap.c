/* Tensor maps: boxes of up to five dimensions, out-of-bounds fill, swizzled layout in shared memory. */
#include "simulator/copy.h"
#include <string.h>

bool tensormap_read(Warp *w, const Inst *in, unsigned lane, uint64_t address, unsigned rank, TensorMap *map)
{
  if (address & 63) {
    fault(w, in, lane, SIM_FAULT_ALIGNMENT, address, "a tensor map must be aligned to 64 bytes");
    return false;
  }
  Place p = memory_place(w, in, lane, SPACE_GENERIC, address, 64, ACCESS_READ);
  if (!p.at || !memory_place(w, in, lane, SPACE_GENERIC, address + 64, 64, ACCESS_READ).at) return false;
  memcpy(map, p.at, sizeof *map);
  if (map->magic != TENSORMAP_MAGIC) {
    fault(w, in, lane, SIM_FAULT_OPERAND, address, "there is no tensor map at this address");
    return false;
  }
  bool whole = map->rank >= 1 && map->rank <= 5 && map->type < NUMBER_TYPE_COUNT && !(map->address & 15);
  for (unsigned i = 0; i < map->rank && whole; i++)
    whole = map->box[i] && map->box[i] <= 256 && map->element_strides[i];
  unsigned bytes = whole ? number_bytes((NumberType)map->type) : 0;
  if (!bytes || 16 % bytes || map->box[0] * bytes % 16) {
    fault(w, in, lane, SIM_FAULT_OPERAND, address,
          "the tensor map at this address is not complete, or its box does not fit");
    return false;
  }
  if (map->rank != rank) {
    fault(w, in, lane, SIM_FAULT_OPERAND, address, "the tensor map has %u dimensions, the instruction %u",
          map->rank, rank);
    return false;
  }
  return true;
}

static unsigned box_count(const TensorMap *map, unsigned dimension)
{
  unsigned stride = dimension ? MAX(map->element_strides[dimension], 1) : 1;
  return (map->box[dimension] + stride - 1) / stride;
}

uint64_t tensormap_box_bytes(const TensorMap *map)
{
  uint64_t n = number_bytes((NumberType)map->type);
  for (unsigned i = 0; i < map->rank; i++)
    n *= box_count(map, i);
  return n;
}

/* With a swizzle every row of the box takes the whole width of the pattern, however short the row is. */
static unsigned row_bytes(const TensorMap *map)
{
  static const unsigned widths[] = {0, 32, 64, 128};
  return MAX(box_count(map, 0) * number_bytes((NumberType)map->type), widths[map->swizzle_log & 3]);
}

uint64_t tensormap_shared_bytes(const TensorMap *map)
{
  uint64_t n = row_bytes(map);
  for (unsigned i = 1; i < map->rank; i++)
    n *= box_count(map, i);
  return n;
}

uint32_t tensormap_swizzle(const TensorMap *map, uint32_t address)
{
  static const uint32_t bits[] = {0, 0x10, 0x30, 0x70};
  return address ^ (address >> 3 & bits[map->swizzle_log & 3]);
}

void tensormap_walk(const TensorMap *map, const int32_t coordinates[5], uint32_t shared_offset, BoxRow whole,
                    BoxPiece piece, void *user)
{
  unsigned bytes = number_bytes((NumberType)map->type), per_piece = 16 / bytes;
  unsigned count[5] = {1, 1, 1, 1, 1};
  for (unsigned i = 0; i < map->rank; i++)
    count[i] = box_count(map, i);
  uint32_t at = shared_offset;
  unsigned index[5] = {0};
  for (;;) {
    bool inside = true;
    uint64_t row = map->address;
    for (unsigned i = 1; i < map->rank; i++) {
      int64_t c = (int64_t)coordinates[i] + (int64_t)index[i] * MAX(map->element_strides[i], 1);
      inside &= c >= 0 && c <= (int64_t)map->dims[i];
      row += (uint64_t)c * map->strides[i - 1];
    }
    uint32_t start = at;
    const int64_t first = coordinates[0];
    bool done = inside && first >= 0 && first + count[0] - 1 <= (int64_t)map->dims[0] &&
                whole(user, at, row + (uint64_t)first * bytes, count[0] * bytes);
    for (unsigned e = 0; !done && e < count[0]; e += per_piece, at += 16) {
      int64_t c = first + e;
      uint32_t valid = 0;
      for (unsigned k = 0; inside && k < per_piece && e + k < count[0]; k++)
        if (c + k >= 0 && c + k <= (int64_t)map->dims[0]) valid |= 1u << k;
      piece(user, tensormap_swizzle(map, at), row + (uint64_t)c * bytes, valid, bytes);
    }
    at = start + row_bytes(map);
    unsigned i = 1;
    while (i < 5 && ++index[i] >= count[i])
      index[i++] = 0;
    if (i >= 5) return;
  }
}
