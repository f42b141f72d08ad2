/* Attention: of the tiles that its template says are tried the first that the passes, run dry, let be. A
 * variant for operands that TMA or whole vectors copy comes first, then one for any. */
#include "generator/choose/attention.h"
#include "generator/choose/contest.h"
#include "generator/program/attention.h"
#include "ir/resources.h"
#include <float.h>
#include <math.h>

#define STEP_BYTES   32 /* that one product takes of a row, along k */
#define ROW_BYTES    64 /* of a row in shared memory that swizzles */
#define SWIZZLE_ROWS 8  /* after which what swizzles begins again */
#define VECTOR_BYTES 16 /* of the widest copy, and what TMA's strides and addresses are multiples of */

/* ---- price ---- */

double attention_clock(const Gpu *gpu)
{
  return (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6;
}

static double typical(const Problem *problem, const Symbolic *extent)
{
  return (double)choose_typical(problem, extent);
}

static double bytes_of(NumberType type)
{
  return (double)number_bits(type) / CHAR_BIT;
}

/* Through device memory, each element once. */
static double memory_clocks(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  const Gpu *gpu = problem->gpu;
  double matrices = typical(problem, attention->batches) * typical(problem, attention->heads),
         shared = matrices / typical(problem, attention->group), depth = typical(problem, attention->depth),
         width = typical(problem, attention->width);
  double bytes = matrices * typical(problem, attention->rows) * (depth + width) * bytes_of(attention->type) +
                 shared * typical(problem, attention->keys) * (depth + width) * bytes_of(attention->stored);
  double bandwidth = gpu->memory_bandwidth_read > 0 ? gpu->memory_bandwidth_read : gpu->memory_bandwidth;
  return bandwidth > 0 ? bytes / bandwidth * attention_clock(gpu) : 0;
}

#define ROWS_OF_WARP 16 /* of a tile that warps share */

/* Schedulers of an SM have tensor cores of their own: a tile of few warps leaves some idle. */
static double busy_share(const Gpu *gpu, double rows)
{
  double schedulers = gpu_fact(gpu, "limits.schedulers");
  return schedulers > 0 ? fmin(1, rows / ROWS_OF_WARP / schedulers) : 1;
}

/* Products at the tensor cores' rate, of whole rows of tiles; of the busiest SM. */
static double product_clocks(const Problem *problem, double rows, double parts)
{
  const FusedAttention *attention = attention_of(problem->op);
  const Gpu *gpu = problem->gpu;
  unsigned budget = problem->options ? problem->options->sm_budget : 0, sms = budget ? budget : gpu->sm_count;
  double peak = gpu_peak(gpu, attention->type);
  double rate = peak > 0 ? peak / attention_clock(gpu) / gpu->sm_count : gpu->model->default_product;
  double work = typical(problem, attention->batches) * typical(problem, attention->heads) *
                ceil(typical(problem, attention->rows) / rows) * parts;
  double seen = typical(problem, attention->keys) / (attention->causal ? 2 : 1) / parts;
  double tile = 2 * rows * seen * (typical(problem, attention->depth) + typical(problem, attention->width));
  return ceil(work / sms) * tile / rate / busy_share(gpu, rows);
}

/* Blocks that share a head's keys. */
static double typical_parts(const Problem *problem, const Choice *choice)
{
  int64_t places = choice_int(choice, "places", 0);
  if (!choice_int(choice, "divided", 0)) return 1;
  places /= choice_int(choice, "columns", 1);
  return typical(problem, attention_parts(attention_of(problem->op), problem->arena, places,
                                          choice_int(choice, "most", 1), choice_int(choice, "least", 1)));
}

double attention_clocks(const Problem *problem, const Choice *choice)
{
  double rows = (double)choice_int(choice, "rows", 1);
  return fmax(memory_clocks(problem), product_clocks(problem, rows, typical_parts(problem, choice)));
}

/* ---- variants ---- */

/* Are sums of products of 8 bits over all keys to be more than the hardware keeps? Where nobody asks, weights of so few bits are off by more. */
static bool is_exact(const Problem *problem)
{
  const GraphAttribute *own = graph_attribute_find(problem->op->anchor, "accumulate");
  Accumulate asked = own ? accumulate_parse(own->text) : ACCUMULATE_DEFAULT;
  if (asked == ACCUMULATE_DEFAULT && problem->options) asked = problem->options->accumulate;
  return number_has_bytes(attention_of(problem->op)->type, 1) && asked == ACCUMULATE_EXACT;
}

/* Are operands of 8 bits multiplied as they are? */
static bool is_eight(const FusedAttention *attention)
{
  return number_has_bytes(attention->type, 1);
}

static bool require_vectors(const Problem *problem, Choice *choice)
{
  const FusedOperator *op = problem->op;
  const FusedAttention *attention = attention_of(op);
  const AttentionOperand *const operands[] = {&attention->queries, &attention->key_matrix,
                                              &attention->values};
  int64_t vector = number_elements(attention->stored, VECTOR_BYTES);
  for (unsigned i = 0; i < G_N_ELEMENTS(operands); i++)
    for (unsigned d = 0; d + 1 < G_N_ELEMENTS(operands[i]->strides); d++)
      if (!choose_require_multiple(problem, choice, operands[i]->strides[d],
                                   i ? vector : number_elements(attention->type, VECTOR_BYTES)))
        return false;
  for (unsigned i = 0; attention->pages.rows && i < G_N_ELEMENTS(attention->pages.strides); i++)
    if (!choose_require_multiple(problem, choice, attention->pages.strides[i], vector)) return false;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    bool copied = false; /* what scores take besides is loaded as it lies */
    for (unsigned j = 0; j < G_N_ELEMENTS(operands); j++)
      copied |= operands[j]->input == i;
    if (!choose_require_align(problem, choice, op->inputs[i].tensor, VECTOR_BYTES) && copied) return false;
  }
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!choose_require_align(problem, choice, op->outputs[i].tensor, VECTOR_BYTES)) return false;
  return true;
}

