/* Elementwise: a variant of 16-byte accesses where shapes and addresses allow it, and one of single elements.
 */
#include "generator/program/elementwise.h"
#include "generator/choose/choose.h"
#include "ir/resources.h"

#define VECTOR_BYTES 16

static unsigned widest_element(const FusedOperator *op)
{
  unsigned bytes = 1;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!symbolic_equals(op->inputs[i].strides[op->rank - 1], 0) || elementwise_scatters(op, i))
      bytes = MAX(bytes, number_bytes(op->inputs[i].tensor->type));
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

/* Rows of an input may lie at any index of these dimensions, but each element at the end of the one before. */
static bool require_input(const Problem *problem, Choice *choice, unsigned input, unsigned vector,
                          unsigned bytes)
{
  const FusedOperator *op = problem->op;
  const ElementPlace *place = elementwise_place(op, input);
  if (elementwise_scatters(op, input)) return true; /* element by element */
  bool along = !symbolic_equals(op->inputs[input].strides[op->rank - 1], 0);
  for (unsigned i = 0; place && along && i < place->n; i++)
    if (!choose_require_multiple(problem, choice, place->indices[i].stride, vector)) return false;
  return require_operand(problem, choice, op->inputs[input].tensor, op->inputs[input].strides, vector, bytes);
}

/* Accesses of so many bytes by the widest operand. */
static bool require_vectors(const Problem *problem, Choice *choice, unsigned bytes)
{
  const FusedOperator *op = problem->op;
  unsigned vector = bytes / widest_element(op);
  if (!choose_require_multiple(problem, choice, op->dims[op->rank - 1], vector)) return false;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!require_input(problem, choice, i, vector, bytes)) return false;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!require_operand(problem, choice, op->outputs[i].tensor, op->outputs[i].strides, vector, bytes))
      return false;
  return true;
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

/* Results of steps that are alive at once, at most: until the last step that reads them or, of what is stored, to
 * the end. */
static unsigned most_alive(const FusedOperator *op)
{
  g_autofree unsigned *last = g_new0(unsigned, op->n_steps + 1), *ending = g_new0(unsigned, op->n_steps + 1);
  unsigned alive = 0, most = 0;
  for (unsigned i = 0; i < op->n_steps; i++)
    for (unsigned j = 0; j < op->steps[i].n_operands; j++)
      if (op->steps[i].operands[j].kind == OPERAND_STEP) last[op->steps[i].operands[j].index] = i;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].value.kind == OPERAND_STEP) last[op->outputs[i].value.index] = op->n_steps;
  for (unsigned i = 0; i < op->n_steps; i++)
    ending[last[i]]++;
  for (unsigned i = 0; i < op->n_steps; i++) {
    alive++;
    most = MAX(most, alive);
    alive -= ending[i];
  }
  return most;
}

/* Has a thread registers for so many elements? */
static bool fits_registers(const CostModel *model, const FusedOperator *op, unsigned elements)
{
  unsigned words = 1;
  for (unsigned i = 0; i < op->n_steps; i++)
    words = MAX(words, number_bits(op->steps[i].compute) / 32);
  return elements == 1 || most_alive(op) * elements * words <= model->step_registers;
}

/* Under a budget of SMs each has one block, which must keep enough loads in flight alone. */

/* Vectors of a thread, all loaded at once: the more, the fewer threads an SM has. A power of two. */
static unsigned vectors_a_thread(const Gpu *gpu)
{
  const CostModel *model = gpu->model;
  unsigned threads = resident_blocks(gpu, model->element_threads) * model->element_threads, vectors = 1;
  while (vectors < model->element_vectors && 2 * vectors * threads * VECTOR_BYTES <= model->element_bytes)
    vectors *= 2;
  return vectors;
}

/* Of what a thread walks through several elements are loaded at once already; with two vectors windows of 3 x 3 spilled. */
#define WALKED_VECTORS 1

static void finish(Chooser *chooser, Choice *choice, unsigned vector)
{
  const CostModel *model = chooser->problem->gpu->model;
  bool alone = chooser->problem->options && chooser->problem->options->sm_budget,
       copies = !chooser->problem->op->n_steps;
  unsigned threads = alone ? model->lone_threads : model->element_threads;
  bool narrow = vector * widest_element(chooser->problem->op) < VECTOR_BYTES;
  unsigned accesses = narrow && copies ? model->copy_accesses
                      : alone          ? model->lone_vectors
                                       : vectors_a_thread(chooser->problem->gpu);
  if (elementwise_of(chooser->problem->op) && elementwise_of(chooser->problem->op)->n_walks)
    accesses = WALKED_VECTORS;
  while (accesses > 1 && !fits_registers(model, chooser->problem->op, vector * accesses))
    accesses /= 2;
  unsigned block = threads * accesses * vector;
  choice->vector = vector;
  choice_set_int(choice, "block", block);
  choice_set_int(choice, "vector", vector);
  choice_set_int(choice, "threads", threads);
  choice->tile_text = arena_printf(chooser->problem->arena, "%u", block);
  choice->suffix = arena_printf(chooser->problem->arena, "%sv%u", choice->ragged ? "ragged_" : "", vector);
  choice->stages = 1;
  chooser->n++;
}

