/* Names and sizes of PTX types. */
#include "simulator/ptx.h"
#include <string.h>

static const struct {
  const char *name;
  unsigned bytes;
} types[] = {
#define X(id, name, bytes) {name, bytes},
    PTX_TYPES(X)
#undef X
};

unsigned ptx_type_bytes(PtxType type)
{
  return type < TYPE_NONE ? types[type].bytes : 0;
}

const char *ptx_type_name(PtxType type)
{
  return type < TYPE_NONE ? types[type].name : "none";
}

PtxType ptx_type_parse(const char *name)
{
  for (unsigned i = 0; i < TYPE_NONE; i++)
    if (strcmp(types[i].name, name) == 0) return (PtxType)i;
  return TYPE_NONE;
}
