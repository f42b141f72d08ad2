/* Between compile*.c only: launches of the plan. */
#pragma once
#include "generator/compile/compile.h"
#include "generator/fusion/operator_key.h"
#include "generator/kernel/kernel.h"

/* Adds the variant that launches a kernel which `build` was made into. */
bool compile_fill_variant(Plan *plan, PlanLaunch *launch, const KernelBuild *build,
                          const CompiledKernel *kernel, GError **error);
/* Adds a variant with another guard for the kernel that one before it has. */
void compile_repeat_variant(Plan *plan, PlanLaunch *launch, const PlanVariant *like, const Symbolic *guard);
/* Gives a launch the variants that the launch of an operator of the same key text has, over its own tensors and
 * symbols. The plan owns the other's expressions already. */
void compile_repeat_launch(Plan *plan, PlanLaunch *launch, const OperatorKey *key, const PlanLaunch *like,
                           const OperatorKey *like_key);
/* An expression of one operator as that of another one with the same key text. NULL gives NULL. */
const Symbolic *compile_rename(Arena *arena, const Symbolic *expression, const OperatorKey *from,
                               const OperatorKey *to);
