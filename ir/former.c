#include "ir/former.h"
#include <glib.h>
#include <string.h>

const char *ir_former_name(const char *name)
{
  static const struct {
    const char *former, *today;
  } names[] = {
#define FORMER(former, today) {former, today},
#include "ir/former.def"
#undef FORMER
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
    if (!strcmp(names[i].former, name)) return names[i].today;
  return NULL;
}
