/* Sets of a plan's launches: those that have ended by some time. Plans are mostly chains, where these are all below a number; what
 * else there is stands in bits behind it, so that a set takes no more than the launches beside one another. */
#pragma once
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  unsigned full; /* all launches below it are in the set; {0}: none is */
  unsigned n;    /* bytes */
  uint8_t *bits; /* from that of launch `full` on */
} LaunchSet;

bool launch_set_has(const LaunchSet *set, unsigned launch);
void launch_set_add(LaunchSet *set, unsigned launch);
void launch_set_unite(LaunchSet *set, const LaunchSet *with);
void launch_set_intersect(LaunchSet *set, const LaunchSet *with);
void launch_set_clear(LaunchSet *set);
