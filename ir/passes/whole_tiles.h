/* Instances of a role that have whole tiles each: taken in turn (`pingpong`), or each all of the same one (`consumers`). */
#pragma once
#include "ir/pass.h"

typedef enum {
  ROLE_ONLY,    /* computes all that is computed */
  ROLE_FILLING, /* fills slots with values for others: it has no such instances */
  ROLE_STORING, /* takes slots that others fill with values */
} TileRole;

/* Whether the tiles of the role whose ops these are go to such instances; taking turns is left out where nobody can, with a remark.
 * false: what the text says of consumers cannot be. */
bool whole_tiles(const IrPassContext *context, IrModule *module, const GPtrArray *ops, TileRole role,
                 bool *whole, GError **error);
