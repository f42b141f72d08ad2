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

unsigned granted_registers(const Gpu *gpu, unsigned threads, unsigned receivers)
{
  if (!threads || !receivers || receivers > threads) return 0;
  unsigned most = gpu->registers_per_thread / HANDOVER_STEP * HANDOVER_STEP;
  unsigned entry = MIN(gpu->registers_per_sm / threads / HANDOVER_STEP * HANDOVER_STEP, most);
  if (receivers == threads || !gpu_has(gpu, "register_handover")) return entry;
  unsigned left = entry * threads - PRODUCER_REGISTERS * (threads - receivers);
  return MIN(left / receivers / HANDOVER_STEP * HANDOVER_STEP, most - HANDOVER_STEP);
}
