#include "ir/resources.h"
#include "base/number.h"
#include <string.h>

unsigned resident_clusters(const Gpu *gpu, unsigned blocks, unsigned sms)
{
  char path[sizeof "chip.clusters_of_" + NUMBER_DECIMAL_MAX] = "chip.clusters_of_";
  unsigned most = sms / blocks;
  number_decimal(blocks, path + strlen(path));
  double known = gpu_fact(gpu, path);
  if (known > 0)
    most = MIN(most, (unsigned)known);
  else if (blocks > 2)
    most = most * 9 / 10;
  return MAX(1, most);
}

unsigned entry_registers(const Gpu *gpu, unsigned threads, unsigned blocks)
{
  unsigned registers = MIN(gpu->registers_per_sm / (threads * blocks), gpu->registers_per_thread);
  return registers / HANDOVER_STEP * HANDOVER_STEP;
}

unsigned granted_registers(const Gpu *gpu, unsigned threads, unsigned receivers, unsigned blocks)
{
  if (!threads || !receivers || receivers > threads) return 0;
  unsigned most = gpu->registers_per_thread / HANDOVER_STEP * HANDOVER_STEP;
  unsigned entry = entry_registers(gpu, threads, blocks);
  if (receivers == threads || !gpu_has(gpu, "register_handover")) return entry;
  unsigned left = entry * threads - PRODUCER_REGISTERS * (threads - receivers);
  return MIN(left / receivers / HANDOVER_STEP * HANDOVER_STEP, most - HANDOVER_STEP);
}
