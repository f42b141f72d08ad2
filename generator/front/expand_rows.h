/* Between expand_rows.c, expand_losses.c, expand_rotary.c, expand_experts.c and the like only: what bodies of row operators share. */
#pragma once
#include "generator/front/expand.h"

/* 16-bit floats in f32, all else as it is. */
GraphTensor *expand_widened(Expansion *at, GraphTensor *x);
/* The output has input 0's type. */
void expand_give_narrowed(Expansion *at, unsigned output, GraphTensor *value);
/* Bits as a list of dimensions. */
GraphTensor *expand_axes(Expansion *at, uint32_t axes);
/* Over some axes, which stay as 1. */
GraphTensor *expand_reduce(Expansion *at, OperatorId op, const char *part, GraphTensor *x, uint32_t axes);
/* Over some axes, which go. */
GraphTensor *expand_reduce_away(Expansion *at, OperatorId op, const char *part, GraphTensor *x,
                                uint32_t axes);
/* Attribute `axis`, of input 0, counted from the front; false: reported. */
bool expand_read_axis(Expansion *at, unsigned *axis);
/* Of ends of groups: the highest up to each group, or (`before`) in front of it: at least 0, no more than there are rows. */
GraphTensor *expand_highest_ends(Expansion *at, GraphTensor *ends, const Symbolic *rows, bool before);
/* 1 / sqrt(variance + attribute `epsilon`) */
GraphTensor *expand_inverse(Expansion *at, GraphTensor *variance);
