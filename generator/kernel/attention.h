/* Between the files that write attention's kernels. */
#pragma once
#include "generator/kernel/kernel.h"
#include "generator/program/attention.h"

enum { ATTENTION_RANK = 4 }; /* of all tensors: batch, head, row or key, element */

typedef struct {
  IrExpr *at[ATTENTION_DIMS]; /* where the tile begins, by dim */
  IrExpr *shift;              /* of grouped rows: what is added to a row of the sequence; NULL: nothing */
  int64_t rows, columns;
  unsigned inner; /* the tile's second dim: keys or columns */
} AttentionPlace;

/* Are the heads that share keys and values rows of a tile? Then it has `group` of them for each row of a sequence. */
bool attention_is_grouped(const KernelBuild *build);
IrExpr *attention_group(KernelBuild *build);
/* Rows that each head of the group has in turn, head by head, and again where a tile has more; 0: the heads of a row lie side by side. */
int64_t attention_rows_of_head(const KernelBuild *build);
/* Of a tile of such rows that begins with row `first` of all: which row of the sequence and which head of the group each is. */
IrExpr *attention_grouped_row(StepScope *scope, IrExpr *first);
IrExpr *attention_grouped_head(StepScope *scope, IrExpr *first);
/* A tile of rows x columns that the operation makes of a and, unless it is NULL, b. */
IrExpr *attention_emit(StepScope *scope, IrOpcode code, NumberType element, int64_t rows, int64_t columns,
                       IrExpr *a, IrExpr *b);
/* Of a tile's rows (dim 0) or keys (dim 1): where they are, from `first` on. */
IrExpr *attention_numbers(StepScope *scope, unsigned dim, IrExpr *first);
/* 0, 1, .. along a tile's rows (dim 0) or keys (dim 1). */
IrExpr *attention_counted(StepScope *scope, unsigned dim, NumberType element);
/* Where the place's tile lies in a tensor, of so many rows and columns; along what has no step that is 0. But tiles of a cluster may lie
 * behind the one row of a result, which only their coordinate tells. */
IrExpr *attention_corner(StepScope *scope, IrValue *tensor, int64_t *extent, bool result);
/* A parameter of a sub-kernel, s32. */
IrExpr *attention_number(StepScope *scope, const char *name);
/* A number that is loaded, of 32 bits: beyond them nothing changes. */
IrExpr *attention_load_number(StepScope *scope, const char *name, IrExpr *access, NumberType element);
/* The page that a batch's key lies in; as many as there are for keys from `seen` on, and for what is no page. */
IrExpr *attention_page(StepScope *scope, IrExpr *batch, IrExpr *key, IrExpr *seen);
/* An input of steps where the place's tile lies. */
IrExpr *attention_load(StepScope *scope, unsigned input);
/* Parameters of a sub-kernel: a tile of f32; batch, head and row of the place, and the key if `keys`. */
IrExpr *attention_add_tile(StepScope *scope, const char *name, int64_t rows, int64_t columns);
void attention_add_place(StepScope *scope, AttentionPlace *place, bool keys);
/* The sub-kernel that makes scores of a tile of products; false: an error. */
bool attention_write_score(KernelBuild *build);
/* Scores of the products (anchor 0) at the place, without bounds; in powers of 2 where the template's own scale is ln 2. NULL: an error. */
IrExpr *attention_write_scores(StepScope *scope);
/* A tree's words, [row of all sequences, 1, 1, word]. */
IrValue *attention_add_tree(KernelBuild *build, unsigned position);
/* Of a tile of scores, for trees: which of its sequence's tiles of rows it is of, how many more keys than rows the sequence has (those behind are
 * what its rows brought along), where its rows begin and how many there are. */
typedef struct {
  IrExpr *tile, *more, *begin, *length;
} AttentionOwn;
/* Scores where a tree, if there is one, lets them be, else -infinity. */
IrExpr *attention_branched(StepScope *scope, const AttentionOwn *own, IrExpr *scores);
/* The sub-kernel that gives what is subtracted of rows whose largest scores are given. */
void attention_write_start(KernelBuild *build);
/* The sub-kernel that gives a tile of keys or values in the type that they are multiplied in, each key's by its scale if they have some (`input`,
 * if `scaled`; in pages if `paged`). */
void attention_write_widened(KernelBuild *build, const char *name, NumberType element, const char *columns,
                             bool scaled, bool paged, unsigned input);
/* The tensor of new keys (0) or values (1), or the cache that they go into; and the sub-kernels that take them. */
IrValue *attention_add_joined(KernelBuild *build, unsigned i, bool cache);
bool attention_write_joined(KernelBuild *build);
