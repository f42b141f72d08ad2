/* What parts.c, which compiles each part of a graph with loops by itself, needs of compile.c. */
#pragma once
#include "generator/compile/compile.h"

/* A graph without loops. names: those of kernels of parts before it -> the keys of what they compute, to which it adds its own, so
 * that kernels of several parts have names of their own; NULL: it is the whole. */
CompileResult *compile_graph(const Graph *graph, const Gpu *gpu, const CompileOptions *asked,
                             GHashTable *names, GError **error);
/* A launch that waits may start while the one before it runs. Its dependencies are there. */
void compile_allow_overlap(Plan *plan, PlanLaunch *launch);
/* Launches that share parts and flags come one after the other. */
void compile_order_sharers(Plan *plan);
