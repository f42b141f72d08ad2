/* Tables of where the time of launches ([{launch, kernel, grid, ...}]) goes. */
#pragma once
#include "cli/cli.h"

/* What of a launch is told. */
typedef struct ProfileMeasure {
  const char *key, *name; /* of the member of a launch; what it is called */
  int digits;             /* behind the point */
} ProfileMeasure;

extern const ProfileMeasure profile_times, profile_instructions;

double profile_sum(const json_t *launches, const ProfileMeasure *measure);
/* By kernel, the largest first: a network has many launches of few. */
void profile_print_kernels(const Cli *cli, const json_t *launches, const ProfileMeasure *measure);
/* Each, in order. */
void profile_print_launches(const Cli *cli, const json_t *launches, const ProfileMeasure *measure);