/* Are operands known to lie at whole vectors? Else threads may have to multiply them, which take values as they lie. */
static bool are_vectors(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  const unsigned inputs[] = {attention->queries.input, attention->key_matrix.input, attention->values.input};
  bool whole = true;
  for (unsigned i = 0; i < G_N_ELEMENTS(inputs); i++)
    whole &= problem->op->inputs[inputs[i]].tensor->align >= VECTOR_BYTES;
  return whole;
}

int64_t attention_tile_width(NumberType type, int64_t width)
{
  int64_t step = number_elements(type, STEP_BYTES), row = number_elements(type, ROW_BYTES);
  return width % step == 0 ? width : (width + row - 1) / row * row;
}

/* Which rows a variant is for, and how its tiles are walked. */
typedef enum {
  RANGE_PARTS,   /* few rows of few heads: their keys are divided among blocks */
  RANGE_BOUNDED, /* few rows, whose keys' number is loaded */
  RANGE_MIXED,   /* sequences of which one tile of heads that share keys holds few rows, beside longer ones */
  RANGE_FEW,     /* few tiles: small ones */
  RANGE_PAIR, /* two blocks of a cluster have neighbouring tiles, and fetch their keys and values once for both */
  RANGE_ROUNDS, /* the same, of fewer rows a tile, where those take fewer rounds of the SMs */
  RANGE_EVEN,   /* the grid walks on: blocks find about the same work */
  RANGE_LONG,   /* causal and many rows: blocks come as others end */
  RANGE_ANY,    /* whatever the operands' addresses are */
} Range;

/* Heads so wide that a thread of a block of few rows has no more than half of its registers for a sum as wide: more rows take none. */
static bool is_wide(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  int64_t threads = ATTENTION_FEW_ROWS / ROWS_OF_WARP * problem->gpu->warp_size;
  int64_t width = MAX(choose_maximum(problem, attention->depth), choose_maximum(problem, attention->width));
  return width * ATTENTION_FEW_ROWS / threads > (problem->gpu->registers_per_thread + 1) / 2;
}

/* Are values the first elements of the keys, in one place of memory, and multiplied as they are? */
static bool has_latents(const FusedOperator *op)
{
  const FusedAttention *attention = attention_of(op);
  const GraphTensor *keys = op->inputs[attention->key_matrix.input].tensor,
                    *values = op->inputs[attention->values.input].tensor;
  int64_t begins[2] = {0, 0}, depth, width;
  bool same = keys->index == values->index &&
              (!keys->begins || symbolic_is_constant(keys->begins, &begins[0])) &&
              (!values->begins || symbolic_is_constant(values->begins, &begins[1])) && begins[0] == begins[1];
  for (unsigned d = 0; same && d < G_N_ELEMENTS(attention->values.strides); d++)
    same = symbolic_same(attention->key_matrix.strides[d], attention->values.strides[d]);
  if (same && attention->pages.rows)
    same = symbolic_same(attention->pages.strides[0], attention->pages.strides[1]);
  return same && attention->stored == attention->type && !attention->scaled &&
         symbolic_is_constant(attention->depth, &depth) && symbolic_is_constant(attention->width, &width) &&
         width <= depth;
}

/* Few rows of a sequence: heads that share keys and values are rows of a tile, which reads these once for all of them. What steps load must be
 * the same for the group. */
