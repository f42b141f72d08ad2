/* Control flow of a decoded kernel: inlined calls, branch targets, immediate post-dominators. */
#pragma once
#include "simulator/decode.h"

/* One copy of a function's body in the flat code. */
struct Frame {
  const PtxFunction *function;
  bool is_entry;
  uint32_t first_slot;
  uint64_t local, shared;
  uint32_t start;     /* index of its first instruction in the flat code */
  uint32_t *position; /* per instruction of the function: index in the flat code */
  GPtrArray *returns; /* indices of jumps to the end */
  Frame *caller;
};

static inline uint32_t frame_slot(const Frame *f, const PtxSymbol *s)
{
  return f->first_slot + s->slot;
}

static inline uint64_t frame_local(const Frame *f)
{
  return f->local;
}

static inline uint64_t frame_shared(const Frame *f)
{
  return f->shared;
}

void flow_decode(Decoder *d);
void flow_reconverge(Kernel *k);
void decode_instruction(Decoder *d, const PtxInstruction *source, Inst *in);

void decode_branch(Decoder *d, int argument);
void decode_exit(Decoder *d, int argument);
