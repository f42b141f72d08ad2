/* PTX text as a tree: what the reader found, before any instruction is understood.
 *
 * Immutable once parsed, owned by the module's arena, so several runs may share one module. */
#pragma once
#include "base/arena.h"
#include "base/diagnostic.h"
#include <stdbool.h>
#include <stdint.h>

/* X(ENUM, "text", bytes) */
#define PTX_TYPES(X)                                                                                         \
  X(PRED, "pred", 4)                                                                                         \
  X(B8, "b8", 1)                                                                                             \
  X(U8, "u8", 1)                                                                                             \
  X(S8, "s8", 1)                                                                                             \
  X(B16, "b16", 2)                                                                                           \
  X(U16, "u16", 2)                                                                                           \
  X(S16, "s16", 2)                                                                                           \
  X(F16, "f16", 2)                                                                                           \
  X(BF16, "bf16", 2)                                                                                         \
  X(B32, "b32", 4)                                                                                           \
  X(U32, "u32", 4)                                                                                           \
  X(S32, "s32", 4)                                                                                           \
  X(F32, "f32", 4)                                                                                           \
  X(TF32, "tf32", 4)                                                                                         \
  X(F16X2, "f16x2", 4)                                                                                       \
  X(BF16X2, "bf16x2", 4)                                                                                     \
  X(U16X2, "u16x2", 4)                                                                                       \
  X(S16X2, "s16x2", 4)                                                                                       \
  X(E4M3, "e4m3", 1)                                                                                         \
  X(E5M2, "e5m2", 1)                                                                                         \
  X(E4M3X2, "e4m3x2", 2)                                                                                     \
  X(E5M2X2, "e5m2x2", 2)                                                                                     \
  X(B64, "b64", 8)                                                                                           \
  X(U64, "u64", 8)                                                                                           \
  X(S64, "s64", 8)                                                                                           \
  X(F64, "f64", 8)                                                                                           \
  X(F32X2, "f32x2", 8)                                                                                       \
  X(B128, "b128", 16)                                                                                        \
  X(S4, "s4", 1)                                                                                             \
  X(U4, "u4", 1)                                                                                             \
  X(B1, "b1", 1)

typedef enum {
#define X(id, name, bytes) TYPE_##id,
  PTX_TYPES(X)
#undef X
      TYPE_NONE
} PtxType;

unsigned ptx_type_bytes(PtxType type);
const char *ptx_type_name(PtxType type);
PtxType ptx_type_parse(const char *name); /* without the dot; TYPE_NONE if unknown */

typedef enum {
  SPACE_GENERIC,
  SPACE_GLOBAL,
  SPACE_SHARED,
  SPACE_CLUSTER,
  SPACE_LOCAL,
  SPACE_PARAM,
  SPACE_CONST
} Space;

typedef enum { SYMBOL_REGISTER, SYMBOL_RANGE, SYMBOL_VARIABLE, SYMBOL_LABEL, SYMBOL_FUNCTION } SymbolKind;

typedef struct PtxFunction PtxFunction;
typedef struct PtxSymbol PtxSymbol;

/* An address in an initialiser: known when the module's variables have their places. */
typedef struct PtxRelocation {
  uint64_t offset; /* in the variable */
  unsigned bytes;
  uint64_t mask; /* of the address, for the form 0xff00(name); shifted down to bit 0 */
  int64_t addend;
  bool generic; /* generic(name): the address in the generic space */
  const char *name;
  PtxSymbol *symbol;
  Mark mark;
} PtxRelocation;

struct PtxSymbol {
  SymbolKind kind;
  const char *name;
  PtxType type;
  Mark mark;
  /* register: first 32-lane slot; 64-bit registers hold two slots. range: number of registers. */
  unsigned slot, count;
  /* variable */
  Space space;
  uint64_t bytes, align;
  unsigned vector; /* elements of its type side by side: .v2, .v4 */
  bool is_extern, is_parameter, is_special;
  uint8_t *init;              /* bytes of the initialiser, NULL: zero */
  uint64_t offset;            /* laid out by the reader: shared, const, param and local variables */
  PtxRelocation *relocations; /* of the initialiser */
  unsigned n_relocations;
  unsigned position;   /* label: index of the instruction that follows */
  PtxSymbol **targets; /* label of a .branchtargets or .calltargets list */
  unsigned n_targets;
  PtxFunction *function;
  PtxSymbol *next_shared; /* in PtxFunction.shared */
};

typedef enum {
  OPERAND_REGISTER,
  OPERAND_INTEGER,
  OPERAND_FLOAT,
  OPERAND_SYMBOL,  /* variable, label or function */
  OPERAND_VECTOR,  /* {a, b} */
  OPERAND_ADDRESS, /* [base+offset] or [base, {coordinates}] */
  OPERAND_PAIR,    /* a|b */
  OPERAND_LIST,    /* (a, b) of a call */
  OPERAND_SINK     /* _ */
} PtxOperandKind;

typedef struct PtxOperand PtxOperand;
struct PtxOperand {
  PtxOperandKind kind;
  bool negated; /* !%p */
  bool single;  /* float: written as 0f........ */
  const char *name;
  const char *selector; /* parts of a register for a video instruction: "b2", "h10"; NULL: all of it */
  PtxSymbol *symbol;
  int64_t value; /* integer; float: bits of the double; address: offset */
  double number;
  PtxOperand *items; /* vector, list, pair; address: [0] base, [1] coordinates, [2] more */
  unsigned n;
  Mark mark;
};

typedef struct PtxInstruction {
  Mark mark;
  const char *text;   /* opcode as written, "ld.global.v4.f32" */
  const char **parts; /* "ld", "global", "v4", "f32" */
  unsigned n_parts;
  const PtxSymbol *guard; /* NULL: always */
  bool guard_negated;
  PtxOperand *operands;
  unsigned n_operands;
} PtxInstruction;

struct PtxFunction {
  const char *name;
  Mark mark;
  bool is_entry, has_body, address_taken;
  uint8_t *slot_bytes; /* per slot: width of the register that begins there; 1: predicate, 0: it goes on */
  PtxSymbol **parameters, **results;
  unsigned n_parameters, n_results;
  PtxInstruction *code;
  unsigned n_code, n_slots;
  uint64_t parameter_bytes, local_bytes, shared_bytes;
  PtxSymbol *shared; /* its variables there, the last first */
  uint64_t shared_align;
  unsigned max_threads[3], required_threads[3], cluster[3], max_registers, min_blocks;
};

typedef struct PtxModule {
  Arena *arena;
  Source *source;
  unsigned version; /* major * 10 + minor */
  const char *target;
  PtxFunction **functions;
  unsigned n_functions;
  PtxSymbol **variables; /* module scope: global, const, shared */
  unsigned n_variables;
  uint64_t shared_bytes, const_bytes;
  uint64_t dynamic_align; /* of the shared memory that the launch adds, 0: none */
} PtxModule;

/* Parses; the module keeps a reference on source. ERROR_INPUT with the place of the first fault. */
PtxModule *ptx_parse(Source *source, GError **error);
void ptx_module_free(PtxModule *module);
bool ptx_is_opcode(const char *word);   /* the first part of some instruction of PTX, run here or not */
bool ptx_is_modifier(const char *word); /* a later part of one: a type, or what stands between */
PtxFunction *ptx_find_function(const PtxModule *module, const char *name);
