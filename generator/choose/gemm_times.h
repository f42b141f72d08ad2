/* A product over all times of a loop (generator/program/times.h). */
#pragma once
#include "generator/choose/problem.h"

/* The one variant; false: there is none, as a note says. */
bool choose_gemm_times(Chooser *chooser);
