/* Instances of a role that have whole tiles each: taken in turn (`pingpong`), or each all of the same one (`consumers`). */
#pragma once
#include "ir/pass.h"

/* Whether the tiles of the role whose ops these are go to such instances; taking turns is left out where nobody can, with a remark.
 * `filled`: other roles fill slots with values. false: what the text says of instances cannot be. */
bool whole_tiles(const IrPassContext *context, IrModule *module, const GPtrArray *ops, bool filled,
                 bool *whole, GError **error);
