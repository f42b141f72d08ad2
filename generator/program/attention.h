/* Attention as its family sees it; for the family's own files, as gemm.h is.
 *
 * A product of queries and keys, steps over its results (scores), a softmax over keys, and its product with values, in one
 * pass over the keys. Dims are [batch, head, row, key, column]; inputs of steps and outputs have strides over these. */
#pragma once
#include "generator/program/family.h"

enum { ATTENTION_BATCH, ATTENTION_HEAD, ATTENTION_ROW, ATTENTION_KEY, ATTENTION_COLUMN, ATTENTION_DIMS };

/* Anchors: the product, which steps over scores take; the result; and the log-sum-exp of each row's scores. */
enum { ATTENTION_PRODUCT, ATTENTION_RESULT, ATTENTION_SUM };

/* Queries, keys or values: strides over batch, head (of its own heads), row or key, and elements. */
typedef struct AttentionOperand {
  unsigned input; /* of inputs[] */
  const Symbolic *strides[4];
} AttentionOperand;

/* A key that is not within is hidden: `key - row`, or the key alone, is at most (at least) number + limit. */
typedef struct AttentionBound {
  bool from_row; /* key - row, not the key */
  bool least;    /* not below, else not above */
  const Symbolic *number;
  FusedOperand limit; /* IMMEDIATE 0, or what is loaded for each batch */
} AttentionBound;

/* Where a score lies, as steps over scores take it: row and key times a step each, and a number. */
typedef struct AttentionIndex {
  const Symbolic *row, *key, *number; /* NULL: no step takes it */
  NumberType
      type; /* that it is counted in: s32, or f32, where a conversion of each takes as long as an exponential */
} AttentionIndex;

#define ATTENTION_MOST_BOUNDS 4
#define ATTENTION_MOST_PAGE   256 /* rows */
#define ATTENTION_MOST_WIDTH  256 /* elements of values that one block adds up */
#define ATTENTION_FEW_ROWS    64  /* of a tile where there are few: of one warpgroup, or four warps */

/* Keys and values in pages of a cache: key t of a batch and head lies in row t % rows of the page that the table has at
 * t / rows. Strides of keys and values along keys are those of a page's rows. */
typedef struct AttentionPages {
  int64_t rows;                   /* of a page; 0: keys and values do not lie in pages */
  unsigned table;                 /* of inputs[] */
  const Symbolic *columns, *step; /* of the table: pages of a sequence, elements from one to the next */
  const Symbolic *count;          /* pages of the cache */
  const Symbolic *strides[2];     /* elements from page to page, of keys and of values */
  const Symbolic
      *scales[2]; /* the same of scales of theirs that lie in pages too; NULL: they have none such */
} AttentionPages;

/* Batches are sequences, whose rows of queries and results lie behind one another: row m of a sequence behind those of the ones before it.
 * How many keys a sequence has is loaded too. */
typedef struct AttentionSequences {
  bool packed; /* so it is; else nothing of this is */
  bool own;    /* keys and values are those of the rows, and end where these do */
  bool
      packed_keys; /* they lie behind one another by ends of their own; else each sequence has its own first ones, or its pages */
  bool ending;     /* masks count from a sequence's last row and last key */
  unsigned unread; /* of inputs[]: none, or ends of keys once more */
  unsigned ends,
      lengths; /* of inputs[]: ends of rows; ends of keys if these are packed, else how many there are. ends[b + 1] is that of b */
  const Symbolic *of_ends, *of_lengths; /* elements from one sequence's to the next one's */
} AttentionSequences;

/* Of the keys that a sequence's rows brought along, its last ones, each row sees those whose bit in [row of all, word] is set. */
typedef struct AttentionTree {
  bool taken;
  unsigned input; /* of inputs[] */
} AttentionTree;

/* Each batch has a new row of keys and values, which stands behind those that are seen of the cache and goes into it: one row of queries, or
 * of the heads that share keys, sees all of it. */
typedef struct AttentionJoined {
  bool taken;
  unsigned place;     /* of inputs[]: behind how many keys the row stands */
  unsigned bound;     /* of bounds[]: keys behind the new one are hidden */
  unsigned rows[2];   /* of inputs[]: of keys and of values */
  unsigned caches[2]; /* of outputs[]: the same */
  unsigned unread[2]; /* of inputs[], in pages: the table once more, which says where a row goes; else none */
} AttentionJoined;

