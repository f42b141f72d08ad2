#include "simulator/sparse_copy.h"
#include <stdbool.h>
#include <string.h>

#define PIECE 4096 /* bytes: a page, the least that memory is given out in */

struct SparseCopy {
  uint64_t bytes;
  uint8_t *pieces[]; /* NULL: all zero */
};

static uint64_t piece_count(uint64_t bytes)
{
  return (bytes + PIECE - 1) / PIECE;
}

static size_t piece_bytes(uint64_t bytes, uint64_t piece)
{
  return (size_t)MIN(PIECE, bytes - piece * PIECE);
}

static bool is_zero(const uint8_t *data, size_t bytes)
{
  static const uint8_t zeros[PIECE];
  return memcmp(data, zeros, bytes) == 0;
}

SparseCopy *sparse_copy_new(const void *data, uint64_t bytes)
{
  uint64_t n = piece_count(bytes);
  SparseCopy *copy = g_malloc0(sizeof *copy + n * sizeof copy->pieces[0]);
  copy->bytes = bytes;
  for (uint64_t i = 0; i < n; i++) {
    const uint8_t *from = (const uint8_t *)data + i * PIECE;
    size_t part = piece_bytes(bytes, i);
    if (!is_zero(from, part)) copy->pieces[i] = g_memdup2(from, part);
  }
  return copy;
}

void sparse_copy_restore(const SparseCopy *copy, void *data)
{
  for (uint64_t i = 0; i < piece_count(copy->bytes); i++) {
    uint8_t *to = (uint8_t *)data + i * PIECE;
    size_t part = piece_bytes(copy->bytes, i);
    if (copy->pieces[i])
      memcpy(to, copy->pieces[i], part);
    else if (!is_zero(to, part))
      memset(to, 0, part);
  }
}

void sparse_copy_free(SparseCopy *copy)
{
  if (!copy) return;
  for (uint64_t i = 0; i < piece_count(copy->bytes); i++)
    g_free(copy->pieces[i]);
  g_free(copy);
}
