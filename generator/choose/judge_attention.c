/* Attention is one kernel where some tile of it compiles. */
#include "generator/choose/attention.h"
#include "generator/choose/verdict.h"

void judge_attention(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const char *why = attention_refuse(problem);
  if (why) verdict_refuse(verdict, why);
  if (why || !priced) return;
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  chooser->problem = problem;
  if (choose_attention(chooser) && chooser->n)
    verdict_price(verdict, attention_clocks(problem, &chooser->variants[0]), NULL);
}
