/* Elementwise: a variant of 16-byte accesses where shapes and addresses allow it, and one of single elements.
 */
#include "generator/program/elementwise.h"
#include "generator/choose/choose.h"
#include "generator/choose/contest.h"
#include "ir/resources.h"

#define VECTOR_BYTES 16

static unsigned widest_element(const FusedOperator *op)
{
  unsigned bytes = 1;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!symbolic_equals(op->inputs[i].strides[op->rank - 1], 0) || elementwise_scatters(op, i))
      bytes = MAX(bytes, (unsigned)number_bytes_of(op->inputs[i].tensor->type, 1));
  for (unsigned i = 0; i < op->n_outputs; i++)
    bytes = MAX(bytes, number_bytes(op->outputs[i].tensor->type));
  return bytes;
}

static bool require_operand(const Problem *problem, Choice *choice, const GraphTensor *tensor,
                            const Symbolic *const *strides, unsigned vector, unsigned bytes)
{
  unsigned rank = problem->op->rank;
  if (symbolic_equals(strides[rank - 1], 0)) return true;
  if (!symbolic_equals(strides[rank - 1], 1)) return false;
  for (unsigned d = 0; d + 1 < rank; d++)
    if (!choose_require_multiple(problem, choice, strides[d], vector)) return false;
  return choose_require_align(problem, choice, tensor, bytes);
}

/* Rows of an input, or of an output behind the inputs, may lie at any index of these dimensions, but each element at the end of
 * the one before. */
static bool require_placed(const Problem *problem, Choice *choice, unsigned i, unsigned vector,
                           unsigned bytes)
{
  const FusedOperator *op = problem->op;
  const ElementPlace *place = elementwise_place(op, i);
  const bool input = i < op->n_inputs;
  const GraphTensor *tensor = input ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor;
  const Symbolic *const *strides = input ? op->inputs[i].strides : op->outputs[i - op->n_inputs].strides;
  if (elementwise_scatters(op, i)) /* element by element, but for those that lie in runs */
    return !elementwise_runs(op) || choose_require_align(problem, choice, tensor, VECTOR_BYTES);
  bool along = !symbolic_equals(strides[op->rank - 1], 0);
  for (unsigned j = 0; place && along && j < place->n; j++)
    if (!choose_require_multiple(problem, choice, place->indices[j].stride, vector)) return false;
  return require_operand(problem, choice, tensor, strides, vector, bytes);
}

/* Elements of the input lie side by side, at each point's own place. */
static bool reads_along(const FusedOperator *op, unsigned input)
{
  return !elementwise_place(op, input) && choose_reads_along(op, input);
}

/* Elements and bytes of an access. */
typedef struct {
  unsigned vector, bytes;
} Access;

static bool require_access(const Problem *problem, Choice *choice, unsigned i, void *data)
{
  const Access *access = data;
  return require_placed(problem, choice, i, access->vector, access->bytes);
}

/* Accesses of so many bytes by the widest operand. */
static bool require_vectors(const Problem *problem, Choice *choice, unsigned bytes)
{
  const FusedOperator *op = problem->op;
  Access access = {bytes / widest_element(op), bytes};
  return choose_require_multiple(problem, choice, op->dims[op->rank - 1], access.vector) &&
         choose_require_operands(problem, choice, reads_along, require_access, &access);
}

/* A copy into rows that start at multiples of 16 bytes, of rows that start anywhere: the outputs of a vector
 * are read one by one from neighbouring addresses, which the first-level cache brings together, and stored at
 * once. What is known of N and K decides, so that there are no guards but for addresses. */
static bool require_ragged(const Problem *problem, Choice *choice, unsigned vector)
{
  const FusedOperator *op = problem->op;
  bool copies = !elementwise_of(op) && !op->n_steps && op->n_inputs == 1 && op->n_outputs == 1 && vector > 1;
  if (!copies || op->rank < 2 || !symbolic_is_constant(op->dims[op->rank - 1], NULL)) return false;
  const FusedOutput *output = &op->outputs[0];
  if (!symbolic_equals(op->inputs[0].strides[op->rank - 1], 1) ||
      !symbolic_equals(output->strides[op->rank - 1], 1))
    return false;
  for (unsigned d = 0; d + 1 < op->rank; d++)
    if (!symbolic_divisible(output->strides[d], vector, &problem->graph->facts)) return false;
  return choose_require_align(problem, choice, output->tensor, VECTOR_BYTES);
}

