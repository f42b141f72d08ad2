/* Bodies of control flow: nodes of a graph that an attribute holds, copied to where the node stands that has it. */
#pragma once
#include "generator/front/expand.h"

typedef struct ExpandBody {
  Expansion *x;
  const GraphBody *body;
  GHashTable *fixed; /* tensor of the body, or that it captured -> what stands in its place each time */
  bool *placed;      /* by its nodes: the results are among these */
} ExpandBody;

/* The body of an attribute, which has so many inputs and results. false: reported. */
bool expand_open_body(ExpandBody *b, Expansion *x, const char *attribute, unsigned n_inputs,
                      unsigned n_outputs);
void expand_close_body(ExpandBody *b);
/* Copies nodes that give the same each time and are worth a launch of their own, in front of a loop: neither views nor elementwise
 * ones, which what reads them computes on its way. */
void expand_body_once(ExpandBody *b);
/* Copies the others. outputs: as many as it has. */
void expand_body(ExpandBody *b, GraphTensor *const *inputs, GraphTensor **outputs);
/* Some node must know what follows from an input of the body: one of `varies`, by its inputs. */
bool expand_body_must_know(const ExpandBody *b, const bool *varies);
