/* --accumulate: how sums of products of 8-bit floats are kept. accumulate_parse() reads the value. */
#pragma once
#include "cli/cli.h"

extern const char *const accumulate_choices[];

/* A row for a command's options. */
#define OPTION_ACCUMULATE                                                                                    \
  {                                                                                                          \
    .name = "accumulate", .value = "MODE", .choices = accumulate_choices,                                    \
    .doc = "sums of products of 8-bit floats, where the graph does not say: exact (default; partial sums "   \
           "are added in f32), or fast (default of --math fast): as the tensor cores keep them"              \
  }
