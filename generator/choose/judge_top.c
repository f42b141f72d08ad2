/* Rows in order: what of them fits a block is known where a kernel is chosen. */
#include "generator/choose/top.h"
#include "generator/choose/verdict.h"

void judge_top(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const char *why = top_refusal(problem);
  if (why) verdict_refuse(verdict, why);
}
