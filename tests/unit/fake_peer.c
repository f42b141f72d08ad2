/* A peer as a library, for test_measure_plugin.c: f32 products on the CPU, which is where the stand-in for
 * the driver keeps device memory. -DVERSION=N, -DNAME="..." and -DNO_LAUNCH spoil its table, -DNO_ENTRY
 * leaves it out. */
#include "include/adlgen/peer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION ADLGEN_PEER_VERSION
#endif
#ifndef NAME
#define NAME "fake"
#endif
#ifndef HAS_LAUNCH
#define HAS_LAUNCH 1
#endif
#ifndef ENTRY
#define ENTRY adlgen_peer_get
#endif

enum { RIGHT, UNPREPARED, UNLAUNCHED, N_VARIANTS };

typedef struct State {
  adlgen_peer_problem problem;
  adlgen_peer_operands operands;
  unsigned variant;
} State;

static unsigned count(const adlgen_peer_problem *problem, char *message, size_t bytes)
{
  if (problem->a.type == ADLGEN_PEER_F32 && problem->b.type == ADLGEN_PEER_F32 &&
      problem->d.type == ADLGEN_PEER_F32)
    return N_VARIANTS;
  snprintf(message, bytes, "only f32, not type %d", problem->a.type);
  return 0;
}

static const char *variant_name(const adlgen_peer_problem *problem, unsigned index)
{
  static const char *const names[N_VARIANTS] = {"right", "unprepared", "unlaunched"};
  return names[index];
}

static void *prepare(const adlgen_peer_problem *problem, unsigned index, const adlgen_peer_operands *operands,
                     char *message, size_t bytes)
{
  if (index == UNPREPARED || !operands->workspace) {
    snprintf(message, bytes, "no room for %d SMs", problem->sms);
    return NULL;
  }
  State *state = malloc(sizeof *state);
  *state = (State){*problem, *operands, index};
  return state;
}

static int launch(void *data, void *stream, char *message, size_t bytes)
{
  const State *state = data;
  const adlgen_peer_problem *p = &state->problem;
  const adlgen_peer_operands *o = &state->operands;
  if (state->variant == UNLAUNCHED) {
    snprintf(message, bytes, "out of order");
    return 7;
  }
  float scale = p->scaled ? *o->scale_a * *o->scale_b : 1;
  for (int64_t i = 0; i < p->batch; i++)
    for (int64_t r = 0; r < p->m; r++)
      for (int64_t c = 0; c < p->n; c++) {
        float sum = 0;
        for (int64_t k = 0; k < p->k; k++)
          sum += ((const float *)o->a)[i * p->a.batch_step + r * p->a.row_step + k * p->a.column_step] *
                 ((const float *)o->b)[i * p->b.batch_step + k * p->b.row_step + c * p->b.column_step];
        ((float *)o->d)[i * p->d.batch_step + r * p->d.row_step + c * p->d.column_step] = scale * sum;
      }
  return 0;
}

static void release(void *state)
{
  free(state);
}

const adlgen_peer *ENTRY(void);

const adlgen_peer *ENTRY(void)
{
  static const adlgen_peer table = {
      .version = VERSION,
      .name = NAME,
      .library = "made for tests 1.0",
      .count = count,
      .variant_name = variant_name,
      .prepare = prepare,
      .launch = HAS_LAUNCH ? launch : NULL,
      .release = release,
  };
  return &table;
}
