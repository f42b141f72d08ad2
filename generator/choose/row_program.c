/* Rows: they stay in the registers of a block, or of a cluster's, rounded up to whole vectors of its threads, or are read
 * again in each phase. How many threads a row has is what they keep in flight and hold of what its phases have alive at
 * once. */
#include "generator/choose/row_program.h"
#include "generator/choose/contest.h"
#include "generator/choose/row.h"
#include "generator/choose/row_lives.h"
#include "generator/choose/row_measured.h"
#include "generator/program/row.h"
#include "ir/resources.h"

#define VECTOR_BYTES  16 /* of a thread's widest access */
#define WORD_BITS     32 /* of a register */
#define NARROWEST     4  /* parts of what a warp keeps: rows of open length up to one part have a kernel */
#define RUN_SECTORS   4  /* of a line, of which neighbouring rows' elements fill one at least */
#define ACROSS_BLOCKS 2  /* that an SM has of rows which lie across memory, where lines are divided for it */
#define SUMMING_IDLE  4  /* the part of a row that a gradient's threads may have beyond its end */
#define SUMMING_KEPT  2  /* values of an element that stay in a gradient of a norm at least */

/* ---- threads ---- */

/* Do threads keep so many elements each, where so many blocks share an SM? */
static bool holds(const Problem *problem, unsigned bits, const RowFit *fit, unsigned blocks)
{
  unsigned elements = MAX(1, fit->rows * fit->cols / fit->threads);
  const CostModel *model = problem->gpu->model;
  unsigned own = model->row_registers + row_of(problem->op)->n_sums * model->row_operand;
  return elements * bits / WORD_BITS + own <= entry_registers(problem->gpu, fit->threads, blocks);
}

/* At most, as far as it is known. */
static int64_t count_rows(const Problem *problem)
{
  int64_t rows = 1;
  for (unsigned d = 0; d + 1 < problem->op->rank && rows < SYMBOLIC_DIMENSION_MAX; d++)
    rows *= choose_maximum(problem, problem->op->dims[d]);
  return MIN(rows, SYMBOLIC_DIMENSION_MAX);
}

/* Several short rows share a block, a warp or several have each. */
static bool fit_short(const Problem *problem, unsigned bits, int64_t longest, RowFit *fit)
{
  const CostModel *model = problem->gpu->model;
  unsigned more = row_is_budgeted(problem) ? model->lone_rows : 1;
  unsigned lanes = problem->gpu->warp_size, width = choose_power_of_two(longest, lanes, model->short_row);
  *fit = row_fit_of(problem, more * MAX(model->row_warps, 2 * model->short_row / width), width,
                    more * model->row_warps * lanes);
  /* a tile's rows lie along the last dimension of rows, which may have fewer */
  const FusedOperator *op = problem->op;
  while (op->rank > 2 && fit->rows > 1 && choose_maximum(problem, op->dims[op->rank - 2]) <= fit->rows / 2) {
    fit->rows /= 2;
    if (fit->threads > lanes) fit->threads /= 2;
  }
  /* few rows are more blocks: a thread of a full one computes all of its elements one after the other while most SMs have none */
  int64_t rows = count_rows(problem);
  while (fit->rows > model->row_warps && rows <= (int64_t)fit->rows / 2 * problem->gpu->sm_count)
    fit->rows /= 2;
  while (fit->rows > 1 && !holds(problem, bits, fit, 1))
    fit->rows /= 2;
  return holds(problem, bits, fit, 1);
}

/* The fewest warps, of which each scheduler has as many, that keep a part of row_bytes each or less of a row and have nothing beyond its
 * end: beside sums of columns instructions are what a block waits for, and of these a thread has a hundred once a row. */
static bool fit_summing(const Problem *problem, unsigned bits, int64_t longest, unsigned vector, RowFit *fit)
{
  const CostModel *model = problem->gpu->model;
  unsigned lanes = problem->gpu->warp_size, bytes = row_widest_bytes(problem->op),
           most = model->row_bytes / model->row_sums_share;
  for (unsigned threads = lanes; threads <= problem->gpu->threads_per_block; threads *= 2) {
    if (longest % ((int64_t)threads * vector) || longest / threads * bytes > most) continue;
    *fit = row_fit_of(problem, 1, (unsigned)longest, threads);
    if (holds(problem, bits, fit, 1)) return true;
  }
  return false;
}

