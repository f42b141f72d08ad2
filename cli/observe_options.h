/* What sim and run on the simulator have in common: watching instructions. */
#pragma once
#include "cli/cli.h"
#include "simulator/simulator.h"

/* Rows of the option table. */
#define OPTIONS_OBSERVE                                                                                      \
  {.name = "counts", .doc = "counts bank conflicts and sectors of each instruction that accesses memory"},   \
      {.name = "break",                                                                                      \
       .value = "FILE.ptx:LINE",                                                                             \
       .repeated = true,                                                                                     \
       .doc = "shows what a warp holds whenever it reaches the line; the file may be left out"},             \
      {.name = "watch",                                                                                      \
       .value = "WHAT",                                                                                      \
       .repeated = true,                                                                                     \
       .doc = "what to show: registers, fragment:..., shared:..., global:... (docs/simulator.md); default: " \
              "the registers of the instruction"},                                                           \
      {.name = "warp",                                                                                       \
       .value = "BLOCK:WARP",                                                                                \
       .doc = "whose stops are shown, such as 0:3 or 1,2,0:3; default: the first to reach the line"},        \
  {                                                                                                          \
    .name = "hits", .value = "N", .doc = "how many stops a break shows; default: 1, 0: all of them"          \
  }

/* Takes these options; the texts belong to the arguments. ERROR_USAGE. */
bool observe_options(const Arguments *arguments, SimOptions *options, GError **error);
