#include "generator/choose/tuned_gemm.h"
#include "generator/choose/gemm_rules.h"
#include "generator/choose/gemm_space.h"
#include <string.h>

/* What the model does not price of few rows: warpgroups that take tiles of twice the rows in turn, and
 * three blocks an SM. Where k is short they were up to a tenth faster (docs/performance-log.md). */
#define TURN_ROWS     128
#define TURN_GROUPS   2
#define MOST_RESIDENT 3

/* ---- the key ---- */

/* Operations of an instruction or two, which no tile notices. */
static bool is_light(const FusedStep *step)
{
  switch ((unsigned)step->op) {
  case ONNX_Add:
  case ONNX_Sub:
  case ONNX_Mul:
  case ONNX_Min:
  case ONNX_Max:
  case ONNX_Neg:
  case ONNX_Abs:
  case ONNX_Relu:
  case ONNX_Clip:
  case ONNX_Where:
  case ONNX_Cast:
  case ONNX_Identity: return true;
  default: return false;
  }
}

/* What an epilogue costs a tile: reading as much as it writes, vectors, and functions. */
typedef struct {
  bool tile, vector, function;
} Epilogue;

static Epilogue epilogue_of(const FusedOperator *op)
{
  Epilogue epilogue = {0};
  for (unsigned i = 0; i < op->n_inputs; i++) {
    if (gemm_reads(gemm_of(op), i)) continue;
    bool rows = !symbolic_equals(op->inputs[i].strides[op->rank - 2], 0);
    bool columns = !symbolic_equals(op->inputs[i].strides[op->rank - 1], 0);
    epilogue.tile |= rows && columns;
    epilogue.vector |= rows != columns;
  }
  for (unsigned i = 0; i < op->n_steps; i++)
    epilogue.function |= !is_light(&op->steps[i]);
  return epilogue;
}

/* Both 8-bit floats multiply and convert at one speed, and so do both 16-bit ones. */
static const char *type_text(NumberType type)
{
  if (number_is_small_float(type)) type = NUMBER_E4M3;
  return number_name(type == NUMBER_F16 ? NUMBER_BF16 : type);
}

/* "bf16 mk x bf16 kn + f32 -> bf16": of two letters the second lies contiguously. Sums of 8-bit floats that
 * are kept in f32 take other tiles than those that are not. */
static char *describe_product(const Problem *problem, Epilogue epilogue)
{
  const FusedOperator *op = problem->op;
  const FusedGemm *gemm = gemm_of(op);
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_printf(text, "%s %s x %s %s + %s ->", type_text(gemm_stored(gemm, false)),
                  gemm->a_m_major ? "km" : "mk", type_text(gemm_stored(gemm, true)),
                  gemm->b_n_major ? "kn" : "nk", number_name(gemm->acc_type));
  static const char *const several[] = {"", "dual ", "triple ", "fourfold "};
  g_string_prepend(text, several[gemm->products - 1]);
  if (gemm->lead) g_string_prepend(text, "led ");
  if (gemm->summed) g_string_prepend(text, "summed ");
  if (gemm->groups) g_string_prepend(text, "grouped ");
  for (unsigned i = 0; i < op->n_outputs; i++)
    g_string_append_printf(text, " %s", type_text(op->outputs[i].tensor->type));
  if (epilogue.tile) g_string_append(text, ", reads a tile");
  if (epilogue.vector) g_string_append(text, ", reads a vector");
  if (epilogue.function) g_string_append(text, ", functions");
  if (gemm_sums_exactly(problem)) g_string_append(text, ", exact sums");
  return arena_strdup(problem->arena, text->str);
}

bool tuned_gemm_key(const Problem *problem, TunedEntry *key)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  unsigned budget = problem->options ? problem->options->sm_budget : 0;
  *key = (TunedEntry){.batches = 1, .sms = budget ? budget : problem->gpu->sm_count};
  if (!symbolic_is_constant(gemm->n, &key->n) || !symbolic_is_constant(gemm->k, &key->k)) return false;
  for (unsigned i = 0; i < gemm->n_batch; i++) {
    int64_t extent;
    if (!symbolic_is_constant(problem->op->dims[i], &extent)) return false;
    key->batches *= extent;
  }
  key->product = describe_product(problem, epilogue_of(problem->op));
  return true;
}

/* ---- what could be measured ---- */

static int compare_cost(const void *a, const void *b)
{
  const PricedCandidate *x = a, *y = b;
  return (x->cost.total > y->cost.total) - (x->cost.total < y->cost.total);
}

static void append_thin_tiles(const Problem *problem, GArray *list, int64_t m)
{
  bool budgeted = problem->options && problem->options->sm_budget;
  unsigned n = list->len;
  for (unsigned i = 0; i < n; i++) {
    GemmCandidate candidate = g_array_index(list, PricedCandidate, i).candidate;
    if (!candidate.warpgroups || !gemm_candidate_is_thin(&candidate) || candidate.split_k > 1 ||
        candidate.slices > 1 || candidate.blocks > 1)
      continue;
    GemmCandidate turns = candidate, resident = candidate;
    turns.bm = TURN_ROWS;
    turns.pingpong = TURN_GROUPS;
    gemm_candidate_append_measured(problem, list, turns, m);
    resident.blocks = MOST_RESIDENT;
    if (!budgeted)
      gemm_candidate_append_measured(problem, list, resident,
                                     m); /* a budget is kept by launching fewer blocks */
  }
}

#define WALKED_CANDIDATES 16 /* of which each value of an axis that no price knows is tried */

