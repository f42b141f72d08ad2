/* Checks of every executed instruction: undefined values, registers of products in flight. */
#pragma once
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
  for (unsigned i = 0; i < in->n_writes; i++) {
    uint32_t *u = &w->undefined[in->writes[i]];
    *u = (*u & ~mask) | (undefined & mask);
  }
}

/* A value that decides something: where memory is touched, what is stored to an output. */
void check_value(Warp *w, const Inst *in, uint32_t id, uint32_t mask, const char *what);

/* A register packed from parts, some of them undefined: undefined is counted per register, and compilers
 * leave upper parts that nobody uses without a value. So in foreign code the lowest part decides. any: lanes
 * in which some part is undefined. */
static inline uint32_t packed_undefined(const Warp *w, uint32_t lowest, uint32_t any)
{
  return w->block->cluster->run->ours ? any : lowest;
}