/* ---- Tensors that are contiguous along different dimensions ---- */

#define TILE_PATCH   16 /* patches along each side of a tile: 8 x 4 a warp, 2 x 4 warps */
#define TILE_THREADS 256

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

static void finish_turned(Chooser *chooser, Choice *choice, unsigned patch, bool fast)
{
  unsigned edge = patch * TILE_PATCH;
  choice->vector = patch;
  choice_set_int(choice, "bm", edge);
  choice_set_int(choice, "bn", edge);
  choice_set_int(choice, "threads", TILE_THREADS);
  choice->tile_text = arena_printf(chooser->problem->arena, "%ux%u", edge, edge);
  choice->suffix = arena_printf(chooser->problem->arena, "%s%s", choice->tile_text, fast ? "" : "_any");
  choice->stages = 1;
  chooser->n++;
}

static bool choose_turned(Chooser *chooser)
{
  const FusedOperator *turned = chooser->problem->turned;
  if (!turned) return false;
  unsigned bytes = 1;
  for (unsigned i = 0; i < turned->n_inputs; i++)
    bytes = MAX(bytes, number_bytes(turned->inputs[i].tensor->type));
  for (unsigned i = 0; i < turned->n_outputs; i++)
    bytes = MAX(bytes, number_bytes(turned->outputs[i].tensor->type));
  unsigned patch = MIN(VECTOR_BYTES / bytes, chooser->problem->gpu->model->patch_side);
  while (patch > 2 && !fits_registers(chooser->problem->gpu->model, turned, patch * patch))
    patch /= 2;
  choose_note(chooser, "tensors are contiguous along different dimensions: patches of %ux%u a thread", patch,
              patch);
  Choice *choice = choose_open(chooser, "transpose");
  if (require_patches(chooser->problem, choice, turned, patch))
    finish_turned(chooser, choice, patch, true);
  else
    choose_note(chooser, "vectors rejected: an extent or stride is no multiple of %u", patch);
  if (chooser->n && !chooser->variants[0].guard) return true;
  finish_turned(chooser, choose_open(chooser, "transpose"), patch, false);
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
  return choice->narrow;
}

/* Vectors of so many bytes; false: an extent or stride is no multiple. */
static bool add_vectors(Chooser *chooser, unsigned bytes, unsigned element)
{
  for (bool more = true; more;) {
    Choice *choice = choose_open(chooser, "elementwise");
    if (!require_vectors(chooser->problem, choice, bytes)) return false;
    more =
        !(chooser->n && chooser->variants[chooser->n - 1].vector) && require_short(chooser->problem, choice);
    finish(chooser, choice, bytes / element);
  }
  return true;
}

const SpaceKind *space_kind_elementwise(void)
{
  return NULL;
}

bool choose_elementwise(Chooser *chooser)
{
  if (choose_turned(chooser)) return true;
  unsigned element = widest_element(chooser->problem->op), bytes = VECTOR_BYTES;
  while (bytes > element &&
         !fits_registers(chooser->problem->gpu->model, chooser->problem->op, bytes / element))
    bytes /= 2;
  if (bytes < VECTOR_BYTES && element < bytes)
    choose_note(chooser, "accesses of %u bytes: the registers hold no more elements of %u results", bytes,
                most_alive(chooser->problem->op));
  if (element == bytes || !add_vectors(chooser, bytes, element))
    choose_note(chooser, "vectors of %u bytes rejected: an extent or stride is no multiple of %u", bytes,
                bytes / element);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  Choice *choice = choose_open(chooser, "elementwise");
  choice->ragged =
      require_ragged(chooser->problem, choice, VECTOR_BYTES / element); /* a copy: it has no steps */
  if (choice->ragged) finish(chooser, choice, VECTOR_BYTES / element);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  for (bytes /= 2; bytes > element; bytes /= 2) { /* what is known anyway */
    choice = choose_open(chooser, "elementwise");
    if (require_vectors(chooser->problem, choice, bytes) && !choice->guard) break;
  }
  choice = choose_open(chooser, "elementwise");
  if (require_short(chooser->problem, choice)) finish(chooser, choice, MAX(1, bytes / element));
  finish(chooser, choose_open(chooser, "elementwise"), MAX(1, bytes / element));
  return true;
}

const SpaceKind *space_kind_walk(void)
{
  return NULL;
}

bool choose_walk(Chooser *chooser)
{
  return choose_elementwise(chooser);
}