/* Of which steps does each element have its own result, rather than one with its neighbours, as an index that is looked up is? */
static bool *own_steps(const FusedOperator *op)
{
  bool *own = g_new0(bool, op->n_steps + 1);
  for (unsigned i = 0; i < op->n_steps; i++)
    for (unsigned j = 0; j < op->steps[i].n_operands && !own[i]; j++) {
      const FusedOperand *operand = &op->steps[i].operands[j];
      own[i] = operand->kind == OPERAND_STEP ? own[operand->index] : elementwise_varies(op, operand);
    }
  return own;
}

/* Results of steps that each element has of its own and that are alive at once, at most: until the last step that reads them or,
 * of what is stored, to the end. */
static unsigned most_alive(const FusedOperator *op, const bool *own)
{
  g_autofree unsigned *last = g_new0(unsigned, op->n_steps + 1), *ending = g_new0(unsigned, op->n_steps + 1);
  unsigned alive = 0, most = 0;
  for (unsigned i = 0; i < op->n_steps; i++)
    for (unsigned j = 0; j < op->steps[i].n_operands; j++)
      if (op->steps[i].operands[j].kind == OPERAND_STEP) last[op->steps[i].operands[j].index] = i;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].value.kind == OPERAND_STEP) last[op->outputs[i].value.index] = op->n_steps;
  for (unsigned i = 0; i < op->n_steps; i++)
    ending[last[i]] += own[i];
  for (unsigned i = 0; i < op->n_steps; i++) {
    alive += own[i];
    most = MAX(most, alive);
    alive -= ending[i];
  }
  return most;
}

/* Registers of an element of all results that are alive at once. */
static unsigned alive_registers(const FusedOperator *op)
{
  g_autofree bool *own = own_steps(op);
  unsigned words = 1;
  for (unsigned i = 0; i < op->n_steps; i++)
    if (own[i]) words = MAX(words, number_bits(op->steps[i].compute) / 32);
  return MAX(1, most_alive(op, own)) * words;
}

static unsigned gathered_inputs(const FusedOperator *op)
{
  const Elementwise *points = elementwise_of(op);
  unsigned n = 0;
  for (unsigned i = 0; points && points->places && i < op->n_inputs; i++) {
    bool loaded = false;
    for (unsigned j = 0; j < points->places[i].n; j++)
      loaded |= points->places[i].indices[j].loaded.kind != OPERAND_ABSENT;
    n += loaded;
  }
  return n;
}

/* Of a walk with known extents; 1: its length is loaded, or follows from symbols. */
static int64_t looked_by(const FusedOperator *op, const ElementWalk *walk)
{
  int64_t all = 1, extent;
  if (walk->length.kind != OPERAND_ABSENT) return 1;
  for (unsigned axis = 0; axis < op->program->n_axes; axis++) {
    if (!(walk->axes >> axis & 1)) continue;
    if (!symbolic_is_constant(op->program->axes[axis].extent, &extent)) return 1;
    all = MIN(all * extent, INT32_MAX);
  }
  return all;
}

static int64_t looked_at(const FusedOperator *op)
{
  const Elementwise *points = elementwise_of(op);
  int64_t most = 1;
  for (unsigned i = 0; (elementwise_is_upright(op) || elementwise_runs(op)) && i < points->n_walks; i++) {
    int64_t looked = looked_by(op, &points->walks[i]);
    if (elementwise_runs(op)) looked = (looked + 1) / 2; /* neighbours share most of what they read */
    if (looked <= ELEMENTWISE_UNROLLED) most = MAX(most, looked);
  }
  return most;
}

/* ---- what is tried ---- */

#define FACTS            "generator/choose/element_facts.def"
#define FACT_NAMES       static const char *const facts
#define FACT_TRIED_NAMES static const char *const tried_facts
#define FACT_ARGUMENTS   const Problem *problem, unsigned access
#define FACT_LOCALS      const FusedOperator *op = problem->op
#include "generator/choose/fact_table.h"

const SpaceKind *space_kind_elementwise(void)
{
  static const Axis axes[] = {{"vector"}, {"vectors"}, {"threads"}, {"block"}};
  static const Axis turned_axes[] = {{"bm"}, {"bn"}, {"threads"}, {"patch"}};
  static const SpaceKind turned = SPACE_KIND("transpose", turned_axes, NULL, false);
  static const SpaceKind kind = SPACE_KIND("elementwise", axes, &turned, false);
  return &kind;
}

const SpaceKind *space_kind_walk(void)
{
  return space_kind_elementwise();
}

/* Of a variant whose accesses are so many elements at most. */
static bool pick(Chooser *chooser, const char *template_name, unsigned access, Candidate *candidate)
{
  g_autofree int64_t *values = fact_values(chooser->problem, access);
  return trial_first(chooser->problem, template_name, values, candidate, chooser->error);
}