static bool is_grouped(const Problem *problem, Range range)
{
  const FusedAttention *attention = attention_of(problem->op);
  bool few = range == RANGE_FEW || range == RANGE_MIXED;
  if (!few || !attention->sequences.packed || symbolic_equals(attention->group, 1)) return false;
  for (unsigned i = 0; i < problem->op->n_inputs; i++) {
    const AttentionSequences *lists = &attention->sequences;
    bool list = i == lists->ends || i == lists->lengths || i == lists->unread ||
                (attention->pages.rows && i == attention->pages.table) ||
                (attention->tree.taken && i == attention->tree.input);
    if (list || fused_is_contracted(problem->op, i) || attention_is_by_group(attention, i)) continue;
    const FusedInput *input = &problem->op->inputs[i];
    static const unsigned along[] = {ATTENTION_ROW, ATTENTION_KEY, ATTENTION_COLUMN};
    for (unsigned d = 0; d < G_N_ELEMENTS(along); d++) /* one number for each head is gathered */
      if (!symbolic_equals(input->strides[along[d]], 0) &&
          (d == 0 || !symbolic_equals(input->strides[ATTENTION_HEAD], 0)))
        return false;
  }
  return true;
}

/* Sequences of few rows each, on average. */
static const Symbolic *are_short(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  Arena *arena = problem->arena;
  return symbolic_binary(
      arena, SYMBOLIC_LE, attention->rows,
      symbolic_mul(arena, attention->batches, symbolic_constant(arena, ATTENTION_FEW_ROWS)));
}

/* When low tiles of short sequences have an SM each, and nobody divides keys, of which there are few; NULL: never. Then higher tiles, which take no
 * less time each, leave SMs idle, and blocks have nothing to claim. Asked where somebody widens keys: 421 rows of 8 sequences of up to 300 keys took
 * 0.8 of the time. Tiles are the most that there can be: one more for each sequence than full ones. */
static const Symbolic *run_at_once(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  Arena *arena = problem->arena;
  if (!attention->sequences.packed || attention->stored == attention->type ||
      choose_maximum(problem, attention->keys) >= 2 * problem->gpu->model->attention_claimed_keys)
    return NULL;
  const Symbolic *few = symbolic_constant(arena, ATTENTION_FEW_ROWS),
                 *own = symbolic_mul(arena, attention->rows, attention->group),
                 *last = symbolic_mul(arena, attention->batches, few),
                 *rows =
                     symbolic_mul(arena, attention->heads, symbolic_binary(arena, SYMBOLIC_ADD, own, last)),
                 *sms = symbolic_constant(arena, problem->gpu->sm_count),
                 *room = symbolic_mul(arena, attention->group, symbolic_mul(arena, sms, few));
  return symbolic_binary(arena, SYMBOLIC_AND, are_short(problem),
                         symbolic_binary(arena, SYMBOLIC_LE, rows, room));
}

static bool always_at_once(const Problem *problem)
{
  const Symbolic *once = run_at_once(problem);
  return once && symbolic_decide(once, &problem->graph->facts) == SYMBOLIC_TRUE;
}

/* Rows of a grouped tile that each head of the group has in turn where copies bring them, a part for each head, whole rows of what swizzles; 0: a
 * role gathers them. If they may, the heads share a warpgroup's rows: the others' are idle where a sequence is that short. */
static int64_t rows_of_head(const Problem *problem, Range range, int64_t rows)
{
  const FusedAttention *attention = attention_of(problem->op);
  int64_t group;
  bool known = is_grouped(problem, range) && symbolic_is_constant(attention->group, &group) &&
               gpu_product(problem->gpu, "warpgroup_mma", attention->type, attention->type, NUMBER_F32);
  if (!known) return 0;
  int64_t step = group * SWIZZLE_ROWS, turn = ATTENTION_FEW_ROWS % step ? rows : ATTENTION_FEW_ROWS;
  return rows % turn == 0 && turn % step == 0 ? turn / group : 0;
}

/* ---- what is tried ---- */

/* What scores are computed with beside their product: nothing, lists along keys, or a number for each score, whose addresses and values
 * take registers. */
static int64_t attention_scored(const Problem *problem)
{
  int64_t most = 0;
  for (unsigned i = 0; i < problem->op->n_inputs; i++) {
    const FusedInput *input = &problem->op->inputs[i];
    if (fused_is_contracted(problem->op, i) || symbolic_equals(input->strides[ATTENTION_KEY], 0)) continue;
    most = MAX(most, symbolic_equals(input->strides[ATTENTION_ROW], 0) ? 1 : 2);
  }
  return most;
}

#define FACTS            "generator/choose/attention_facts.def"
#define FACT_NAMES       static const char *const facts
#define FACT_TRIED_NAMES static const char *const tried_facts
#define FACT_ARGUMENTS   const Problem *problem, Range range
#define FACT_LOCALS      const FusedAttention *attention = attention_of(problem->op)
#include "generator/choose/fact_table.h"

