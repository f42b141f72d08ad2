#include "backends/backend.h"
#include "backends/ptx/ptx.h"
#include <string.h>

const Backend backends[] = {
    {"ptx", "ptx", ptx_emit},
    {0},
};

const Backend *backend_find(const char *name)
{
  for (const Backend *backend = backends; backend->name; backend++)
    if (!strcmp(backend->name, name)) return backend;
  return NULL;
}
