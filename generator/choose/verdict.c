#include "generator/choose/verdict.h"

void verdict_refuse(ProgramVerdict *verdict, const char *why)
{
  *verdict = (ProgramVerdict){.why = why};
}

void verdict_price(ProgramVerdict *verdict, double clocks, const char *why)
{
  verdict->priced = true;
  verdict->clocks = clocks;
  verdict->why = why;
}
