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
/* profile: {us, launches: [{launch, kernel, us}]}. A bar for each kernel, the longest first, of the time of all its launches;
 * below them the launches in order, as wide as they are long. g_free. */
char *bench_chart_profile(const json_t *profile, const char *title);
/* FLOP per byte against FLOP per second, ours and the best peer, under the ceilings that were measured.
 * g_free; NULL if no case multiplies matrices. */
char *bench_chart_roofline(const json_t *result, const char *mode);
