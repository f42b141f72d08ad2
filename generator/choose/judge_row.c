/* Rows have no price yet. What no other template takes is a row program, whose rows must fit. */
#include "generator/choose/row_program.h"
#include "generator/choose/verdict.h"
#include "generator/program/row.h"

void judge_row(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const char *why = row_of(problem->op)->kind == ROW_PROGRAM ? row_program_refuse(problem) : NULL;
  if (why) verdict_refuse(verdict, why);
}
