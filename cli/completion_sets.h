/* What --set can name, from the heads of the templates: for completion. */
#pragma once
#include <glib.h>
#include <stdint.h>

typedef struct SetWords {
  char *name;
  GArray *values; /* int64_t, ascending; empty where there are too many to be offered */
} SetWords;

/* SetWords *, by name: integer parameters of all templates whose value nobody else decides. The caller owns it. */
GPtrArray *completion_sets(void);
/* "1 2 4", g_free. */
char *completion_set_values(const SetWords *words);
