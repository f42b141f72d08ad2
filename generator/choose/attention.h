/* Between attention's chooser and its judge. */
#pragma once
#include "generator/choose/candidate.h"
#include "generator/choose/choose.h"

/* NULL: kernels exist for the problem, whatever its tensors' addresses. Else why not; static, or in the problem's arena. */
const char *attention_refuse(const Problem *problem);
/* Columns of a tile: whole steps of products; where some are added, rows that swizzle. What is added is zero. */
int64_t attention_tile_width(NumberType type, int64_t width);
/* What all templates of attention are told of operands: type, elements of heads of keys and of values and of their tiles, of which
 * `columns` are as wide as values, and whether rows see the keys up to their own. */
void attention_set_heads(Choice *choice, NumberType type, const Symbolic *depth, const Symbolic *width,
                         int64_t columns, bool causal);
/* The same of operands that have columns of one kind. */
void attention_set_columns(Choice *choice, NumberType type, const Symbolic *depth, bool causal);
/* Clocks of the tensor cores in a second. */
double attention_clock(const Gpu *gpu);
/* Do the passes let the tile be? Sums that are alive twice, before and behind their scaling, may be too many: then all
 * passes tell. */
bool attention_is_legal(const Problem *problem, Choice *choice, const char **why);
typedef struct AttentionTrial {
  const Problem *problem;
  Choice *choice;
  unsigned variant;                                                            /* of the family's own */
  void (*set_tile)(const struct AttentionTrial *trial, const Candidate *tile); /* gives it to the choice */
  const char **why;                                                            /* there is none */
  bool any;                                                                    /* legal or not */
} AttentionTrial;

/* The first tile of those that the template tries that the passes let be; if --set wants what none of them can, the first
 * of all, so that the message says what does not fit. */
bool attention_pick(AttentionTrial *trial, const char *template_name, const int64_t *facts);
/* Adds variants, or reports that no tile of `what` fits. */
bool attention_choose(Chooser *chooser, bool (*add)(Chooser *chooser, const char **why), const char *what);
/* Clocks of the chooser's first variant at typical extents. */
double attention_clocks(const Problem *problem, const Choice *choice);
