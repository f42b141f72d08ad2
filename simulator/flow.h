/* Control flow of a decoded kernel: inlined calls, branch targets, immediate post-dominators. */
#pragma once
#include "simulator/decode.h"

/* A function that is called rather than inlined, because it is recursive, called through its address or
 * allocates on the stack: one copy of its code, with registers that a call saves and local memory on the
 * thread's stack. The entry is one, too. */
typedef struct Routine {
  const PtxFunction *function; /* NULL: the entry */
  Frame *frame;
  uint32_t start, end;          /* in the flat code; end: behind the return */
  uint32_t first_slot, n_slots; /* registers, those of functions inlined into it included */
  uint32_t base, top;           /* 64-bit slots: its part of the stack; base 0: starts at 0 (the entry) */
  uint64_t local_bytes;
} Routine;

/* One copy of a function's body in the flat code. */
struct Frame {
  Routine *routine;
  const PtxFunction *function;
  bool is_entry;
  uint32_t first_slot;
  uint64_t local;
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

/* Slot that holds what must be added to addresses of the frame's local variables, 0: nothing. */
static inline uint32_t frame_base(const Frame *f)
{
  return f->routine->base;
}

void flow_decode(Decoder *d);
void flow_reconverge(Kernel *k);
void decode_instruction(Decoder *d, const PtxInstruction *source, Inst *in);

/* flow.c: what call.c needs of it */
Routine *flow_routine(Decoder *d, const PtxFunction *function); /* laid out behind the entry */
Inst *flow_append(Decoder *d, const PtxInstruction *source, Handler run);

/* call.c */
bool call_needs_stack(const Decoder *d, const PtxFunction *function); /* it cannot be inlined */
void call_decode(Decoder *d, const PtxInstruction *call, const PtxFunction *function,
                 const PtxOperand *results, const PtxOperand *arguments, const PtxOperand *address);
void call_return(Decoder *d, const PtxInstruction *source);
bool call_is_return(const Inst *in);
uint64_t call_address(const PtxModule *module, const PtxFunction *function);
void decode_stack(Decoder *d, int operation); /* alloca, stacksave, stackrestore */
void decode_local_address(Decoder *d, uint64_t offset, PtxType type);
/* print.c */
bool print_call(Decoder *d, const PtxInstruction *call, const PtxFunction *function,
                const PtxOperand *results, const PtxOperand *arguments);

void decode_branch(Decoder *d, int argument);
void decode_branch_table(Decoder *d, int argument);
void decode_exit(Decoder *d, int argument);
