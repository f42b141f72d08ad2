/* What a warp holds when it reaches a line: breaks, and the registers, fragments and tiles that are shown.
 *
 *   break   [FILE.ptx:]LINE            the first instruction at or behind the line
 *   watch   %r5  %r5:f16  %f0..%f3     registers of the entry, in their declared type or another
 *           fragment:SHAPE:TYPE:REGS   SHAPE m16nN: an accumulator; m16kN: a left, kNn8: a right operand
 *           shared:AT:RxC:TYPE[:swizzleB][:pitchB]     AT a number or %register, + bytes
 *           global:BUFFER[+BYTES]:RxC:TYPE[:pitchB]
 *
 * Stops are JSON from the start; the text is made from it, so both always say the same. */
#pragma once
#include "simulator/machine.h"

typedef enum { WATCH_REGISTERS, WATCH_FRAGMENT, WATCH_SHARED, WATCH_GLOBAL } WatchKind;

typedef struct WatchRegister {
  const char *name;
  uint32_t slot;
  PtxType type; /* as declared */
} WatchRegister;

typedef struct Watch {
  const char *text;
  WatchKind kind;
  bool typed;        /* type was given */
  NumberType type;   /* of the values shown */
  GArray *registers; /* WatchRegister */
  char form;         /* of a fragment: 'n' accumulator, 'a' left, 'b' right operand */
  unsigned rows, columns;
  bool at_register;     /* registers[0] gives the address */
  uint64_t at;          /* bytes added to it */
  const Buffer *buffer; /* global */
  unsigned swizzle;     /* bytes; 0: none */
  uint64_t pitch;       /* bytes from row to row */
} Watch;

typedef struct Break {
  const char *text;
  unsigned line; /* of its instructions */
  uint64_t hits; /* by the chosen warp */
  bool chosen;   /* block and warp are known */
  uint32_t block[3], warp;
} Break;

/* ERROR_USAGE with what is wrong with the text. */
bool watch_parse(const Run *run, const Kernel *kernel, const char *text, Watch *watch, GError **error);
void watch_clear(void *watch);
/* The registers an instruction of the entry names, in its order; none for other functions. */
void watch_registers_of(const Kernel *kernel, const PtxInstruction *source, GArray *registers);
/* What the warp holds, as JSON. lane: one that is active. */
json_t *watch_value(const Watch *watch, const Warp *w, unsigned lane);
