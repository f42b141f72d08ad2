/* A peer as a library, for test_measure_plugin.c: f32 products, and graphs of one Relu, on the CPU, which is
 * where the stand-in for the driver keeps device memory. -DVERSION=N, -DNAME="..." and -DNO_LAUNCH spoil its
 * table, -DNO_ENTRY leaves it out, -DHAS_PRODUCTS=0 and -DHAS_GRAPHS=0 what it takes. */
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

#ifndef HAS_PRODUCTS
#define HAS_PRODUCTS 1
#endif
#ifndef HAS_GRAPHS
#define HAS_GRAPHS 1
#endif

enum { RIGHT, UNPREPARED, UNLAUNCHED, N_VARIANTS };

typedef struct State {
  adlgen_peer_problem problem;
  adlgen_peer_operands operands;
  unsigned variant;
  /* Of a graph: */
  const float *x;
  float *y, *own; /* its result goes to `own` first */
  size_t n;
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
  *state = (State){.problem = *problem, .operands = *operands, .variant = index};
  return state;
}

static int launch(void *data, void *stream, char *message, size_t bytes)
{
  const State *state = data;
  for (size_t i = 0; i < state->n; i++)
    state->own[i] = state->x[i] > 0 ? state->x[i] : 0;
  if (state->own) return 0;
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

static void release(void *data)
{
  State *state = data;
  free(state->own);
  free(state);
}

/* ---- graphs ---- */

static unsigned graph_count(const adlgen_peer_graph *graph, char *message, size_t bytes)
{
  if (strstr(graph->json, "\"op\":\"Relu\"") && graph->n_tensors == 2) return 1;
  snprintf(message, bytes, "%s: only Relu, not %s", graph->name, graph->json);
  return 0;
}

static const char *graph_variant_name(const adlgen_peer_graph *graph, unsigned index)
{
  return "relu";
}

static void *graph_prepare(const adlgen_peer_graph *graph, unsigned index, void *const *addresses,
                           char *message, size_t bytes)
{
  const char *shape = strstr(graph->json, "\"shape\":[");
  State *state = calloc(1, sizeof *state);
  state->n = (size_t)strtol(shape + strlen("\"shape\":["), NULL, 10);
  state->x = addresses[strcmp(graph->tensors[0], "A") != 0];
  state->y = addresses[strcmp(graph->tensors[0], "D") != 0];
  state->own = calloc(state->n, sizeof *state->own);
  return state;
}

static int deliver(void *data, void *stream, char *message, size_t bytes)
{
  const State *state = data;
  for (size_t i = 0; i < state->n; i++)
    state->y[i] = state->own[i];
  return 0;
}

const adlgen_peer *ENTRY(void);

const adlgen_peer *ENTRY(void)
{
  static const adlgen_peer table = {
      .version = VERSION,
      .name = NAME,
      .library = "made for tests 1.0",
      .count = HAS_PRODUCTS ? count : NULL,
      .variant_name = variant_name,
      .prepare = prepare,
      .graph_count = HAS_GRAPHS ? graph_count : NULL,
      .graph_variant_name = graph_variant_name,
      .graph_prepare = graph_prepare,
      .deliver = deliver,
      .launch = HAS_LAUNCH ? launch : NULL,
      .release = release,
  };
  return &table;
}
