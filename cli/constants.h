/* The constants of a graph, written beside the plan for whoever launches it. */
#pragma once
#include "base/output.h"
#include "generator/front/graph.h"
#include "plan/plan.h"

#define CONSTANTS_FILE "constants.safetensors"

/* Writes the constants that the plan has as `folder`/CONSTANTS_FILE, those that the graph takes from files
 * too, and names it in the plan; nothing where there are none. ERROR_INPUT for a file that is missing or
 * holds another tensor. */
bool constants_write(const Graph *graph, Plan *plan, Output *output, const char *folder, GError **error);