/* Is it a variant of the template whose rows are one tile? */
static bool is_one_tile(const Problem *problem, Range range)
{
  return range <= RANGE_BOUNDED || is_wide(problem) || attention_of(problem->op)->joined.taken;
}

static const char *template_of(const Problem *problem, Range range)
{
  return is_one_tile(problem, range) ? "attention_decode" : "attention";
}

const SpaceKind *space_kind_attention(void)
{
  static const Axis axes[] = {{"rows", 1},  {"keys", 1},      {"stages", 1}, {"persistent"},
                              {"heads", 1}, {"cluster_n", 1}, {"backwards"}, {"queries", 1},
                              {"warps"},    {"blocks", 1},    {"places", 1}, {"most", 1},
                              {"chunk", 1}, {"together", 1},  {"divided"},   {"columns", 1},
                              {"latent"},   {"consumers", 1}, {"apart"},     {"skips"}};
  static const SpaceKind kind = SPACE_KIND("attention attention_decode", axes, NULL, true);
  return &kind;
}

void attention_set_columns(Choice *choice, NumberType type, const Symbolic *depth, bool causal)
{
  int64_t elements = 0;
  symbolic_is_constant(depth, &elements);
  choice_set_int(choice, "d", elements);
  choice_set_int(choice, "d_tile", attention_tile_width(type, elements));
  choice_set_int(choice, "causal", causal);
}

void attention_set_heads(Choice *choice, NumberType type, const Symbolic *depth, const Symbolic *width,
                         int64_t columns, bool causal)
{
  int64_t elements = 0;
  attention_set_columns(choice, type, depth, causal);
  symbolic_is_constant(width, &elements);
  choice_set_int(choice, "dv", elements);
  choice_set_int(choice, "dv_tile", attention_tile_width(type, (elements + columns - 1) / columns));
}

/* May a tile have rows behind the last key that hold anything? Keys end by a number that is loaded, within a page, or where those of another
 * sequence begin. The tensors' own ends are zeros. */
static bool ends_within(const FusedAttention *attention)
{
  bool loaded = false;
  for (unsigned i = 0; i < attention->n_bounds; i++)
    loaded |= attention_bound_ends(&attention->bounds[i]);
  return loaded || attention->pages.rows || attention->sequences.packed;
}

/* Its blocks would read a tile of a tensor without elements. */
static bool may_have_no_rows(const Problem *problem)
{
  int64_t least, most;
  symbolic_range(attention_of(problem->op)->rows, &problem->graph->facts, &least, &most);
  return least < 1;
}

#define LEFT_ROWS  16 /* of all heads of a group: more are a tile that multiplies for itself */
#define LEFT_BYTES (64 << 20)

/* Sequences of few rows whose number of keys is loaded: blocks that claim tiles claim parts of their keys, and leave what they have of them in
 * the workspace: a place for each part of a head, and for each warpgroup. */
static void divide_keys(const Problem *problem, Choice *choice, bool claims)
{
  const FusedAttention *attention = attention_of(problem->op);
  const AttentionSequences *sequences = &attention->sequences;
  int64_t group = choice_int(choice, "sides", 1), rows = choice_int(choice, "rows", 0);
  bool counted = !sequences->own && !sequences->packed_keys && !attention_lowest(attention);
  if (!choice_int(choice, "each", 0) || !claims || !counted) return;
  int64_t few = LEFT_ROWS / group, keys = problem->gpu->model->attention_claimed_keys;
  int64_t most = MIN(choose_maximum(problem, attention->keys) / keys, problem->gpu->model->attention_parts);
  double heads = (double)choose_maximum(problem, attention->batches) *
                 (double)choose_maximum(problem, attention->heads) / (double)group;
  double places = heads * (double)rows / ATTENTION_FEW_ROWS,
         elements = (double)(few * group) * (double)(choice_int(choice, "dv_tile", 0) + 4);
  while (most > 1 && places * (double)most * elements * sizeof(float) > LEFT_BYTES)
    most--;
  if (most < 2 || !few) return;
  choice_set_int(choice, "shares", most);
  choice_set_own(choice, "per", keys);
  choice_set_int(choice, "few", few);
  choice_set_int(choice, "room", (int64_t)(places * (double)most) * few * group);
}