/* As few threads as keep row_bytes each or less, or else as many as there can be; then as many blocks as an SM has
 * registers for, row_blocks at most: while one reduces, others load. Where a budget of SMs leaves each one block, as many
 * threads as round the row up no further. Beside sums of columns threads whose elements begin or end somewhere keep half of
 * what others do: addresses and what lies in the row take registers. */
static bool fit_long(const Problem *problem, unsigned bits, int64_t longest, unsigned vector, RowFit *fit)
{
  const CostModel *model = problem->gpu->model;
  unsigned bytes = row_widest_bytes(problem->op);
  bool found = false, lone = row_is_budgeted(problem), sums = row_of(problem->op)->n_sums;
  unsigned most_bytes = sums ? model->row_bytes / model->row_sums_share / 2 : model->row_bytes;
  if (sums && fit_summing(problem, bits, longest, vector, fit)) return true;
  for (unsigned threads = model->row_least; threads <= problem->gpu->threads_per_block; threads *= 2) {
    int64_t whole = (int64_t)threads * vector, cols = (longest + whole - 1) / whole * whole;
    RowFit next = row_fit_of(problem, 1, (unsigned)cols, threads);
    if (!holds(problem, bits, &next, 1)) continue;
    if (lone && found && next.cols > fit->cols) break;
    if (sums && found && next.cols > longest + longest / SUMMING_IDLE) break;
    *fit = next;
    found = true;
    if (!lone && cols / threads * bytes <= most_bytes) break;
  }
  unsigned most = found ? MIN(model->row_blocks, resident_blocks(problem->gpu, fit->threads)) : 0;
  while (found && fit->blocks < most && holds(problem, bits, fit, fit->blocks + 1))
    fit->blocks++;
  return found;
}

/* The same with vectors of so many elements, or fewer where that rounds a row up less. Rows that do not fit so leave
 * what later phases load to come a vector at a time. */
static bool fit_longest(const Problem *problem, int64_t longest, unsigned vector, RowFit *fit)
{
  const FusedOperator *op = problem->op;
  bool found = false;
  for (unsigned lean = 0; lean < 2 && !found; lean++)
    for (unsigned elements = vector; elements; elements /= 2) {
      RowFit next;
      if (elements < vector && elements * row_widest_bytes(op) < VECTOR_BYTES) break;
      unsigned bits = row_most_bits(op, lean) + (row_of(op)->group ? WORD_BITS : 0);
      if (!fit_long(problem, bits, longest, elements, &next)) continue;
      if (!found || next.cols < fit->cols) *fit = next;
      found = true;
    }
  return found;
}

/* Elements of a row lie apart: threads would load sectors for one element each. */
static bool lies_apart(const FusedOperator *op)
{
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const Symbolic *stride = op->inputs[i].strides[op->rank - 1];
    if (!op->inputs[i].every && !symbolic_equals(stride, 0) && !symbolic_equals(stride, 1)) return true;
  }
  return false;
}

/* NULL, or what keeps rows of so many columns at most, of which threads access `vector` at once, from staying in registers. */
static const char *fit_program(const Problem *problem, int64_t longest, unsigned vector, RowFit *fit)
{
  const CostModel *model = problem->gpu->model;
  const FusedOperator *op = problem->op;
  if (longest > model->longest_row) return "its rows may be longer than a block's registers";
  unsigned bits =
      row_most_bits(op, false) + (row_of(op)->group ? WORD_BITS : 0); /* and what groups have, for each */
  bool shares = longest <= model->short_row && !row_of(op)->n_sums;   /* a block with other rows */
  bool fits = shares ? fit_short(problem, bits, longest, fit) : fit_longest(problem, longest, vector, fit);
  return fits ? NULL
              : arena_printf(problem->arena,
                             "of each element %u bits are alive at once, for which a block has no registers",
                             bits);
}

/* Neighbouring rows lie side by side: threads read them together, a chunk of their elements at a time in each phase. Several
 * reductions of one tensor's rows, of which nothing else comes out, are divided among more blocks one by one; those of a tensor each are
 * sums of columns that one kernel has left in parts. */
