/* Quantities: a number with its unit, as descriptions write them: `227 KiB`, `3.35 TB/s`, `1830 MHz`.
 * Counts (threads, registers, blocks) are plain whole numbers whose unit the schema names. */
#pragma once
#include "base/document.h"

/* Reads a quantity into base units (bytes, MHz, cycles, ...); reports "wrong-type" or "wrong-unit" at the
 * node. unit: a base unit, or the name of what is counted. `unknown` is the caller's business. */
bool quantity_read(Node *node, const char *unit, double *value, GError **error);
bool quantity_is_count(const char *unit);
/* A value in the largest unit in which it is a short number: 232448 B -> "227 KiB". Caller frees. */
char *quantity_text(double value, const char *unit);
/* "B, KiB, MiB": the spellings of a base unit; NULL for counts. Caller frees. */
char *quantity_spellings(const char *unit);
