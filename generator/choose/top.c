/* Rows in order: short rows by a warp each, longer ones by a block, whole or a chunk at a time. A thread has so many words of
 * keys: an element of at most 16 bits with its place in the row fits one, if rows are not too long, others take two. */
#include "generator/choose/top.h"
#include "generator/choose/contest.h"
#include "generator/program/top.h"

#define VECTOR_BYTES 16 /* of a thread's widest access */
#define ELEMENT_BITS 16 /* in a key of one word, with PLACE_BITS of its place and one of its sign */
#define PLACE_BITS   15

/* Elements are compared as f32, which has all of them, from the largest on. */
static bool is_pickable(const Problem *problem)
{
  NumberType type = top_element(problem->op);
  return top_of(problem->op)->largest && (type == NUMBER_F32 || number_bits(type) <= ELEMENT_BITS);
}

#define FACTS            "generator/choose/top_facts.def"
#define FACT_NAMES       static const char *const facts
#define FACT_TRIED_NAMES static const char *const tried_facts
#define FACT_ARGUMENTS   const Problem *problem, NumberType key
#define FACT_LOCALS      const FusedTop *top = top_of(problem->op)
#include "generator/choose/fact_table.h"

const SpaceKind *space_kind_top(void)
{
  static const Axis axes[] = {{"keep"}, {"whole"},     {"cols"},  {"threads"},
                              {"rows"}, {"survivors"}, {"picks"}, {"blocks"}};
  static const SpaceKind kind = SPACE_KIND("row_top", axes, NULL, false);
  return &kind;
}

static NumberType key_of(const Problem *problem)
{
  int64_t longest = choose_maximum(problem, top_of(problem->op)->columns);
  bool small = number_bits(top_element(problem->op)) <= ELEMENT_BITS && longest <= 1 << PLACE_BITS;
  return small ? NUMBER_S32 : NUMBER_S64;
}

static bool find_form(const Problem *problem, Candidate *form)
{
  g_autofree int64_t *values = fact_values(problem, key_of(problem));
  return trial_first(problem, "row_top", values, form, NULL);
}

const char *top_refusal(const Problem *problem)
{
  Candidate form;
  return find_form(problem, &form) ? NULL : "so many elements of a row are not put in order";
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

/* Rows that end with a chunk: nothing stands behind their last element. */
static bool are_even(const Problem *problem, const Candidate *form)
{
  int64_t columns, chunk = candidate_int(form, "cols");
  return symbolic_is_constant(top_of(problem->op)->columns, &columns) && columns > 0 && columns % chunk == 0;
}

/* Without vectors a thread keeps elements apart: many blocks would leave it too few registers. */
static void finish(Chooser *chooser, Choice *choice, const Candidate *form, bool vectors)
{
  NumberType key = key_of(chooser->problem);
  Arena *arena = chooser->problem->arena;
  candidate_carry(form, choice, NULL, NULL);
  if (!vectors && !choose_forced(chooser->problem, "blocks", NULL)) choice_set_int(choice, "blocks", 1);
  choice_set_name(choice, "key", number_name(key));
  choice_set_int(choice, "last", key == NUMBER_S64 ? INT64_MAX : INT32_MAX);
  choice_set_int(choice, "even", are_even(chooser->problem, form));
  choice->tile_text =
      arena_printf(arena, "%dx%d", (int)candidate_int(form, "rows"), (int)candidate_int(form, "cols"));
  choice->suffix = arena_printf(arena, "%sx%d%s", choice->tile_text, (int)candidate_int(form, "keep"),
                                candidate_words(form, arena));
  choice->stages = 1;
  chooser->n++;
}

bool choose_top(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  const GraphNode *node = problem->op->anchor ? problem->op->anchor : problem->op->nodes[0];
  Candidate form;
  const char *why = top_refusal(problem);
  if (why) {
    error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "top-count",
              "fewer elements, or rows that are known to be short",
              "the %" G_GINT64_FORMAT " first of a row: %s", top_of(problem->op)->count, why);
    return false;
  }
  find_form(problem, &form);
  int64_t rows = candidate_int(&form, "rows"), threads = candidate_int(&form, "threads");
  choose_note(chooser, "%s: keys of %u bits, %s, %d of them a thread",
              candidate_int(&form, "whole") ? "whole rows" : "chunks of rows", number_bits(key_of(problem)),
              rows > 1 ? "a warp a row" : "a block a row",
              (int)(candidate_int(&form, "cols") * rows / threads));
  Choice *choice = choose_open(chooser, "row_top");
  if (take_vectors(problem, choice)) finish(chooser, choice, &form, true);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  choice = choose_open(chooser, "row_top");
  finish(chooser, choice, &form, false);
  return true;
}