static void finish(Chooser *chooser, Choice *choice, const Candidate *candidate)
{
  Arena *arena = chooser->problem->arena;
  candidate_carry(candidate, choice, NULL, NULL);
  choice->vector = (unsigned)candidate_int(candidate, "vector");
  choice->tile_text = arena_printf(arena, "%d", (int)candidate_int(candidate, "block"));
  choice->suffix = arena_printf(arena, "%sv%u%s", choice->ragged ? "ragged_" : "", choice->vector,
                                candidate_words(candidate, arena));
  choice->stages = 1;
  chooser->n++;
}

/* ---- Tensors that are contiguous along different dimensions ---- */

/* Whole vectors along both dimensions. */
static bool require_patches(const Problem *problem, Choice *choice, const FusedOperator *turned,
                            unsigned vector)
{
  for (unsigned d = turned->rank - 2; d < turned->rank; d++)
    if (!choose_require_multiple(problem, choice, turned->dims[d], vector)) return false;
  for (unsigned i = 0; i < turned->n_inputs + turned->n_outputs; i++) {
    bool input = i < turned->n_inputs;
    const GraphTensor *tensor =
        input ? turned->inputs[i].tensor : turned->outputs[i - turned->n_inputs].tensor;
    const Symbolic *const *strides =
        input ? turned->inputs[i].strides : turned->outputs[i - turned->n_inputs].strides;
    for (unsigned d = 0; d < turned->rank; d++)
      if (!symbolic_equals(strides[d], 1) && !choose_require_multiple(problem, choice, strides[d], vector))
        return false;
    if (!choose_require_align(problem, choice, tensor, VECTOR_BYTES)) return false;
  }
  return true;
}

static void finish_turned(Chooser *chooser, Choice *choice, const Candidate *candidate, bool fast)
{
  Arena *arena = chooser->problem->arena;
  candidate_carry(candidate, choice, NULL, NULL);
  choice->vector = (unsigned)candidate_int(candidate, "patch");
  choice->tile_text =
      arena_printf(arena, "%dx%d", (int)candidate_int(candidate, "bm"), (int)candidate_int(candidate, "bn"));
  choice->suffix =
      arena_printf(arena, "%s%s%s", choice->tile_text, candidate_words(candidate, arena), fast ? "" : "_any");
  choice->stages = 1;
  chooser->n++;
}

static bool choose_turned(Chooser *chooser)
{
  const FusedOperator *turned = chooser->problem->turned;
  unsigned bytes = 1;
  for (unsigned i = 0; i < turned->n_inputs; i++)
    bytes = MAX(bytes, number_bytes(turned->inputs[i].tensor->type));
  for (unsigned i = 0; i < turned->n_outputs; i++)
    bytes = MAX(bytes, number_bytes(turned->outputs[i].tensor->type));
  Candidate candidate;
  if (!pick(chooser, "transpose", VECTOR_BYTES / bytes, &candidate)) return false;
  unsigned patch = (unsigned)candidate_int(&candidate, "patch");
  choose_note(chooser, "tensors are contiguous along different dimensions: patches of %ux%u a thread", patch,
              patch);
  Choice *choice = choose_open(chooser, "transpose");
  if (require_patches(chooser->problem, choice, turned, patch))
    finish_turned(chooser, choice, &candidate, true);
  else
    choose_note(chooser, "vectors rejected: an extent or stride is no multiple of %u", patch);
  if (chooser->n && !chooser->variants[0].guard) return true;
  if (!pick(chooser, "transpose", 1, &candidate)) return false;
  choose_note(chooser, "rows that begin anywhere: tiles are turned in shared memory");
  finish_turned(chooser, choose_open(chooser, "transpose"), &candidate, false);
  return true;
}

/* Offsets of 32 bits in what is walked through: half of the range leaves room for what windows have outside of it. */
static bool require_short_inputs(const Problem *problem, Choice *choice)
{
  const FusedOperator *op = problem->op;
  if (!elementwise_of(op) || !elementwise_of(op)->n_walks) return false;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const GraphTensor *tensor = op->inputs[i].tensor;
    const Symbolic *span = symbolic_constant(problem->arena, 0), *one = symbolic_constant(problem->arena, 1);
    for (unsigned d = 0; d < tensor->rank; d++)
      span = symbolic_add(problem->arena, span,
                          symbolic_mul(problem->arena, symbolic_sub(problem->arena, tensor->shape[d], one),
                                       tensor->strides[d]));
    if (!choose_require_at_most(problem, choice, span, INT32_MAX / 2)) return false;
  }
  return true;
}

