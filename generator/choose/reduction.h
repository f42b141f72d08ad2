/* What templates that reduce rows have in common. */
#pragma once
#include "generator/choose/choose.h"

/* Sum, largest or least: the parameters of a template that takes them. */
void choose_reduction(Choice *choice, ProgramReduction reduction, NumberType compute);
