/* Attention: tiles of rows and keys, of which the passes, run dry, say which there are and the price which is best. A
 * variant for operands that TMA or whole vectors copy comes first, then one for any. */
#include "generator/choose/attention.h"
#include "generator/program/attention.h"
#include <math.h>

#define STEP_BYTES   32 /* that one product takes of a row, along k */
#define ROW_BYTES    64 /* of a row in shared memory that swizzles */
#define VECTOR_BYTES 16 /* of the widest copy, and what TMA's strides and addresses are multiples of */

typedef struct Tile {
  unsigned rows, keys, stages;
} Tile;

/* Large ones first: of two that take as long the first is taken. */
static const Tile tiles[] = {{128, 128, 2}, {128, 64, 2}, {64, 128, 2}, {64, 64, 2},
                             {64, 64, 1},   {64, 32, 1},  {32, 32, 1}};

/* ---- price ---- */

static double clock_hertz(const Gpu *gpu)
{
  return (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6;
}

static double typical(const Problem *problem, const Symbolic *extent)
{
  return (double)choose_typical(problem, extent);
}

static double operand_bytes(const FusedAttention *attention)
{
  return (double)number_bits(attention->type) / CHAR_BIT;
}

/* Through device memory, each element once. */
static double memory_clocks(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  const Gpu *gpu = problem->gpu;
  double matrices = typical(problem, attention->batches) * typical(problem, attention->heads),
         shared = matrices / typical(problem, attention->group), depth = typical(problem, attention->depth),
         width = typical(problem, attention->width);
  double elements = matrices * typical(problem, attention->rows) * (depth + width) +
                    shared * typical(problem, attention->keys) * (depth + width);
  double bandwidth = gpu->memory_bandwidth_read > 0 ? gpu->memory_bandwidth_read : gpu->memory_bandwidth;
  return bandwidth > 0 ? elements * operand_bytes(attention) / bandwidth * clock_hertz(gpu) : 0;
}

#define ROWS_OF_WARP 16 /* of a tile that warps share */

/* Schedulers of an SM have tensor cores of their own: a tile of few warps leaves some idle. */
static double busy_share(const Gpu *gpu, double rows)
{
  double schedulers = gpu_fact(gpu, "limits.schedulers");
  return schedulers > 0 ? fmin(1, rows / ROWS_OF_WARP / schedulers) : 1;
}

/* Products at the tensor cores' rate, of whole tiles; of the busiest SM. */
static double product_clocks(const Problem *problem, double rows, double keys)
{
  const FusedAttention *attention = attention_of(problem->op);
  const Gpu *gpu = problem->gpu;
  unsigned budget = problem->options ? problem->options->sm_budget : 0, sms = budget ? budget : gpu->sm_count;
  double peak = gpu_peak(gpu, attention->type);
  double rate = peak > 0 ? peak / clock_hertz(gpu) / gpu->sm_count : gpu->model->default_product;
  double down = ceil(typical(problem, attention->rows) / rows),
         across = ceil(typical(problem, attention->keys) / keys);
  double work = typical(problem, attention->batches) * typical(problem, attention->heads) * down;
  double seen = attention->causal ? (across + 1) / 2 : across;
  double tile = 2 * rows * keys * (typical(problem, attention->depth) + typical(problem, attention->width));
  return ceil(work / sms) * seen * tile / rate / busy_share(gpu, rows);
}

double attention_clocks(const Problem *problem, const Choice *choice)
{
  double rows = (double)choice_int(choice, "rows", 1), keys = (double)choice_int(choice, "keys", 1);
  return fmax(memory_clocks(problem), product_clocks(problem, rows, keys));
}

/* ---- variants ---- */

static bool require_vectors(const Problem *problem, Choice *choice)
{
  const FusedOperator *op = problem->op;
  const FusedAttention *attention = attention_of(op);
  const AttentionOperand *const operands[] = {&attention->queries, &attention->key_matrix,
                                              &attention->values};
  int64_t vector = number_elements(attention->type, VECTOR_BYTES);
  for (unsigned i = 0; i < G_N_ELEMENTS(operands); i++)
    for (unsigned d = 0; d + 1 < G_N_ELEMENTS(operands[i]->strides); d++)
      if (!choose_require_multiple(problem, choice, operands[i]->strides[d], vector)) return false;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!choose_require_align(problem, choice, op->inputs[i].tensor, VECTOR_BYTES)) return false;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!choose_require_align(problem, choice, op->outputs[i].tensor, VECTOR_BYTES)) return false;
  return true;
}

