/* Attention is one kernel where some tile of it compiles. */
#include "generator/choose/attention.h"
#include "generator/choose/verdict.h"
#include "generator/program/attention.h"

#define NARROW_ROW 80  /* bytes of such a row up to which threads bring a tile's rows */
#define WIDE_ROW   128 /* the same of several queries */

/* Pages of one row of 8 bits, whose numbers are more than the registers of those who bring a tile of them: gathered they are right. An
 * operator that takes pages itself has no other way. */
static const char *refuse_lone_rows(const Problem *problem)
{
  const FusedAttention *attention = attention_of(problem->op);
  int64_t depth;
  if (attention->pages.rows != 1 || attention->sequences.packed || !number_has_bytes(attention->stored, 1) ||
      !gpu_has(problem->gpu, "tma") || !symbolic_is_constant(attention->depth, &depth))
    return NULL;
  int64_t most = symbolic_equals(attention->rows, 1) ? NARROW_ROW : WIDE_ROW;
  return depth > most ? NULL : "pages of one row have more numbers than a producer has registers";
}

void judge_attention(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const char *why = refuse_lone_rows(problem);
  if (!why) why = attention_refuse(problem);
  if (why) verdict_refuse(verdict, why);
  if (why || !priced) return;
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  chooser->problem = problem;
  if (choose_attention(chooser) && chooser->n)
    verdict_price(verdict, attention_clocks(problem, &chooser->variants[0]), NULL);
}