static bool lies_across(const FusedOperator *op)
{
  const FusedRow *row = row_of(op);
  bool alone = row->n_reductions == 1 || row->n_reductions == op->n_inputs;
  return !row->group && !row->n_sums && (!row->reduction || alone) && choose_rows_lie_across(op);
}

/* ---- variants ---- */

static const char *const form_names[] = {[ROW_REGISTERS] = "registers",
                                         [ROW_SHARED] = "shared",
                                         [ROW_CLUSTER] = "cluster",
                                         [ROW_PASSES] = "passes"};

/* The form that --set wants; ROW_FORMS: none. */
static RowForm forced_form(const Problem *problem)
{
  const char *asked = choose_forced_text(problem, "form");
  for (unsigned form = 0; asked && form < ROW_FORMS; form++)
    if (g_str_equal(asked, form_names[form])) return form;
  return ROW_FORMS;
}

/* Does an earlier variant take all launches that this one would? */
static bool is_taken(const Chooser *chooser, const Choice *choice)
{
  for (unsigned i = 0; i < chooser->n; i++)
    if (symbolic_same(chooser->variants[i].guard, choice->guard)) return true;
  return false;
}

/* May a kernel of long rows of one length, which stay, have more alive than is counted? */
static bool is_uncertain(const Problem *problem, const Choice *choice, RowForm form)
{
  int64_t known;
  bool one = symbolic_is_constant(row_of(problem->op)->columns, &known);
  return form != ROW_PASSES && one && known > problem->gpu->model->short_row &&
         (row_may_keep_more(problem->op) || choice_int(choice, "cols", known) != known);
}

/* Do threads have the registers, as the passes say of kernels that compute much, keep long rows or may have more alive than is counted? */
static bool is_legal(const Problem *problem, Choice *choice, RowForm form)
{
  DryRuns *runs = problem->dry ? problem->dry : problem->judged;
  bool open = choice->guard && choice_int(choice, "cols", 0) > problem->gpu->model->short_row &&
              !symbolic_is_constant(row_of(problem->op)->columns, NULL);
  bool many = (unsigned)choice_int(choice, "blocks", 1) > problem->gpu->model->row_blocks &&
              !row_is_measured(problem); /* more than are known to fit */
  bool asks = row_program_is_heavy(problem->op) || open || many || is_uncertain(problem, choice, form);
  if (!runs || !asks || choose_is_forced(problem)) return true;
  if (!problem->dry && choice->guard) return true; /* fusion asks for a kernel of all rows */
  choice->exact = true;
  const DrySummary *summary = dry_run(runs, choice);
  choice->exact = false;
  return !summary || summary->legal;
}

/* false: the kernel would not have the registers. */
static bool finish(Chooser *chooser, Choice *choice, RowForm form, const RowFit *fit)
{
  if (choice->guard && is_taken(chooser, choice)) return true;
  const unsigned had = choice->n_parameters;
  row_fit_carry(fit, choice);
  choice_set_own_name(choice, "form", form_names[form]); /* what --set asks for */
  choice_set_own_name(choice, "hold", form_names[form]);
  Candidate named = fit->of;
  candidate_force(chooser->problem, &named); /* as it will be, once --set is heeded */
  const char *words = candidate_words(&named, chooser->problem->arena);
  choice->suffix = arena_printf(chooser->problem->arena, "%s%s", choice->tile_text, words);
  choice->stages = 1;
  bool legal = is_legal(chooser->problem, choice, form);
  chooser->n += legal;
  if (!legal) choice->n_parameters = had; /* another fit has its own */
  return legal;
}

/* The same, of rows of one length with as few blocks an SM as leave threads the registers: others have more kernels. */
static void finish_fewer(Chooser *chooser, Choice *choice, RowForm form, RowFit *fit)
{
  const Gpu *gpu = chooser->problem->gpu;
  bool one = symbolic_is_constant(row_of(chooser->problem->op)->columns, NULL),
       done = finish(chooser, choice, form, fit);
  while (one && !done && fit->blocks > 1) {
    unsigned had = entry_registers(gpu, fit->threads, fit->blocks--);
    done = entry_registers(gpu, fit->threads, fit->blocks) > had && finish(chooser, choice, form, fit);
  }
}

