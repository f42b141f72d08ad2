#include "ir/resources.h"

unsigned resident_clusters(const Gpu *gpu, unsigned blocks, unsigned sms)
{
  char path[32];
  unsigned most = sms / blocks;
  g_snprintf(path, sizeof path, "chip.clusters_of_%u", blocks);
  double known = gpu_fact(gpu, path);
  if (known > 0)
    most = MIN(most, (unsigned)known);
  else if (blocks > 2)
    most = most * 9 / 10;
  return MAX(1, most);
}
