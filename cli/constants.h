/* Constants that an op description holds itself, written beside the plan for whoever launches it. */
#pragma once
#include "generator/graph.h"
#include "generator/plan.h"

#define CONSTANTS_FILE "constants.safetensors"

/* Names CONSTANTS_FILE as the place of every constant of the plan whose data stand in the graph, and gives
 * that file's bytes (safetensors); NULL if there is no such constant. */
GBytes *constants_gather(const Graph *graph, Plan *plan);