static void set_tile(const AttentionTrial *trial, const Candidate *tile)
{
  const Problem *problem = trial->problem;
  Choice *choice = trial->choice;
  Range range = trial->variant;
  const FusedAttention *attention = attention_of(problem->op);
  bool one = is_one_tile(problem, range);
  choice->n_parameters = 0;
  choice_set_name(choice, "t", number_name(attention->type));
  choice_set_name(choice, "tk", number_name(attention->stored));
  choice_set_name(choice, "tv", number_name(attention_value_type(attention)));
  choice_set_int(choice, "widened", attention->stored != attention->type);
  if (!one)
    choice_set_int(choice, "turned", is_eight(attention) && (range != RANGE_ANY || are_vectors(problem)));
  if (!one) choice_set_int(choice, "exact", is_exact(problem));
  candidate_carry(tile, choice, NULL, NULL);
  attention_set_heads(choice, attention->type, attention->depth, attention->width,
                      one ? candidate_int(tile, "columns") : 1, attention->causal);
  if (one) choice_set_int(choice, "needed", choose_maximum(problem, attention->rows));
  if (one) choice_set_int(choice, "empty", may_have_no_rows(problem));
  if (one) choice_set_int(choice, "joined", attention->joined.taken);
  choice_set_int(choice, "cleared", ends_within(attention));
  if (attention->pages.rows) choice_set_int(choice, "page", attention->pages.rows);
  if (attention->sequences.packed) {
    choice_set_int(choice, "packed", attention->sequences.own ? 2 : 1);
    choice_set_int(choice, "ending", attention->sequences.ending);
    choice_set_int(choice, "grouped", is_grouped(problem, range));
    choice_set_int(choice, "each", rows_of_head(problem, range, candidate_int(tile, "rows")));
    if (choice_int(choice, "each", 0))
      choice_set_int(choice, "sides", choose_maximum(problem, attention->group));
    divide_keys(problem, choice, candidate_int(tile, "dynamic"));
  }
  if (!one) choice_set_int(choice, "window", attention_lowest(attention) != NULL);
  choice_set_float(choice, "scale", attention_scales_steps(attention) ? G_LN2 : attention->scale);
  choice->stages = (unsigned)candidate_int(tile, "stages");
  choice->tile_text = arena_printf(problem->arena, "%dx%d", (int)candidate_int(tile, "rows"),
                                   (int)candidate_int(tile, "keys"));
  unsigned budget = problem->options ? problem->options->sm_budget : 0;
  if (range == RANGE_PARTS) choice_set_own(choice, "least", problem->gpu->model->attention_part_keys);
  if (!one) choice_set_own(choice, "sms", budget ? budget : problem->gpu->sm_count);
  const char *const names[] = {[RANGE_PARTS] = "_parts", [RANGE_BOUNDED] = "_bounded", [RANGE_MIXED] = "",
                               [RANGE_FEW] = "",         [RANGE_PAIR] = "_pairs",      [RANGE_ROUNDS] = "",
                               [RANGE_EVEN] = "",        [RANGE_LONG] = "_long",       [RANGE_ANY] = "_any"};
  choice->suffix = arena_printf(problem->arena, "%s%s%s%s", choice->tile_text,
                                is_grouped(problem, range) ? "_grouped" : "", names[range],
                                candidate_words(tile, problem->arena));
}

bool attention_is_legal(const Problem *problem, Choice *choice, const char **why)
{
  DryRuns *runs = problem->dry ? problem->dry : problem->judged;
  if (!runs) return true;
  const DrySummary *summary = dry_run_registers(runs, choice);
  if (!summary || summary->legal) return true;
  if (!*why) *why = arena_strdup(problem->arena, summary->why);
  return false;
}

/* A consumer has columns of values of its own: those without would write another's (only --set asks for so many). */
static bool has_columns(const AttentionTrial *trial)
{
  const Choice *choice = trial->choice;
  if (choice_int(choice, "consumers", 1) <= choice_int(choice, "columns", 1)) return true;
  if (!*trial->why)
    *trial->why = "each of `consumers` has columns of its own: there are no more than `columns`";
  return false;
}

static bool settle(const Candidate *candidate, void *data)
{
  const AttentionTrial *trial = data;
  Candidate tile = *candidate;
  candidate_force(trial->problem, &tile); /* what --set asks for stands in any tile */
  trial->set_tile(trial, &tile);
  return has_columns(trial) && (trial->any || attention_is_legal(trial->problem, trial->choice, trial->why));
}

bool attention_pick(AttentionTrial *asked, const char *template_name, const int64_t *facts)
{
  Candidate tile;
  const Trial trial = {.template_name = template_name, .facts = facts, .settle = settle, .data = asked};
  if (trial_winner(asked->problem, &trial, &tile)) return true;
  asked->any = choose_is_forced(asked->problem);
  return asked->any && trial_winner(asked->problem, &trial, &tile);
}

/* ---- variants and when they are wanted ---- */

