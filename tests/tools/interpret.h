/* Carries out fused operators element by element, by their strides and steps, with the reference's scalar
 * functions: a fusion is right if this gives what the graph gives. */
#pragma once
#include "generator/fusion/fusion.h"
#include "reference/operators.h"

/* Largest relative difference between the fusion's outputs and the graph's, on default data. The graph must
 * be bound. */
bool interpret_fusion(const Fusion *fusion, uint64_t seed, double *difference, GError **error);
