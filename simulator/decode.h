/* Decoding: one row per instruction; each row's function takes the modifiers and operands it understands.
 * What nobody has taken at the end is an unsupported modifier, so nothing is ever ignored by oversight. */
#pragma once
#include "simulator/machine.h"

typedef struct Frame Frame; /* one inlined copy of a function */

typedef struct Decoder {
  const PtxModule *module;
  Kernel *kernel;
  const PtxFunction *function; /* the entry */
  const PtxInstruction *source;
  Inst *in;
  Frame *frame;
  uint64_t taken; /* bit per part of the opcode */
  bool failed;
  unsigned n_errors;
  GHashTable *reported; /* PtxInstruction */
  GHashTable *words;    /* modifiers met so far that PTX has */
  GError **error;
  GArray *code;      /* Inst */
  GArray *constants; /* slots of 128 bytes */
  GHashTable *constant_index;
  GArray *reads, *writes, *specials;
  GPtrArray *routines; /* Routine: the entry and what it calls */
  GHashTable *shared;  /* PtxFunction -> uint64_t: where its own shared variables begin */
  GByteArray *slot_bytes;
  bool allocates;       /* alloca */
  bool takes_selectors; /* the instruction reads parts of registers: %r1.b2 */
} Decoder;

typedef void (*DecodeFunction)(Decoder *d, int argument);

typedef struct OpcodeRow {
  const char *name;     /* first part of the opcode, or first parts joined by dots ("cp.async") */
  unsigned least, most; /* operands */
  DecodeFunction decode;
  int argument;
} OpcodeRow;

extern const OpcodeRow opcode_rows[];
extern const unsigned opcode_row_count;

/* The instruction is PTX, but not supported; or it is no PTX. The first report of an instruction counts. */
void decode_fail(Decoder *d, const char *format, ...) G_GNUC_PRINTF(2, 3);
void decode_wrong(Decoder *d, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Takes the modifier if it stands in the opcode. */
bool take(Decoder *d, const char *modifier);
bool take_one(Decoder *d, const char *const *modifiers, int *which); /* NULL-terminated; false: none stands */
void take_hints(Decoder *d);   /* cache operators, eviction priorities, prefetch sizes */
PtxType take_type(Decoder *d); /* next untaken type, TYPE_NONE if there is none */
PtxType need_type(Decoder *d);
Rounding take_rounding(Decoder *d, Rounding otherwise);

unsigned operand_count(const Decoder *d);
const PtxOperand *operand_at(Decoder *d, unsigned i);
/* An operand as a source or destination of a type; width must match unless wide registers are allowed. */
uint32_t source(Decoder *d, const PtxOperand *o, PtxType type);
uint32_t destination(Decoder *d, const PtxOperand *o, PtxType type);
uint32_t source_at(Decoder *d, unsigned i, PtxType type);
uint32_t destination_at(Decoder *d, unsigned i, PtxType type);
uint32_t source_wide(Decoder *d, const PtxOperand *o, PtxType type,
                     unsigned *bytes); /* register may be wider */
uint32_t destination_wide(Decoder *d, const PtxOperand *o, PtxType type, unsigned *bytes);
uint32_t constant(Decoder *d, uint64_t bits, unsigned bytes);
int64_t immediate_at(Decoder *d, unsigned i);
bool is_immediate(const PtxOperand *o);
/* [base + offset]: base into in->a[0] (64-bit lanes unless in->wide is false), offset into in->immediate.
 * space: what the instruction says, and then what it is; NULL: nothing is asked. */
uint32_t address(Decoder *d, const PtxOperand *o, int64_t *offset, bool *is64, Space *space);
/* Elements of a vector operand, or the operand itself. */
unsigned elements(const PtxOperand *o, const PtxOperand **items);
uint32_t *new_list(Decoder *d, unsigned n);
unsigned type_slots(PtxType type);
/* The operand is the address of a variable of a called function: its offset from frame_base. */
bool stack_variable(Decoder *d, const PtxOperand *o, uint64_t *offset);
