/* Functions of images: pooling of whole channels, and blocks of elements that become channels or come from them. */
#include "generator/front/expand_rows.h"
#include <string.h>

/* All dimensions behind batch and channels; 0: there are none, which was reported. */
static uint32_t spatial_axes(Expansion *at)
{
  const GraphTensor *x = expand_input(at, 0);
  if (x->rank > 2) return (1u << x->rank) - (1u << 2);
  expand_refuse(at, ERROR_INPUT, 0, "rank", "behind batch and channels there is at least one dimension",
                "%s takes tensors of rank 3 and more: `%s` has rank %u", expand_written(at)->op->name,
                x->name, x->rank);
  return 0;
}

static void expand_global(Expansion *at, OperatorId op)
{
  uint32_t axes = spatial_axes(at);
  if (axes) expand_give(at, 0, expand_reduce(at, op, "channel", expand_input(at, 0), axes));
}

void expand_global_max_pool(Expansion *at)
{
  expand_global(at, ONNX_ReduceMax);
}

void expand_global_average_pool(Expansion *at)
{
  expand_global(at, ONNX_ReduceMean);
}

void expand_global_lp_pool(Expansion *at)
{
  uint32_t axes = spatial_axes(at);
  int64_t p = graph_attribute(expand_written(at), "p")->integer;
  if (!axes) return;
  if (p < 1) {
    expand_refuse_attribute(at, ERROR_INPUT, "p", "1 or more", "there is no norm %d", (int)p);
    return;
  }
  GraphTensor *x = expand_widened(at, expand_input(at, 0));
  if (expand_failed(at)) return;
  GraphTensor *power = p == 2 ? expand(at, ONNX_Mul, "square", x, x) : expand(at, ONNX_Abs, "size", x, NULL);
  if (p > 2) power = expand(at, ONNX_Pow, "power", power, expand_number(at, "p", x->type, (double)p));
  GraphTensor *sum = expand_reduce(at, ONNX_ReduceSum, "sum", power, axes);
  if (p == 2) sum = expand(at, ONNX_Sqrt, "root", sum, NULL);
  if (p > 2) sum = expand(at, ONNX_Pow, "root", sum, expand_number(at, "q", x->type, 1 / (double)p));
  expand_give_narrowed(at, 0, sum);
}

/* ---- DepthToSpace, SpaceToDepth ---- */

typedef struct {
  const Symbolic *n, *channels, *height, *width, *block;
  int64_t size;        /* of a block's side, as `block` */
  bool channels_first; /* mode CRD: a block's elements stand behind their channel */
} Blocks;

static bool read_blocks(Expansion *at, Blocks *blocks)
{
  const GraphTensor *x = expand_input(at, 0);
  const GraphAttribute *size = graph_attribute(expand_written(at), "blocksize"),
                       *mode = graph_attribute_find(expand_written(at), "mode");
  if (x->rank != 4) {
    expand_refuse(at, ERROR_INPUT, 0, "rank", "batch, channels, height and width",
                  "%s takes tensors of rank 4: `%s` has rank %u", expand_written(at)->op->name, x->name,
                  x->rank);
    return false;
  }
  if (size->integer < 1 || size->integer > SYMBOLIC_DIMENSION_MAX) {
    expand_refuse_attribute(at, ERROR_INPUT, "blocksize", NULL, "there are no blocks of %" G_GINT64_FORMAT,
                            size->integer);
    return false;
  }
  *blocks = (Blocks){.n = x->shape[0],
                     .channels = x->shape[1],
                     .height = x->shape[2],
                     .width = x->shape[3],
                     .block = symbolic_constant(expand_arena(at), size->integer),
                     .size = size->integer,
                     .channels_first = mode && !strcmp(mode->text, "CRD")};
  return true;
}

/* An extent by the blocks' size; NULL: it is no multiple, which was reported. */
static const Symbolic *part_of(Expansion *at, const Symbolic *extent, int64_t by, const char *what)
{
  if (symbolic_divisible(extent, by, expand_facts(at)))
    return symbolic_binary(expand_arena(at), SYMBOLIC_DIV, extent, symbolic_constant(expand_arena(at), by));
  g_autofree char *text = symbolic_text(extent);
  expand_refuse(at, ERROR_INPUT, 0, "shape", "a symbol: declare `multiple` under `dims`",
                "the %s of `%s`, %s, is not known to be a multiple of %" G_GINT64_FORMAT, what,
                expand_input(at, 0)->name, text, by);
  return NULL;
}

static void give_blocks(Expansion *at, const Symbolic *const *apart, const int64_t *perm,
                        const Symbolic *const *together)
{
  GraphTensor *x = expand_reshape(at, "apart", expand_input(at, 0), apart, 6);
  x = expand_transpose(at, "turned", x, perm);
  expand_give(at, 0, expand_reshape(at, "together", x, together, 4));
}

void expand_depth_to_space(Expansion *at)
{
  Arena *arena = expand_arena(at);
  Blocks blocks;
  if (!read_blocks(at, &blocks)) return;
  const Symbolic *depth = part_of(at, blocks.channels, blocks.size * blocks.size, "channels"),
                 *b = blocks.block;
  if (!depth) return;
  const Symbolic *const first[6] = {blocks.n, depth, b, b, blocks.height, blocks.width},
                        *const last[6] = {blocks.n, b, b, depth, blocks.height, blocks.width};
  const Symbolic *const shape[4] = {blocks.n, depth, symbolic_mul(arena, blocks.height, b),
                                    symbolic_mul(arena, blocks.width, b)};
  if (blocks.channels_first)
    give_blocks(at, first, (int64_t[]){0, 1, 4, 2, 5, 3}, shape);
  else
    give_blocks(at, last, (int64_t[]){0, 3, 4, 1, 5, 2}, shape);
}

void expand_space_to_depth(Expansion *at)
{
  Arena *arena = expand_arena(at);
  Blocks blocks;
  if (!read_blocks(at, &blocks)) return;
  const Symbolic *rows = part_of(at, blocks.height, blocks.size, "height"), *b = blocks.block;
  const Symbolic *columns = rows ? part_of(at, blocks.width, blocks.size, "width") : NULL;
  if (!columns) return;
  const Symbolic *const apart[6] = {blocks.n, blocks.channels, rows, b, columns, b};
  const Symbolic *const shape[4] = {blocks.n, symbolic_mul(arena, blocks.channels, symbolic_mul(arena, b, b)),
                                    rows, columns};
  give_blocks(at, apart,
              blocks.channels_first ? (int64_t[]){0, 1, 3, 5, 2, 4} : (int64_t[]){0, 3, 5, 1, 2, 4}, shape);
}
