/* Between the bodies of operators of com.microsoft. */
#pragma once
#include "generator/front/expand.h"

/* ERROR_UNSUPPORTED by its name, if the input is there, the output wanted, the attribute above 0. */
void expand_refuse_input(Expansion *at, unsigned input, const char *name);
void expand_refuse_output(Expansion *at, unsigned output, const char *name);
void expand_refuse_flag(Expansion *at, const char *attribute);
/* x, with what is added to it where that is not NULL. */
GraphTensor *expand_added(Expansion *at, const char *part, GraphTensor *x, GraphTensor *more);
/* 0, 1, ... for each row of [batch, rows, elements] or [batch, heads, rows, elements]: [batch, rows], s32. */
GraphTensor *expand_positions(Expansion *at, GraphTensor *x);
