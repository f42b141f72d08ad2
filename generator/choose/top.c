/* Rows in order: short rows by a warp each, longer ones by a block, whole or a chunk at a time. A thread has so many words of
 * keys: an element of at most 16 bits with its place in the row fits one, if rows are not too long, others take two. */
#include "generator/choose/top.h"
#include "generator/program/top.h"

#define VECTOR_BYTES 16 /* of a thread's widest access */
#define WORD_BITS    32 /* of a register */
#define ELEMENT_BITS 16 /* in a key of one word, with PLACE_BITS of its place and one of its sign */
#define PLACE_BITS   15

typedef struct {
  NumberType key;
  unsigned rows, cols, keep, threads;
  bool whole; /* a block has all of a row */
} Form;

/* Keys that a thread has; 0: rows are too long for places of 31 bits. */
static unsigned keys_of_thread(const Problem *problem, const Form *form)
{
  return problem->gpu->model->top_words * WORD_BITS / number_bits(form->key);
}

static const char *find_form(const Problem *problem, Form *form)
{
  const CostModel *model = problem->gpu->model;
  const FusedTop *top = top_of(problem->op);
  int64_t longest = choose_maximum(problem, top->columns), count = MAX(1, top->count);
  unsigned lanes = problem->gpu->warp_size;
  bool small = number_bits(top_element(problem->op)) <= ELEMENT_BITS && longest <= 1 << PLACE_BITS;
  *form = (Form){.key = small ? NUMBER_S32 : NUMBER_S64, .rows = 1};
  form->keep = choose_power_of_two(count, 1, model->top_whole);
  unsigned width = choose_power_of_two(MAX(longest, count), lanes, model->top_whole);
  unsigned chunk = MAX(model->top_chunk, form->keep);
  form->whole = longest <= MAX(chunk, form->keep * model->top_share) && longest <= width;
  form->cols = form->whole ? width : chunk;
  if (form->keep < count || (!form->whole && form->keep > model->top_joined))
    return "so many elements of a row are not put in order";
  unsigned each = keys_of_thread(problem, form);
  form->threads = CLAMP(form->cols / each, lanes, problem->gpu->threads_per_block);
  if (form->threads == lanes) { /* a warp each */
    form->rows = model->row_warps;
    form->threads = lanes * model->row_warps;
  }
  return NULL;
}

const char *top_refusal(const Problem *problem)
{
  Form form;
  return find_form(problem, &form);
}

/* Accesses of 16 bytes along the columns, none of which straddles a row's end. Results have no variant of their own: what is
 * known of their strides decides how wide they are stored. */
static bool take_vectors(const Problem *problem, Choice *choice)
{
  const FusedOperator *op = problem->op;
  const FusedInput *input = &op->inputs[top_of(op)->source.index];
  unsigned vector = number_elements(input->tensor->type, VECTOR_BYTES);
  bool whole = symbolic_equals(input->strides[1], 1) &&
               choose_require_multiple(problem, choice, input->strides[0], vector) &&
               choose_require_align(problem, choice, input->tensor, VECTOR_BYTES) &&
               choose_require_multiple(problem, choice, top_of(op)->columns, vector);
  for (unsigned i = 0; whole && i < op->n_outputs; i++)
    whole = choose_require_align(problem, choice, op->outputs[i].tensor, VECTOR_BYTES);
  return whole;
}

static void finish(Chooser *chooser, Choice *choice, const Form *form)
{
  bool wide = form->key == NUMBER_S64;
  choice_set_int(choice, "rows", form->rows);
  choice_set_int(choice, "cols", form->cols);
  choice_set_int(choice, "keep", form->keep);
  choice_set_int(choice, "whole", form->whole);
  choice_set_int(choice, "threads", form->threads);
  choice_set_name(choice, "key", number_name(form->key));
  choice_set_int(choice, "last", wide ? INT64_MAX : INT32_MAX);
  choice->tile_text = arena_printf(chooser->problem->arena, "%ux%u", form->rows, form->cols);
  choice->suffix = arena_printf(chooser->problem->arena, "%ux%ux%u", form->rows, form->cols, form->keep);
  choice->stages = 1;
  chooser->n++;
}

bool choose_top(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  const GraphNode *node = problem->op->anchor ? problem->op->anchor : problem->op->nodes[0];
  Form form;
  const char *why = find_form(problem, &form);
  if (why) {
    error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "top-count",
              "fewer elements, or rows that are known to be short",
              "the %" G_GINT64_FORMAT " first of a row: %s", top_of(problem->op)->count, why);
    return false;
  }
  choose_note(chooser, "%s: keys of %u bits, %s, %u of them a thread",
              form.whole ? "whole rows" : "chunks of rows", number_bits(form.key),
              form.rows > 1 ? "a warp a row" : "a block a row", keys_of_thread(problem, &form));
  Choice *choice = choose_open(chooser, "row_top");
  if (take_vectors(problem, choice)) finish(chooser, choice, &form);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  choice = choose_open(chooser, "row_top");
  finish(chooser, choice, &form);
  return true;
}

const SpaceKind *space_kind_top(void)
{
  return NULL;
}
