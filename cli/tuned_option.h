/* The measured choices that a command's options ask for. */
#pragma once
#include "cli/cli.h"
#include "generator/choose/tuned.h"

/* Rows for a command's options. */
#define OPTION_TUNED                                                                                         \
  {                                                                                                          \
    .name = "tuned", .value = "FILE", .repeated = true,                                                      \
    .doc = "measured choices that come before those found elsewhere (docs/tune.md)"                          \
  }
#define OPTION_NO_TUNED                                                                                      \
  {                                                                                                          \
    .name = "no-tuned", .doc = "the cost model decides alone, whatever was measured"                         \
  }

/* By --tuned and --no-tuned: *database is NULL with the latter. The caller frees it. */
bool tuned_of_options(const Arguments *arguments, const Gpu *gpu, TunedDatabase **database, GError **error);
/* --tuned and --no-tuned exclude each other: ERROR_USAGE. */
bool tuned_check_options(const Arguments *arguments, GError **error);
/* --sms: at least 1; *sms is left alone without it. */
bool sms_of_options(const Arguments *arguments, unsigned *sms, GError **error);
