#include "ir/counting.h"
#include "ir/mechanism.h"

const Layout *counting_layout(Arena *arena, const unsigned *extents, unsigned dim, unsigned warps)
{
  unsigned each = warps ? extents[dim] / warps : 0;
  if (dim > 1 || extents[1 - dim] != 1 || !each || extents[dim] % warps || each % WARP_LANES) return NULL;
  Layout *layout = arena_new_object(arena, Layout);
  *layout = (Layout){.rank = 2, .extent = {extents[0], extents[1]}};
  const LayoutMode modes[] = {{PLACE_REGISTER, each / WARP_LANES, (int)dim, WARP_LANES},
                              {PLACE_LANE, WARP_LANES, (int)dim, 1},
                              {PLACE_WARP, warps, (int)dim, each}};
  for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++)
    if (modes[i].size > 1) layout->modes[layout->n++] = modes[i];
  return layout;
}
