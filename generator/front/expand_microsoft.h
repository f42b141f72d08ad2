/* Between the bodies of operators of com.microsoft. */
#pragma once
#include "generator/front/expand.h"

/* ERROR_UNSUPPORTED by its name, if the input is there, the output wanted, the attribute above 0. */
void expand_refuse_input(Expansion *at, unsigned input, const char *name);
void expand_refuse_output(Expansion *at, unsigned output, const char *name);
void expand_refuse_flag(Expansion *at, const char *attribute);
/* x, with what is added to it where that is not NULL. */
GraphTensor *expand_added(Expansion *at, const char *part, GraphTensor *x, GraphTensor *more);
/* 0, 1, ... for each row of [batch, rows, elements] or [batch, heads, rows, elements]: [batch, rows], s32. */
GraphTensor *expand_positions(Expansion *at, GraphTensor *x);

/* Queries, keys and values of an operator, apart or behind one another in each row. */
typedef struct ExpandHeads {
  int64_t heads, kv_heads;
  GraphTensor *q, *k, *v;
  GraphTensor *joint; /* queries with keys behind them, which are turned together; NULL: they are apart */
  unsigned rank;      /* of operands whose rows hold all heads: [..., heads * size] */
} ExpandHeads;

/* An attribute that is a number of heads: 1 at least. */
int64_t expand_heads_attribute(Expansion *at, const char *name);
/* n parts of the sizes along an axis. */
void expand_split(Expansion *at, GraphTensor *x, int64_t axis, const int64_t *sizes, unsigned n,
                  GraphTensor **parts);
/* Without keys and values the query's rows hold them behind it; with `do_rotary` queries and keys stay joint. */
void expand_heads_unpack(Expansion *at, ExpandHeads *of);
/* Adds one vector for all three, if the input is there. */
void expand_heads_bias(Expansion *at, ExpandHeads *of, unsigned input);
/* false: the operator does not turn queries and keys, or lacks the angles, which is reported. */
bool expand_heads_turn(Expansion *at, unsigned cosine, unsigned sine);
/* The rows of so many heads, turned by angles [..., pairs]: cosines and sines. */
GraphTensor *expand_heads_turned(Expansion *at, const char *part, GraphTensor *x, int64_t heads,
                                 GraphTensor *const *angles);
/* Queries and keys of what was joint. */
void expand_heads_part(Expansion *at, ExpandHeads *of, GraphTensor *joint);

/* A cache that new rows go into: in the rows' own type, or of 8 bits with one scale. */
typedef struct ExpandCache {
  GraphTensor *memory; /* NULL: the input is absent */
  GraphTensor *scale;  /* one number; NULL: it is of the rows' type */
  NumberType type;     /* of rows */
} ExpandCache;

/* The cache at `input`, by an attribute that is NONE or PER_TENSOR and its scale; refuses what does not go together. */
ExpandCache expand_cache(Expansion *at, unsigned input, const char *attribute, unsigned scale,
                         const char *scale_name);
/* New rows as the cache has them; and what it has as the rows are. */
GraphTensor *expand_cache_rows(Expansion *at, const ExpandCache *cache, const char *part, GraphTensor *rows);
GraphTensor *expand_cache_widened(Expansion *at, const ExpandCache *cache, const char *part, GraphTensor *x);