static bool is_complete(const Chooser *chooser)
{
  return chooser->n == PLAN_MAX_VARIANTS || (chooser->n && !chooser->variants[chooser->n - 1].guard);
}

/* Does one number stay of each of so few rows that clusters read all of them at once? Then one launch takes less than two, of parts and of
 * what is left of them. */
static bool is_gathered(const Problem *problem)
{
  const Gpu *gpu = problem->gpu;
  int64_t known;
  if (!row_program_streams(problem->op) || !symbolic_is_constant(row_of(problem->op)->columns, &known))
    return false;
  return known > gpu->model->longest_row / exchanging_blocks(gpu) && !lies_apart(problem->op) &&
         count_rows(problem) * exchanging_blocks(gpu) <= gpu->sm_count;
}

/* Rows of a length that is known, shared by as few blocks of a cluster as leave each so little that others run beside it. */
static bool fit_cluster(const Problem *problem, int64_t known, unsigned vector, RowFit *fit)
{
  const Gpu *gpu = problem->gpu;
  bool found = false;
  if (row_of(problem->op)->group) return false; /* blocks would share a group of columns */
  if (exchanging_blocks(gpu) < 2 || row_is_budgeted(problem)) return false;
  const unsigned most = exchanging_blocks(gpu), least = is_gathered(problem) ? most : 2;
  for (unsigned blocks = least; blocks <= most; blocks *= 2) {
    RowFit next;
    if (!fit_longest(problem, (known + blocks - 1) / blocks, vector, &next)) continue;
    next.split_k = blocks;
    if (!found || next.blocks > fit->blocks) *fit = next;
    found = true;
    if (fit->blocks >= gpu->model->row_cluster_blocks) break;
  }
  return found;
}

/* Rounds of random numbers keep some forty registers an element, and chunks of rows are computed an operation at a time. */
static bool is_random(const FusedOperator *op)
{
  for (unsigned i = 0; i < op->n_steps; i++)
    if (op->steps[i].op == ONNX_Philox) return true;
  return false;
}

/* Are rows, or the longest of them, read again in each phase? */
static bool may_pass(const Problem *problem)
{
  const Symbolic *columns = row_of(problem->op)->columns;
  int64_t longest = choose_maximum(problem, columns);
  RowFit fit;
  if (longest <= problem->gpu->model->short_row) return false;
  if (row_program_streams(problem->op)) return true;
  bool shared = symbolic_is_constant(columns, NULL) && fit_cluster(problem, longest, 1, &fit);
  return !shared && fit_program(problem, longest, 1, &fit) != NULL;
}

const char *row_program_refuse(const Problem *problem)
{
  const FusedRow *row = row_of(problem->op);
  const CostModel *model = problem->gpu->model;
  if (row->group & (row->group - 1) || row->group > model->short_row)
    return "columns that have values of their own are no power of two, or too many";
  if (row->group && choose_maximum(problem, row->columns) > model->longest_row)
    return "its rows are too long for reductions of their parts beside";
  bool single =
      symbolic_equals(row->columns, 1); /* nothing lies along it: all rows of a tile are computed at once */
  if (is_random(problem->op) && (single || may_pass(problem)))
    return "random numbers of a tile of its rows take more registers than there are";
  if (row->n_sums && !symbolic_is_constant(row->columns, NULL))
    return "sums of columns of which only the launch knows how many there are";
  if (row->n_sums &&
      choose_maximum(problem, row->columns) * (row->n_sums + SUMMING_KEPT) > problem->gpu->model->row_sums)
    return "more sums of columns than a block's threads keep beside its rows";
  bool apart = lies_apart(problem->op) && !row_program_streams(problem->op);
  return apart && !lies_across(problem->op) ? "elements of its rows lie apart" : NULL;
}

/* Bytes of a row's elements: of what is read along it, row by row. */
static int64_t row_bytes(const FusedOperator *op, int64_t columns)
{
  int64_t bytes = 0;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!symbolic_equals(op->inputs[i].strides[op->rank - 1], 0) &&
        !symbolic_equals(op->inputs[i].strides[0], 0))
      bytes += number_bytes_of(op->inputs[i].tensor->type, columns);
  return bytes;
}

/* Threads of rows of so many columns at most, and how many of each they keep; NULL, or why there are none. Rows longer than a
 * warp keeps, of which is known what they take, have the threads of a row of just so many. */