/* Few tiles of twice as many rows: as small ones they find an SM each, or one of these is enough. Where warps multiply an SM takes two
 * blocks of either. */
static const Symbolic *is_few(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  Arena *arena = problem->arena;
  unsigned budget = problem->options ? problem->options->sm_budget : 0,
           sms = budget ? budget : problem->gpu->sm_count;
  const Symbolic *matrices = symbolic_mul(arena, attention->batches, attention->heads),
                 *down = symbolic_ceil_div(arena, attention->rows,
                                           symbolic_constant(arena, 2 * ATTENTION_FEW_ROWS));
  bool beside = !gpu_product(problem->gpu, "warpgroup_mma", attention->type, attention->type, NUMBER_F32);
  const Symbolic *idle = symbolic_binary(arena, SYMBOLIC_LE, symbolic_mul(arena, matrices, down),
                                         symbolic_constant(arena, beside ? sms : sms / 2));
  const Symbolic *one =
      symbolic_binary(arena, SYMBOLIC_LE, attention->rows, symbolic_constant(arena, ATTENTION_FEW_ROWS));
  return symbolic_binary(arena, SYMBOLIC_OR, one, idle);
}

/* Keys and values come by multicast, where that is worth the two blocks' steps in common. */
static bool may_pair(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  const Gpu *gpu = problem->gpu;
  int64_t depth = MAX(choose_maximum(problem, attention->depth), choose_maximum(problem, attention->width));
  bool shares = exchanging_blocks(gpu) > 1 && gpu_fact(gpu, "tma.multicast") == 1;
  return shares && !attention->causal && !is_eight(attention) && !attention->pages.rows &&
         !attention->sequences.packed && depth > gpu->model->attention_narrow &&
         depth <= gpu->model->attention_wide;
}

/* No block of a pair without rows, or so many that one does not matter. */
static const Symbolic *has_pairs(const Problem *problem)
{
  Arena *arena = problem->arena;
  const Symbolic *rows = attention_of(problem->op)->rows;
  const Symbolic *tiles = symbolic_ceil_div(arena, rows, symbolic_constant(arena, 2 * ATTENTION_FEW_ROWS));
  const Symbolic *even = symbolic_binary(
      arena, SYMBOLIC_EQ, symbolic_binary(arena, SYMBOLIC_MOD, tiles, symbolic_constant(arena, 2)),
      symbolic_constant(arena, 0));
  const Symbolic *many = symbolic_binary(arena, SYMBOLIC_GE, rows,
                                         symbolic_constant(arena, problem->gpu->model->attention_rows));
  return symbolic_binary(arena, SYMBOLIC_OR, even, many);
}

#define HUNDREDTHS 100

/* Rows of the tile that is tried first where blocks find about the same work. */
static int64_t even_rows(const Problem *problem)
{
  Candidate first;
  g_autofree int64_t *values = fact_values(problem, RANGE_EVEN);
  const Trial trial = {.template_name = template_of(problem, RANGE_EVEN), .facts = values};
  return trial_winner(problem, &trial, &first) ? candidate_int(&first, "rows") : 0;
}

/* Rows of all rounds in which the SMs compute tiles of so many rows. */
static const Symbolic *rows_of_rounds(const Problem *problem, int64_t rows)
{
  const FusedAttention *attention = attention_of(problem->op);
  Arena *arena = problem->arena;
  unsigned budget = problem->options ? problem->options->sm_budget : 0,
           sms = budget ? budget : problem->gpu->sm_count;
  const Symbolic *down = symbolic_ceil_div(arena, attention->rows, symbolic_constant(arena, rows)),
                 *tiles =
                     symbolic_mul(arena, symbolic_mul(arena, attention->batches, attention->heads), down);
  return symbolic_mul(arena, symbolic_ceil_div(arena, tiles, symbolic_constant(arena, sms)),
                      symbolic_constant(arena, rows));
}

/* Tiles of fewer rows find all SMs busier, by more than they are slower. */
static const Symbolic *has_rounds(const Problem *problem)
{
  Arena *arena = problem->arena;
  int64_t slower = (int64_t)lrint(problem->gpu->model->attention_short * HUNDREDTHS);
  const Symbolic *tall = symbolic_mul(arena, rows_of_rounds(problem, even_rows(problem)),
                                      symbolic_constant(arena, HUNDREDTHS)),
                 *low = symbolic_mul(arena, rows_of_rounds(problem, 2 * ATTENTION_FEW_ROWS),
                                     symbolic_constant(arena, slower));
  return symbolic_binary(arena, SYMBOLIC_LT, low, tall);
}

/* Higher tiles are taken else. */
static bool may_round(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  return gpu_product(problem->gpu, "warpgroup_mma", attention->type, attention->type, NUMBER_F32) &&
         !attention->pages.rows && !attention->sequences.packed &&
         even_rows(problem) > 2 * ATTENTION_FEW_ROWS;
}

