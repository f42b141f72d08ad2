/* Checks of every executed instruction: undefined values, registers of products in flight. */
#pragma once
#include "simulator/definedness.h"
#include "simulator/machine.h"

/* The rare path: some register of the instruction is in flight. */
void check_in_flight(Warp *w, const Inst *in, uint32_t mask);
void check_undefined_guard(Warp *w, const Inst *in, uint32_t mask);

static inline void check_guard(Warp *w, const Inst *in, uint32_t mask)
{
  if (in->guard != OPERAND_NONE && undefined_lanes(w, in->guard) & mask) check_undefined_guard(w, in, mask);
}

static inline void check_before(Warp *w, const Inst *in, uint32_t mask)
{
  if (w->write_time) {
    uint32_t flying = 0;
    for (unsigned i = 0; i < in->n_reads; i++)
      flying |= w->in_flight[in->reads[i]];
    for (unsigned i = 0; i < in->n_writes; i++) {
      flying |= w->in_flight[in->writes[i]];
      if (!(in->flags & INST_ASYNC)) w->write_time[in->writes[i]] = w->time;
    }
    if (flying && !(in->flags & INST_ASYNC)) check_in_flight(w, in, mask);
  }
  if (in->flags & INST_CUSTOM) return;
  uint32_t undefined = 0;
  for (unsigned i = 0; i < in->n_reads; i++)
    undefined |= w->undefined[in->reads[i]];
  if (undefined & mask) {
    spread_undefined(w, in, mask, undefined);
    return;
  }
  for (unsigned i = 0; i < in->n_writes; i++)
    w->undefined[in->writes[i]] &= ~mask;
}

/* A value that decides something: where memory is touched, what is stored to an output. */
void check_value(Warp *w, const Inst *in, uint32_t id, uint32_t mask, const char *what);