/* The cheapest with every other value that their template declares for axes that no price knows: measuring decides. */
static bool append_extras(const Problem *problem, GArray *list)
{
  unsigned before = list->len, n = MIN(before, WALKED_CANDIDATES);
  for (unsigned i = 0; i < n; i++) {
    PricedCandidate priced = g_array_index(list, PricedCandidate, i);
    const Space *space = priced.candidate.space;
    for (unsigned slot = space ? space->kind->n_axes : 0; space && slot < space->n; slot++) {
      const IrDomain *domain = space->declared[slot]->domain;
      int64_t values = domain->values ? domain->n : (domain->most - domain->least) / domain->step + 1;
      int *value = &priced.candidate.of.values[slot];
      for (int64_t v = 0; v < values && v <= CANDIDATE_MOST; v++) {
        *value =
            (int)(domain->values ? domain->values[v] : domain->least + v * domain->step) - space->base[slot];
        if (*value && gemm_candidate_legal(problem, &priced.candidate)) g_array_append_val(list, priced);
      }
      *value = 0;
    }
  }
  return list->len > before;
}

GArray *tuned_gemm_space(const Problem *problem, bool warpgroups, int64_t m, bool bounded)
{
  GArray *list = gemm_candidates(problem, warpgroups, m, bounded);
  append_thin_tiles(problem, list, m);
  gemm_candidates_measured(problem, warpgroups, m, bounded, list);
  unsigned n = list->len;
  for (unsigned i = 0; warpgroups && gemm_shares_copies(problem->gpu) && i < n; i++) {
    PricedCandidate pair = g_array_index(list, PricedCandidate, i);
    /* blocks of a pair take tiles below one another: there must be two */
    if (pair.candidate.swapped || pair.candidate.split_k > 1 || pair.candidate.stream_k > 1 ||
        pair.candidate.slices > 1 || pair.candidate.cluster_m > 1 || m <= pair.candidate.bm)
      continue;
    pair.candidate.cluster_m = 2;
    if (!gemm_candidate_legal(problem, &pair.candidate)) continue;
    pair.cost = gemm_candidate_cost(problem, &pair.candidate, m); /* an odd row of tiles costs a whole one */
    pair.cost.total *= problem->gpu->model->cluster_handicap;
    if (!gemm_candidate_listed(list, &pair.candidate)) g_array_append_val(list, pair);
  }
  g_array_sort(list, compare_cost);
  if (append_extras(problem, list)) g_array_sort(list, compare_cost);
  return list;
}

/* ---- what was measured ---- */

/* By the template that its values are of. */
static bool read_candidate(const Problem *problem, const TunedEntry *entry, GemmCandidate *candidate)
{
  bool warpgroups = candidate->warpgroups;
  for (const char *const *name = gemm_templates(problem); *name; name++) {
    const Space *space = spaces_of(problem->spaces, *name);
    if (!space) continue;
    Candidate general = candidate_absent(space);
    /* the walk is no candidate's: every one may have another than the model would choose */
    bool read = candidate_read(&general, entry, "raster");
    *candidate = gemm_candidate_from(&general, warpgroups);
    if (read && g_str_equal(gemm_candidate_template(problem, candidate), *name)) return true;
  }
  return false;
}

/* What was measured of this product, else of one whose epilogue reads no vector: that costs less than tiles
 * differ (docs/performance-log.md). So does a tile of few rows, a residual of a decoding step, which is a hundredth of the weights.
 * `without`: what the other's lacks, or NULL. */
static const TunedEntry *find_measured(const Problem *problem, TunedEntry *key, const char **without)
{
  const TunedDatabase *database = problem->options->tuned;
  Epilogue epilogue = epilogue_of(problem->op);
  const TunedEntry *entry = tuned_database_find(database, key);
  *without = NULL;
  if (!entry && epilogue.vector) {
    *without = "vectors";
    epilogue.vector = false;
    key->product = describe_product(problem, epilogue);
    entry = tuned_database_find(database, key);
  }
  if (!entry && epilogue.tile && key->m <= MOST_THIN) {
    *without = "what its epilogue reads";
    epilogue.tile = false;
    key->product = describe_product(problem, epilogue);
    entry = tuned_database_find(database, key);
  }
  return entry;
}

bool tuned_gemm_find(Chooser *chooser, bool warpgroups, int64_t m, bool bounded, GemmCandidate *candidate)
{
  TunedEntry key;
  const char *without;
  /* parameters that are forced are forced upon the model's choice */
  if (chooser->problem->options && chooser->problem->options->sets && *chooser->problem->options->sets)
    return false;
  if (!chooser->problem->options || !chooser->problem->options->tuned ||
      !tuned_gemm_key(chooser->problem, &key))
    return false;
  key.m = m;
  const TunedEntry *entry = find_measured(chooser->problem, &key, &without);
  if (!entry) return false;
  g_autofree char *text = tuned_parameters_text(entry);
  g_autoptr(GArray) space = tuned_gemm_space(chooser->problem, warpgroups, m, bounded);
  GemmCandidate wanted = {.warpgroups = warpgroups};
  if (!read_candidate(chooser->problem, entry, &wanted) || !gemm_candidate_listed(space, &wanted)) {
    choose_note(chooser, "M = %-6d tuned: %s is not legal here, so the model decides", (int)m, text);
    return false;
  }
  *candidate = gemm_candidate(chooser->problem, wanted, true);
  if (!candidate->raster) candidate->raster = gemm_candidate_raster(chooser->problem, candidate, m);
  choose_note(chooser, "M = %-6d tuned: %s, measured at M = %d%s%s: %.3f times as fast as the model's choice",
              (int)m, text, (int)entry->m, without ? " without " : "", without ? without : "",
              entry->first_us / entry->us);
  return true;
}
