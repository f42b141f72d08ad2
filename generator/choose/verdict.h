/* Between the judge and families' parts of it. */
#pragma once
#include "generator/choose/choose.h"

void verdict_refuse(ProgramVerdict *verdict, const char *why);
void verdict_price(ProgramVerdict *verdict, double clocks, const char *why);
/* Judges one program that the family's matcher took: refuses it, and gives it a price if the GPU's model has
 * one and it is wanted. */
#define FAMILY(name, ...) void judge_##name(const Problem *problem, bool priced, ProgramVerdict *verdict);
#include "generator/program/families.def"
#undef FAMILY