static const char *fit_registers(const Problem *problem, int64_t longest, unsigned vector, RowReach reach,
                                 RowFit *fit)
{
  bool measured = row_is_measured(problem) && longest > problem->gpu->model->short_row;
  const RowReached row = {longest, vector, reach};
  if (measured && row_fit_best(problem, &row, 1, fit)) return NULL;
  return fit_program(problem, longest, vector, fit);
}

static void offer_registers(const Problem *problem)
{
  const RowTried tried = {.peers = 1};
  g_autofree int64_t *values = row_fact_values(problem, &tried);
  trial_offer(problem, "row", values);
}

/* Blocks that take sums of columns, as many as an SM has registers for: of each element these, what stays over a phase, and what is
 * loaded. */
static unsigned summing_blocks(const Problem *problem, const RowFit *fit, RowReach reach)
{
  const FusedOperator *op = problem->op;
  const CostModel *model = problem->gpu->model;
  unsigned elements = fit->cols / fit->threads,
           kept = MAX(SUMMING_KEPT, row_count_kept(op)) + row_of(op)->n_sums;
  unsigned loaded = (unsigned)(row_bytes(op, fit->cols) / fit->threads) * CHAR_BIT / WORD_BITS;
  unsigned registers = elements * kept + loaded + model->row_registers +
                       row_count_operands(op) * model->row_operand + row_reach_registers(problem, reach);
  unsigned blocks = MIN(model->row_together, resident_blocks(problem->gpu, fit->threads));
  while (blocks > 1 && entry_registers(problem->gpu, fit->threads, blocks) < registers)
    blocks--;
  return blocks;
}

/* Slots of shared memory in which a block's next rows arrive while it takes sums of columns, for as many bytes as an SM shall have under
 * way; 0: there is no room, or rows are no whole vectors of its threads. */
static unsigned ring_slots(const Problem *problem, const RowFit *fit)
{
  const Gpu *gpu = problem->gpu;
  const FusedRow *row = row_of(problem->op);
  int64_t known, bytes = row_bytes(problem->op, fit->cols);
  int64_t each = gpu->shared_per_sm / fit->blocks - gpu->shared_reserved;
  if (!row->n_sums || forced_form(problem) == ROW_REGISTERS) return 0;
  if (!symbolic_is_constant(row->columns, &known) || known != fit->cols) return 0;
  int64_t meetings = (int64_t)row->n_reductions * VECTOR_BYTES * fit->threads / gpu->warp_size; /* of warps */
  int64_t room = MIN(gpu->shared_per_block, each) - meetings;
  int64_t ahead = (gpu->model->row_flight / fit->blocks + bytes - 1) / bytes;
  int64_t slots = MIN(room / bytes, MIN(1 + ahead, gpu->model->row_slots));
  return slots < 2 ? 0 : (unsigned)slots;
}

/* As many blocks as have the bytes under way that an SM shall have, as far as registers are known to be enough for them. */
static unsigned wanted_blocks(const Problem *problem, const RowFit *fit)
{
  const FusedOperator *op = problem->op;
  const CostModel *model = problem->gpu->model;
  unsigned bits = row_most_bits(op, false) + (row_of(op)->group ? WORD_BITS : 0), blocks = fit->blocks;
  unsigned most = MIN(model->row_together, resident_blocks(problem->gpu, fit->threads));
  if (row_is_measured(problem) || row_of(op)->n_sums || row_is_budgeted(problem)) return blocks;
  while (blocks < most &&
         blocks * row_fresh_bytes(op, (int64_t)fit->rows * fit->cols) < (int64_t)model->row_flight &&
         holds(problem, bits, fit, blocks + 1))
    blocks++;
  return blocks;
}

