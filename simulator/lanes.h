/* Loops over lanes, written so that the compiler can turn them into vector code. */
#pragma once
#include "simulator/machine.h"

/* The best instruction set of the running machine is chosen when the program is loaded. Nothing is fused, so
 * all versions give the same bits. */
#if defined(__GLIBC__) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTORISED
#endif

/* A destination may be one of the sources: elementwise loops stay right, and ivdep spares the overlap test.
 */
#define EACH_LANE(BODY)                                                                                      \
  do {                                                                                                       \
    if (mask == FULL) {                                                                                      \
      _Pragma("GCC ivdep") for (unsigned l = 0; l < LANES; l++)                                              \
      {                                                                                                      \
        BODY;                                                                                                \
      }                                                                                                      \
    } else {                                                                                                 \
      for_lanes(l, mask)                                                                                     \
      {                                                                                                      \
        BODY;                                                                                                \
      }                                                                                                      \
    }                                                                                                        \
  } while (0)

/* C: what a slot's lane holds; T: the type the expression sees; R: its width when written back */
#define UNARY(name, C, T, R, E)                                                                              \
  VECTORISED static Step name(Warp *w, const Inst *in, uint32_t mask)                                        \
  {                                                                                                          \
    const C *pa = operand(w, in->a[0]);                                                                      \
    C *pd = operand(w, in->d[0]);                                                                            \
    EACH_LANE(T a = (T)pa[l]; pd[l] = (C)(R)(E));                                                            \
    return STEP_NEXT;                                                                                        \
  }
#define BINARY(name, C, T, R, E)                                                                             \
  VECTORISED static Step name(Warp *w, const Inst *in, uint32_t mask)                                        \
  {                                                                                                          \
    const C *pa = operand(w, in->a[0]), *pb = operand(w, in->a[1]);                                          \
    C *pd = operand(w, in->d[0]);                                                                            \
    EACH_LANE(T a = (T)pa[l]; T b = (T)pb[l]; pd[l] = (C)(R)(E));                                            \
    return STEP_NEXT;                                                                                        \
  }
#define TERNARY(name, C, T, R, E)                                                                            \
  VECTORISED static Step name(Warp *w, const Inst *in, uint32_t mask)                                        \
  {                                                                                                          \
    const C *pa = operand(w, in->a[0]), *pb = operand(w, in->a[1]), *pc = operand(w, in->a[2]);              \
    C *pd = operand(w, in->d[0]);                                                                            \
    EACH_LANE(T a = (T)pa[l]; T b = (T)pb[l]; T c = (T)pc[l]; pd[l] = (C)(R)(E));                            \
    return STEP_NEXT;                                                                                        \
  }

/* 0/1 bytes of 32 lanes to a lane mask: eight at a time by one multiplication. */
static inline uint32_t pack_mask(const uint8_t *bytes)
{
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; i++) {
    uint64_t x;
    memcpy(&x, bytes + i * 8, 8);
    result |= (uint32_t)(x * 0x0102040810204080ull >> 56) << (i * 8);
  }
  return result;
}