/* Columns of a tile: whole steps of products; where some are added, rows that swizzle. What is added is zero. */
static int64_t tile_width(const FusedAttention *attention, int64_t width)
{
  int64_t step = number_elements(attention->type, STEP_BYTES),
          row = number_elements(attention->type, ROW_BYTES);
  return width % step == 0 ? width : (width + row - 1) / row * row;
}

static void set_tile(const Problem *problem, Choice *choice, const Tile *tile)
{
  const FusedAttention *attention = attention_of(problem->op);
  int64_t depth = 0, width = 0;
  symbolic_is_constant(attention->depth, &depth);
  symbolic_is_constant(attention->width, &width);
  choice->n_parameters = 0;
  choice_set_name(choice, "t", number_name(attention->type));
  choice_set_int(choice, "rows", tile->rows);
  choice_set_int(choice, "keys", tile->keys);
  choice_set_int(choice, "stages", tile->stages);
  choice_set_int(choice, "d", depth);
  choice_set_int(choice, "dv", width);
  choice_set_int(choice, "d_tile", tile_width(attention, depth));
  choice_set_int(choice, "dv_tile", tile_width(attention, width));
  choice_set_int(choice, "causal", attention->causal);
  choice_set_float(choice, "scale", attention->scale);
  choice->stages = tile->stages;
  choice->tile_text = arena_printf(problem->arena, "%ux%u", tile->rows, tile->keys);
  choice->suffix = choice->tile_text;
}

/* What --set asks for stands in any tile. */
static Tile forced_tile(const Problem *problem, Tile tile)
{
  choose_forced(problem, "rows", &tile.rows);
  choose_forced(problem, "keys", &tile.keys);
  choose_forced(problem, "stages", &tile.stages);
  return tile;
}

/* Do the passes let the tile be? Sums that are alive twice, before and behind their scaling, may be too many: then all
 * passes tell. */
static bool is_legal(const Problem *problem, Choice *choice, const char **why)
{
  DryRuns *runs = problem->dry ? problem->dry : problem->judged;
  if (!runs || choose_is_forced(problem)) return true;
  const DrySummary *summary = dry_run(runs, choice);
  if (summary && summary->legal && 2 * summary->sums > summary->registers) {
    choice->exact = true;
    summary = dry_run(runs, choice);
    choice->exact = false;
  }
  if (!summary || summary->legal) return true;
  if (!*why) *why = arena_strdup(problem->arena, summary->why);
  return false;
}

/* The cheapest tile that the passes let be. *why: if there is none. */
static bool pick(const Problem *problem, Choice *choice, const char **why)
{
  bool tried[G_N_ELEMENTS(tiles)] = {false};
  for (unsigned n = 0; n < G_N_ELEMENTS(tiles); n++) {
    unsigned best = 0;
    double least = INFINITY;
    for (unsigned i = 0; i < G_N_ELEMENTS(tiles); i++) {
      double clocks = product_clocks(problem, tiles[i].rows, tiles[i].keys);
      if (tried[i] || clocks >= least) continue;
      best = i;
      least = clocks;
    }
    tried[best] = true;
    const Tile tile = forced_tile(problem, tiles[best]);
    set_tile(problem, choice, &tile);
    if (is_legal(problem, choice, why)) return true;
  }
  return false;
}

static bool add_variant(Chooser *chooser, bool aligned, const char **why)
{
  const Problem *problem = chooser->problem;
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  Choice *choice = choose_open(chooser, "attention");
  if (aligned && !require_vectors(problem, choice)) return true;
  if (!pick(problem, choice, why)) return aligned;
  if (!aligned) choice->suffix = arena_printf(problem->arena, "%s_any", choice->tile_text);
  chooser->n++;
  return true;
}

const char *attention_refuse(const Problem *problem)
{
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  const char *why = NULL;
  chooser->problem = problem;
  bool found = add_variant(chooser, true, &why) && add_variant(chooser, false, &why);
  return found ? NULL : why;
}

bool choose_attention(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  const char *why = NULL;
  if (add_variant(chooser, true, &why) && add_variant(chooser, false, &why)) return true;
  error_set(chooser->error, ERROR_UNSUPPORTED, &problem->op->anchor->mark, "attention", why,
            "no tile of attention fits %s", problem->gpu->name);
  return false;
}