/* Rows of sequences are more than a low tile of the heads that share keys holds, on average, and low tiles are not all at work at once. */
static const Symbolic *are_mixed(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  Arena *arena = problem->arena;
  const Symbolic *once = run_at_once(problem);
  const Symbolic *more =
      symbolic_binary(arena, SYMBOLIC_GT, symbolic_mul(arena, attention->rows, attention->group),
                      symbolic_mul(arena, attention->batches, symbolic_constant(arena, ATTENTION_FEW_ROWS)));
  return once ? symbolic_binary(arena, SYMBOLIC_AND, more, symbolic_not(arena, once)) : more;
}

/* Taller tiles of such heads are for warpgroups; wider heads leave these too few registers beside who gathers the queries. */
static bool may_mix(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  int64_t depth = MAX(choose_maximum(problem, attention->depth), choose_maximum(problem, attention->width));
  return is_grouped(problem, RANGE_MIXED) && depth <= 2 * ATTENTION_FEW_ROWS &&
         gpu_product(problem->gpu, "warpgroup_mma", attention->type, attention->type, NUMBER_F32);
}

/* When a variant of the range is wanted; NULL: always. */
static const Symbolic *condition_of(const Problem *problem, Range range)
{
  const FusedAttention *attention = attention_of(problem->op);
  if (attention->sequences.packed && range == RANGE_MIXED) return are_mixed(problem);
  if (attention->sequences.packed) return range == RANGE_FEW ? are_short(problem) : NULL;
  if (range == RANGE_FEW) return is_few(problem);
  if (range == RANGE_PAIR) return has_pairs(problem);
  const Symbolic *even =
      attention->causal
          ? symbolic_binary(problem->arena, SYMBOLIC_LE, attention->rows,
                            symbolic_constant(problem->arena, problem->gpu->model->attention_rows))
          : NULL;
  if (range == RANGE_EVEN) return even;
  if (range != RANGE_ROUNDS) return NULL;
  return even ? symbolic_binary(problem->arena, SYMBOLIC_AND, even, has_rounds(problem))
              : has_rounds(problem);
}

/* Few rows, two parts or more for each head, and keys for them. Where there are as many queries as keys, few of one are
 * few of the other. */
static bool require_parts(const Problem *problem, Choice *choice)
{
  const FusedAttention *attention = attention_of(problem->op);
  const Symbolic *heads = symbolic_mul(problem->arena, attention->batches, attention->heads);
  bool alike = symbolic_same(attention->rows, attention->keys) &&
               choose_maximum(problem, attention->rows) > ATTENTION_FEW_ROWS;
  return !alike && choose_require_at_most(problem, choice, attention->rows, ATTENTION_FEW_ROWS) &&
         choose_require_at_most(problem, choice, heads, problem->gpu->sm_count / 2) &&
         choose_require_at_least(problem, choice, attention->keys,
                                 problem->gpu->model->attention_part_keys + 1);
}

/* Few rows of which it is loaded how many keys they see, or whose heads no other template takes. */
static bool require_bounded(const Problem *problem, Choice *choice)
{
  const FusedAttention *attention = attention_of(problem->op);
  if (is_wide(problem) || attention->joined.taken)
    return choose_require_at_most(problem, choice, attention->rows, ATTENTION_FEW_ROWS);
  for (unsigned i = 0; i < attention->n_bounds; i++)
    if (attention_bound_ends(&attention->bounds[i]))
      return choose_require_at_most(problem, choice, attention->rows, ATTENTION_FEW_ROWS);
  return false;
}

/* All rows are one tile, and each block has a place in the workspace, also where --set wants smaller tiles or fewer places
 * than the conditions above speak of. A new row is stored by the one block that has read the cache's last tile. */
static bool require_room(const Problem *problem, Choice *choice, Range range, const char **why)
{
  const FusedAttention *attention = attention_of(problem->op);
  int64_t rows = choice_int(choice, "rows", ATTENTION_FEW_ROWS),
          places = choice_int(choice, "places", 0) / choice_int(choice, "columns", 1);
  if (!is_one_tile(problem, range)) return true;
  if (attention->joined.taken && choice_int(choice, "columns", 1) > 1) {
    *why = "blocks that share a head's columns read the keys that a new row goes to";
    return false;
  }
  if (rows < ATTENTION_FEW_ROWS && !choose_require_at_most(problem, choice, attention->rows, rows))
    return false;
  if (range != RANGE_PARTS || places >= problem->gpu->sm_count / 2) return true;
  const Symbolic *heads = symbolic_mul(problem->arena, attention->batches, attention->heads);
  return choose_require_at_most(problem, choice, heads, places);
}

