/* What a decoded asynchronous copy or store knows of its operands: shared by the files that execute them. */
#pragma once
#include "simulator/copy.h"
#include "simulator/exec.h"

/* Addresses and the like of one copy; lanes are read from slots at issue. */
typedef struct CopyData {
  uint32_t to, from, barrier, mask, size;
  int64_t to_offset, from_offset, barrier_offset;
  bool to_wide, from_wide, barrier_wide;
  CopyDirection direction;
  bool tensor;
  unsigned rank;
  int reduction;
  uint8_t element_type;
  Space to_space, from_space;
} CopyData;

/* of groups of copies */
enum { GROUP_COMMIT, GROUP_WAIT, GROUP_WAIT_ALL };

static inline uint64_t copy_value(const Warp *w, uint32_t id, int64_t offset, bool wide, unsigned lane)
{
  return wide ? lane_u64(w, id, lane) + (uint64_t)offset
              : (uint32_t)(lane_u32(w, id, lane) + (uint32_t)offset);
}

static inline uint32_t take_copy_address(Decoder *d, unsigned i, int64_t *offset, bool *wide)
{
  return address(d, operand_at(d, i), offset, wide, NULL);
}

static inline CopyData *copy_data_new(Decoder *d)
{
  CopyData *data = arena_new_object(d->kernel->arena, CopyData);
  data->barrier = data->mask = data->size = OPERAND_NONE;
  data->reduction = -1;
  d->in->data = data;
  d->in->flags |= INST_CUSTOM;
  return data;
}

/* Takes the reduction of an instruction: ATOM_*; false: it names none. */
static inline bool take_reduction(Decoder *d, int *operation)
{
  static const char *const names[] = {"add", "min", "max", "and", "or", "xor", "inc", "dec", NULL};
  static const int operations[] = {ATOM_ADD, ATOM_MIN, ATOM_MAX, ATOM_AND,
                                   ATOM_OR,  ATOM_XOR, ATOM_INC, ATOM_DEC};
  int which = 0;
  if (!take_one(d, names, &which)) return false;
  *operation = operations[which];
  return true;
}