/* Divisions by extents take a fifth of the instructions where 32 bits hold all indices: kernels that divide have a variant
 * for that, if it depends on what is not known. Half of the range leaves room for a block's groups behind the last. */
static bool require_short(const Problem *problem, Choice *choice)
{
  const FusedOperator *op = problem->op;
  int64_t least, most;
  const Symbolic *total = symbolic_constant(problem->arena, 1);
  for (unsigned d = 0; d < op->rank; d++)
    total = symbolic_mul(problem->arena, total, op->dims[d]);
  symbolic_range(total, &problem->graph->facts, &least, &most);
  if (op->rank == 1 || most <= INT32_MAX / 2) return false;
  choice->narrow = choose_require_at_most(problem, choice, total, INT32_MAX / 2);
  choice->narrow_inputs = choice->narrow && require_short_inputs(problem, choice);
  return choice->narrow;
}

/* Accesses of whole vectors, wherever they are taken at once; false: an extent or stride is no multiple. */
static bool add_vectors(Chooser *chooser, const Candidate *widest, unsigned bytes)
{
  for (bool more = true; more;) {
    Choice *choice = choose_open(chooser, "elementwise");
    if (!require_vectors(chooser->problem, choice, bytes)) return false;
    more =
        !(chooser->n && chooser->variants[chooser->n - 1].vector) && require_short(chooser->problem, choice);
    finish(chooser, choice, widest);
  }
  return true;
}

/* Rows that start anywhere, where what is read there is stored in whole vectors. */
static bool add_ragged(Chooser *chooser, unsigned vector)
{
  Candidate candidate;
  Choice *choice = choose_open(chooser, "elementwise");
  if (!require_ragged(chooser->problem, choice, vector)) return true;
  choice->ragged = true;
  if (!pick(chooser, "elementwise", vector, &candidate)) return false;
  finish(chooser, choice, &candidate);
  return true;
}

/* Accesses of less than so many bytes: of as many as are known to lie side by side anyway. */
static bool add_known(Chooser *chooser, unsigned bytes, unsigned element)
{
  Candidate candidate;
  Choice *choice;
  for (bytes /= 2; bytes > element; bytes /= 2) {
    choice = choose_open(chooser, "elementwise");
    if (require_vectors(chooser->problem, choice, bytes) && !choice->guard) break;
  }
  if (!pick(chooser, "elementwise", MAX(1, bytes / element), &candidate)) return false;
  choice = choose_open(chooser, "elementwise");
  if (require_short(chooser->problem, choice)) finish(chooser, choice, &candidate);
  finish(chooser, choose_open(chooser, "elementwise"), &candidate);
  return true;
}

/* Is some input read element by element, each at its own place? */
static bool reads_apart(const FusedOperator *op)
{
  bool apart = false;
  for (unsigned i = 0; i < op->n_inputs && !apart; i++)
    apart = elementwise_scatters(op, i);
  return apart && !elementwise_is_upright(op);
}

/* Fewer results a thread side by side, where wider ones do not divide a row: where they begin with vectors they are stored as such, and runs are read so. */
static bool add_narrow(Chooser *chooser, unsigned bytes, unsigned element)
{
  for (bytes /= 2; bytes > element && !chooser->n; bytes /= 2) {
    Candidate candidate;
    if (!pick(chooser, "elementwise", bytes / element, &candidate)) return false;
    if ((unsigned)candidate_int(&candidate, "vector") == bytes / element)
      add_vectors(chooser, &candidate, bytes);
  }
  return true;
}

static bool is_complete(const Chooser *chooser)
{
  return chooser->n && !chooser->variants[chooser->n - 1].guard;
}

bool choose_elementwise(Chooser *chooser)
{
  if (chooser->problem->turned) return choose_turned(chooser);
  unsigned element = widest_element(chooser->problem->op), most = VECTOR_BYTES / element;
  Candidate widest;
  if (!pick(chooser, "elementwise", most, &widest)) return false;
  unsigned vector = (unsigned)candidate_int(&widest, "vector"), bytes = vector * element;
  if (1 < vector && vector < most)
    choose_note(chooser, "accesses of %u bytes: the registers hold no more elements of what they compute",
                bytes);
  if (vector == 1 || !add_vectors(chooser, &widest, bytes))
    choose_note(chooser, "vectors of %u bytes rejected: an extent or stride is no multiple of %u", bytes,
                vector);
  if (reads_apart(chooser->problem->op) && !add_narrow(chooser, bytes, element)) return false;
  if (!is_complete(chooser) && !add_ragged(chooser, most)) return false;
  return is_complete(chooser) || add_known(chooser, bytes, element);
}

bool choose_walk(Chooser *chooser)
{
  return choose_elementwise(chooser);
}