/* The rows are one tile, whatever they are. */
static bool require_few(const Problem *problem, Choice *choice, const char **why)
{
  bool few = choose_require_at_most(problem, choice, attention_of(problem->op)->rows, ATTENTION_FEW_ROWS);
  if (few && !choice->guard) return true;
  *why = "heads of so many elements take few rows: at most " G_STRINGIFY(ATTENTION_FEW_ROWS) ", known to be";
  return false;
}

/* *why: if there is no tile. true: no variant of another range is needed any more. */
static bool add_variant(Chooser *chooser, Range range, const char **why)
{
  const Problem *problem = chooser->problem;
  if (is_eight(attention_of(problem->op)) && is_one_tile(problem, range)) return false;
  if (range == RANGE_PAIR && !may_pair(problem)) return false;
  if (range == RANGE_ROUNDS && !may_round(problem)) return false;
  if (range == RANGE_MIXED && !may_mix(problem)) return false;
  bool between = range > RANGE_BOUNDED && range < RANGE_ANY;
  if (between && is_one_tile(problem, range)) return false;
  if (range <= RANGE_BOUNDED && attention_of(problem->op)->sequences.packed)
    return false; /* rows are of several sequences */
  const Symbolic *condition = condition_of(problem, range);
  Choice *choice = choose_open(chooser, template_of(problem, range));
  if (condition && !choose_require(problem, choice, condition)) return false;
  if (range == RANGE_PARTS && !require_parts(problem, choice)) return false;
  if (range == RANGE_BOUNDED && !require_bounded(problem, choice)) return false;
  if (range > RANGE_BOUNDED && is_one_tile(problem, range) && !require_few(problem, choice, why))
    return false;
  bool all = !choice->guard;
  if (range != RANGE_ANY && !require_vectors(problem, choice)) return false;
  g_autofree int64_t *values = fact_values(problem, range);
  AttentionTrial trial = {problem, choice, range, set_tile, why, false};
  if (!attention_pick(&trial, template_of(problem, range), values)) return false;
  if (!require_room(problem, choice, range, why)) return false;
  chooser->n++;
  return all;
}

/* Why operands of 8 bits are not multiplied as they are; NULL: they are, where their addresses allow it. */
static const char *refuse_eight(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  if (!gpu_product(problem->gpu, "warpgroup_mma", attention->type, attention->type, NUMBER_F32))
    return arena_printf(problem->arena, "%s has no warpgroup MMAs of %s", problem->gpu->name,
                        number_name(attention->type));
  if (choose_maximum(problem, attention->rows) <= ATTENTION_FEW_ROWS)
    return "few rows wait for keys and values, however they are multiplied";
  int64_t threads = ATTENTION_FEW_ROWS / ROWS_OF_WARP * problem->gpu->warp_size;
  int64_t sums = 2 * choose_maximum(problem, attention->width) * ATTENTION_FEW_ROWS / threads; /* registers */
  if (is_exact(problem) && sums > (problem->gpu->registers_per_thread + 1) / 2)
    return "exact sums take twice the registers of a sum, and values are too wide for that";
  if (attention->scale < FLT_EPSILON)
    return "its scale is too small for weights to begin below their largest";
  return NULL;
}

/* false: *why says what keeps the last variant, which is for all, from being one. */
static bool add_variants(Chooser *chooser, const char **why)
{
  const Range ranges[] = {RANGE_PARTS, RANGE_BOUNDED, RANGE_MIXED, RANGE_FEW,
                          RANGE_PAIR,  RANGE_ROUNDS,  RANGE_EVEN,  RANGE_LONG};
  bool eight = is_eight(attention_of(chooser->problem->op));
  if (eight && (*why = refuse_eight(chooser->problem))) return false;
  for (unsigned i = 0; i < G_N_ELEMENTS(ranges); i++)
    if (add_variant(chooser, ranges[i], why)) break;
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  return add_variant(chooser, RANGE_ANY, why);
}

const char *attention_refuse(const Problem *problem)
{
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  const char *why = NULL;
  chooser->problem = problem;
  bool found = add_variants(chooser, &why);
  return found ? NULL : why;
}

bool attention_choose(Chooser *chooser, bool (*add)(Chooser *chooser, const char **why), const char *what)
{
  const Problem *problem = chooser->problem;
  const char *why = NULL;
  if (add(chooser, &why)) return true;
  error_set(chooser->error, ERROR_UNSUPPORTED, &problem->op->anchor->mark, "attention", why,
            "no tile of %s fits %s", what, problem->gpu->name);
  return false;
}

bool choose_attention(Chooser *chooser)
{
  return attention_choose(chooser, add_variants, "attention");
}
