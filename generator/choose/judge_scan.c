/* Scans take any rows; nobody asks for their price yet. */
#include "generator/choose/verdict.h"

void judge_scan(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
}