/* Rows of so many columns at most. */
static void add_registers(Chooser *chooser, int64_t most, RowReach reach)
{
  const Problem *problem = chooser->problem;
  const FusedOperator *op = problem->op;
  unsigned vector;
  int64_t longest = MIN(most, choose_maximum(problem, row_of(op)->columns));
  RowFit fit;
  if (is_complete(chooser)) return;
  Choice *choice = choose_open(chooser, "row");
  if (!row_reach_require(problem, choice, reach, &vector)) return;
  if (row_of(op)->n_sums) vector = MIN(vector, VECTOR_BYTES / (WORD_BITS / CHAR_BIT)); /* which are f32 */
  if (!choose_require_at_most(problem, choice, row_of(op)->columns, longest)) return;
  if (fit_registers(problem, row_reach_columns(reach, longest, vector), vector, reach, &fit)) return;
  if (reach == ROW_BY_ENDS && fit.rows > 1) return; /* which begin at several places */
  offer_registers(problem);
  choice->tile_text = arena_printf(problem->arena, "%ux%u", fit.rows, fit.cols);
  if (row_of(op)->n_sums) fit.blocks = summing_blocks(problem, &fit, reach);
  if (reach == ROW_BY_VECTORS) fit.slots = ring_slots(problem, &fit);
  RowForm form = fit.slots ? ROW_SHARED : ROW_REGISTERS;
  RowFit more = fit;
  bool brief = fit.rows > 1 && row_is_measured(problem);
  more.blocks = brief ? row_short_blocks(problem, &fit, reach) : wanted_blocks(problem, &fit);
  if (more.blocks > fit.blocks && finish(chooser, choice, form, &more)) return;
  finish_fewer(chooser, choice, form, &fit);
}

static unsigned most_peers(const Problem *problem)
{
  return exchanging_blocks(problem->gpu) > 1 ? problem->gpu->cluster_max : 1;
}

/* A variant for rows of one length. */
static void add_measured(Chooser *chooser, RowReach reach)
{
  const Problem *problem = chooser->problem;
  const FusedOperator *op = problem->op;
  unsigned vector;
  int64_t known;
  RowFit fit;
  if (is_complete(chooser) || !symbolic_is_constant(row_of(op)->columns, &known)) return;
  if (known <= problem->gpu->model->short_row) return;
  Choice *choice = choose_open(chooser, "row");
  if (!row_reach_require(problem, choice, reach, &vector)) return;
  const RowReached row = {row_reach_columns(reach, known, vector), vector, reach};
  if (!row_fit_best(problem, &row, most_peers(problem), &fit)) return;
  choice->tile_text = fit.split_k > 1 ? arena_printf(problem->arena, "cluster%u", fit.split_k)
                                      : arena_printf(problem->arena, "%ux%u", fit.rows, fit.cols);
  finish_fewer(chooser, choice, fit.split_k > 1 ? ROW_CLUSTER : ROW_REGISTERS, &fit);
}

/* A variant for at least so many rows of one length, in chunks. */
static void add_chunks(Chooser *chooser, RowReach reach, int64_t least, const RowFit *fit)
{
  const Problem *problem = chooser->problem;
  unsigned vector;
  Choice *choice = choose_open(chooser, "row");
  if (!row_reach_require(problem, choice, reach, &vector)) return;
  if (least > 1 && !choose_require_at_least(problem, choice, row_of(problem->op)->rows, least)) return;
  choice->tile_text = arena_printf(problem->arena, "passes%u", fit->chunk);
  RowFit free = *fit;
  free.blocks = 1; /* registers leave room for more by themselves */
  finish(chooser, choice, ROW_PASSES, &free);
}

/* Does --set, or what was measured, say how rows that stay are shared? */
static bool asks_whole(const Problem *problem)
{
  static const char *const names[] = {"split_k", "threads", "blocks"};
  bool any = false;
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
    any |= choose_forced(problem, names[i], NULL);
  return any && !choose_forced(problem, "chunk", NULL);
}

/* Variants for rows of one length of which nothing stays, as far as there are enough to fill the GPU. Where only the launch knows how many,
 * those that would be a second turn of the chunks for many rows have others that all SMs have at once. */
