/* What `run --check` tells of an output, in words and as JSON. */
#pragma once
#include "execute/data.h"
#include <jansson.h>

/* "ok", "wrong", "wide" (nothing proves it, and nobody admitted that) or "admitted". */
const char *run_comparison_status(const RunComparison *comparison);
/* Why an output does not pass, or was admitted, in lines of its own; NULL: it is ok. g_free. */
char *run_comparison_reason(const GraphTensor *output, const RunComparison *comparison);
/* The object of an output; comparison NULL: it was not compared. */
json_t *run_comparison_json(const GraphTensor *output, const RunComparison *comparison);
