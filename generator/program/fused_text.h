/* Parts of fused operators as text; between what describes them (family.h) and fused.c only. */
#pragma once
#include "generator/program/fused.h"

void fused_put_list(GString *text, const char *title, const Symbolic *const *list, unsigned n);
void fused_put_value(GString *text, const char *title, const Symbolic *value);
/* The tensor, and where a part of it begins. */
void fused_put_tensor(GString *text, const GraphTensor *tensor);
void fused_put_operand(GString *text, const FusedOperator *fused, const FusedOperand *operand);