static void add_streamed(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  const FusedRow *of = row_of(problem->op);
  RowReached row = {.reach = ROW_BY_VECTORS};
  int64_t known, rows = 0;
  RowFit many, few;
  if (!symbolic_is_constant(of->columns, &known) || known <= problem->gpu->model->short_row) return;
  if (asks_whole(problem)) return;
  if (!row_reach_require(problem, choose_open(chooser, "row"), row.reach, &row.vector) &&
      !row_reach_require(problem, choose_open(chooser, "row"), row.reach = ROW_BY_ENDS, &row.vector))
    return;
  row.columns = row_reach_columns(row.reach, known, row.vector);
  symbolic_is_constant(of->rows, &rows);
  if (!row_fit_chunks(problem, &row, rows, &many)) return;
  int64_t turn = row_turn(problem, &many),
          least = row_least_chunks(problem, &row, most_peers(problem), &many);
  if (!least) return;
  if (least > 1 && !rows && row_fit_chunks(problem, &row, turn + turn / 2, &few) &&
      row_turn(problem, &few) > turn) {
    add_chunks(chooser, row.reach, row_turn(problem, &few) + 1, &many);
    many = few;
    least = row_least_chunks(problem, &row, most_peers(problem), &many);
  }
  if (!is_complete(chooser)) add_chunks(chooser, row.reach, least, &many);
}

/* `form`: a cluster's blocks keep their parts in registers, or in shared memory. */
static void add_cluster(Chooser *chooser, RowForm form, RowReach reach)
{
  const Problem *problem = chooser->problem;
  const FusedOperator *op = problem->op;
  unsigned vector;
  int64_t known;
  RowFit fit;
  if (is_complete(chooser) || !symbolic_is_constant(row_of(op)->columns, &known)) return;
  Choice *choice = choose_open(chooser, "row");
  if (!row_reach_require(problem, choice, reach, &vector)) return;
  known = row_reach_columns(reach, known, vector);
  if (!fit_cluster(problem, known, vector, &fit)) return;
  unsigned split_k = fit.split_k, threads = fit.threads;
  choose_forced(problem, "split_k", &split_k);
  choose_forced(problem, "threads", &threads);
  int64_t whole = (int64_t)split_k * threads * vector;
  if (form == ROW_SHARED &&
      (known % whole || row_bytes(op, known) / split_k > problem->gpu->shared_per_block))
    return; /* threads would fill parts that are no whole tiles */
  choice->tile_text = arena_printf(problem->arena, "%s%u", form_names[form], fit.split_k);
  fit.slots = form == ROW_SHARED;
  finish_fewer(chooser, choice, form, &fit);
}

/* Rows of any length, a chunk at a time in each phase. `run`: so many that lie across memory at once; 0: they lie along it.
 * false and *error: the template tries nothing. */
static bool add_passes(Chooser *chooser, unsigned run, RowReach reach)
{
  const Problem *problem = chooser->problem;
  if (is_complete(chooser)) return true;
  Choice *choice = choose_open(chooser, "row");
  unsigned vector;
  bool takes = run && reach == ROW_BY_VECTORS ? choose_row_runs(problem, choice)
                                              : row_reach_require(problem, choice, reach, &vector);
  if (!takes) return true;
  const RowTried tried = {.peers = 1, .passes = true, .run = run};
  g_autofree int64_t *values = row_fact_values(problem, &tried);
  RowFit fit;
  if (!trial_first(problem, "row", values, &fit.of, chooser->error)) return false;
  int64_t group = row_of(problem->op)->group;
  if (group && fit.chunk % group)
    return true; /* columns that have values of their own would straddle chunks */
  choice->tile_text = run ? arena_printf(problem->arena, "%ux%u", fit.rows, fit.cols)
                          : arena_printf(problem->arena, "passes%u", fit.chunk);
  finish(chooser, choice, ROW_PASSES, &fit);
  return true;
}

static bool add_form(Chooser *chooser, RowForm form, int64_t most, RowReach reach)
{
  switch (form) {
  case ROW_REGISTERS: add_registers(chooser, most, reach); return true;
  case ROW_SHARED: /* what lies anywhere is no bulk copy: it is read in passes */
    if (row_of(chooser->problem->op)->n_sums) return add_form(chooser, ROW_REGISTERS, most, reach);
    if (reach != ROW_BY_VECTORS) return add_passes(chooser, 0, reach);
    add_cluster(chooser, form, reach);
    return true;
  case ROW_CLUSTER: add_cluster(chooser, form, reach); return true;
  case ROW_PASSES: return add_passes(chooser, 0, reach);
  case ROW_FORMS: break;
  }
  return true;
}

static bool add_reaches(Chooser *chooser, RowForm form, int64_t most)
{
  for (unsigned reach = ROW_REACHES; reach-- > 0;)
    if (!add_form(chooser, form, most, reach)) return false;
  return true;
}