typedef struct FusedAttention {
  const Symbolic *batches, *heads, *rows, *keys, *depth, *width; /* dims but depth, the elements of a query */
  const Symbolic *group; /* heads that share keys and values: the same number for all of them */
  AttentionOperand queries, key_matrix, values;
  NumberType type;      /* of all three, as they are multiplied */
  NumberType stored;    /* of keys and values in memory: `type`, or one of 8 bits */
  bool scaled;          /* values are multiplied by a scale for each key, */
  unsigned scale_input; /* of inputs[] */
  unsigned
      key_scale_input; /* the same of keys, where pages.scales[0] says so; others are steps over scores */
  uint64_t
      by_group; /* of inputs[], by bit: what heads that share keys share too, counted as heads of keys are */
  FusedOperand score; /* what softmax is of but for the scale: ANCHOR 0, the product, or a STEP */
  double scale;       /* multiplies scores */
  bool causal;        /* key <= row + diagonal is seen, no other */
  const Symbolic *diagonal;
  AttentionBound bounds[ATTENTION_MOST_BOUNDS]; /* all others */
  unsigned n_bounds;
  AttentionIndex *indices; /* of OPERAND_INDEX */
  unsigned n_indices;
  AttentionPages pages;
  AttentionSequences sequences;
  AttentionTree tree;
  AttentionJoined joined;
} FusedAttention;

/* Is the output a cache that a new row goes into? */
static inline bool attention_is_cache(const FusedAttention *attention, unsigned output)
{
  const AttentionJoined *joined = &attention->joined;
  return joined->taken && (output == joined->caches[0] || output == joined->caches[1]);
}

/* Is the input one that another says as well? */
static inline bool attention_is_unread(const FusedAttention *attention, unsigned input)
{
  const AttentionJoined *joined = &attention->joined;
  return joined->taken && (input == joined->unread[0] || input == joined->unread[1]);
}

#define ATTENTION_BITS (CHAR_BIT * sizeof(uint64_t)) /* of by_group */

/* What weights and values are multiplied in. Values of 8 bits are widened to f16 by one instruction for two of them, to bf16 by four, and both hold
 * them; of weights f16 has more bits. Values by scales of their keys may need the range of bf16. */
static inline NumberType attention_value_type(const FusedAttention *attention)
{
  bool easier = attention->stored != attention->type && attention->type == NUMBER_BF16 && !attention->scaled;
  return easier ? NUMBER_F16 : attention->type;
}
/* Steps give scores times their scale and 1 / ln 2; of a scale up to ln 2 the template multiplies where it subtracts, which costs nothing. */
static inline bool attention_scales_steps(const FusedAttention *attention)
{
  return attention->score.kind == OPERAND_STEP && attention->scale > G_LN2;
}

static inline bool attention_is_by_group(const FusedAttention *attention, unsigned input)
{
  return input < ATTENTION_BITS && attention->by_group >> input & 1;
}

/* What key - row is at least, as far as it is known; NULL: keys are seen from the first one on. */
static inline const Symbolic *attention_bounds_lowest(const AttentionBound *bounds, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    if (bounds[i].from_row && bounds[i].least && bounds[i].limit.kind == OPERAND_IMMEDIATE)
      return bounds[i].number;
  return NULL;
}

static inline const Symbolic *attention_lowest(const FusedAttention *attention)
{
  return attention_bounds_lowest(attention->bounds, attention->n_bounds);
}

/* Bounds as the families' visit and describe give them. */
void attention_visit_bounds(const AttentionBound *bounds, unsigned n, const BindingVisitor *visitor);
void attention_describe_bounds(const FusedOperator *op, const AttentionBound *bounds, unsigned n,
                               GString *text);

static inline const FusedAttention *attention_of(const FusedOperator *op)
{
  return op->binding;
}

/* Blocks among which the keys of a head are divided: `places` of them for all heads at most, `most` for one, with `least`
 * keys or more each. */
const Symbolic *attention_parts(const FusedAttention *attention, Arena *arena, int64_t places, int64_t most,
                                int64_t least);

/* Keys from a number on that is loaded, or known and the same for all rows, are hidden from all rows. */
static inline bool attention_bound_ends(const AttentionBound *bound)
{
  return !bound->least && (bound->limit.kind == OPERAND_INPUT || !bound->from_row);
}
