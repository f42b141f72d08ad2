/* Charts of results as SVG. */
#pragma once
#include <jansson.h>

/* The candidate of ours in a mode of a case: its entry of `times`, or NULL. */
const json_t *bench_ours(const json_t *c, const char *mode);
/* The fastest peer's entry, or NULL. */
const json_t *bench_best_peer(const json_t *c, const char *mode);

/* A bar for each case: the best peer's time over ours, or the fraction of the roof where there is no peer.
 * g_free; NULL if the mode has no case. */
char *bench_chart_bars(const json_t *result, const char *mode);
/* FLOP per byte against FLOP per second, ours and the best peer, under the ceilings that were measured.
 * g_free; NULL if no case multiplies matrices. */
char *bench_chart_roofline(const json_t *result, const char *mode);