/* Rows stay as --set wants. */
static bool check_forced(Chooser *chooser, RowForm form)
{
  const Problem *problem = chooser->problem;
  const GraphNode *node = problem->op->anchor ? problem->op->anchor : problem->op->nodes[0];
  if (is_complete(chooser)) return true;
  error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "row-form",
            "another form, or --dim NAME=VALUE with --fixed: rows of one length",
            "--set form=%s: rows of all these lengths cannot stay so on %s", form_names[form],
            problem->gpu->name);
  return false;
}

static bool add_across(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  const FusedOperator *op = problem->op;
  int64_t most = choose_maximum(problem, op->dims[op->rank - 2]),
          rows = choose_maximum(problem, row_of(op)->rows), blocks = ACROSS_BLOCKS * problem->gpu->sm_count;
  unsigned run = choose_power_of_two(most, 1, choose_row_run(op)), least = run / RUN_SECTORS;
  if (row_finds_places(op)) least = MAX(least, problem->gpu->warp_size);
  unsigned wide = run * problem->gpu->model->across_wide;
  if (row_program_streams(op) && rows > (int64_t)wide / 2 * blocks) run = wide;
  while (run > least && rows <= (int64_t)run / 2 * blocks)
    run /= 2; /* few rows: an SM has several blocks, which have more bytes under way */
  return add_passes(chooser, run, ROW_BY_VECTORS) && add_passes(chooser, run, ROW_BY_ELEMENTS);
}

/* The next wider rows that have a kernel of their own, where their length is open: twice as wide, of those that are longer than a
 * warp keeps half as much more at a time, where they begin with vectors. */
static int64_t next_width(const CostModel *model, int64_t width, RowReach reach)
{
  bool whole = !(width & (width - 1));
  if (reach == ROW_BY_ELEMENTS) return width * (model->long_row / model->short_row);
  if (reach == ROW_BY_ENDS || width <= model->short_row) return 2 * width;
  return whole ? width / 2 * 3 : width / 3 * 4;
}

/* Rows that stay in registers, by how long they are at most: a row takes as long as the widest that its kernel is for. Those
 * that threads read in vectors have kernels of many widths, the others few. */
static bool add_widths(Chooser *chooser, RowReach reach, bool streams)
{
  bool aligned = reach == ROW_BY_VECTORS;
  const CostModel *model = chooser->problem->gpu->model;
  const Symbolic *columns = row_of(chooser->problem->op)->columns;
  int64_t longest = choose_maximum(chooser->problem, columns), most = model->longest_row;
  bool one = symbolic_is_constant(columns, NULL);
  if (!aligned && !one && longest > most) most = model->long_row;
  if (streams) most = model->short_row;
  int64_t width = one ? MIN(longest, most) : aligned ? model->short_row / NARROWEST : model->short_row;
  for (bool last = false; !last; width = next_width(model, width, reach)) {
    last = width >= most || width >= longest;
    if (!add_form(chooser, ROW_REGISTERS, MIN(width, most), reach)) return false;
  }
  return true;
}

/* Rows of every length: those that stay in registers by how long they are, all others in other forms. Where nothing of a
 * row is kept only short ones stay, which would leave threads of a chunk without elements. */
static bool add_all(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  bool streams = row_program_streams(problem->op);
  if (row_is_measured(problem)) add_streamed(chooser);
  for (unsigned reach = ROW_REACHES; reach-- > 0 && row_is_measured(problem);)
    add_measured(chooser, reach);
  for (unsigned reach = ROW_REACHES; reach-- > 0;)
    if (!add_widths(chooser, reach, streams)) return false;
  if (row_of(problem->op)->n_sums) return true; /* what a block keeps of columns it has all of */
  bool shares = !streams || is_gathered(problem);
  return (!shares || add_reaches(chooser, ROW_CLUSTER, 0)) && add_reaches(chooser, ROW_PASSES, 0);
}

bool choose_row(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  RowForm forced = forced_form(problem);
  bool any = forced == ROW_FORMS;
  if ((any || forced == ROW_PASSES) && lies_across(problem->op)) return add_across(chooser);
  if (any ? !add_all(chooser) : !add_reaches(chooser, forced, problem->gpu->model->longest_row)) return false;
  return check_forced(chooser, forced);
}
