/* How rows are put in order: what a block sorts at a time. */
#pragma once
#include "generator/choose/choose.h"

/* Why no kernel gives so many of a row; NULL: one does. */
const char *top_refusal(const Problem *problem);
