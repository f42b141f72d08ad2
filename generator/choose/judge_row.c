/* Rows have no price yet. */
#include "generator/choose/verdict.h"

void judge_row(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
}
