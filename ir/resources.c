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

#define BARRIERS_AND_LOSS 2048
#define LINE              128
#define PATTERN           (8 * LINE) /* bytes after which the widest swizzle repeats */

static unsigned at_least(const Gpu *gpu, const char *path, unsigned least)
{
  double fact = gpu_fact(gpu, path);
  return fact_known(fact) ? MAX(least, (unsigned)fact) : least;
}

unsigned shared_alignment(const Gpu *gpu, bool swizzled)
{
  unsigned bytes = at_least(gpu, "tma.shared_alignment", swizzled ? PATTERN : LINE);
  bytes = at_least(gpu, "warpgroup_mma.alignment", bytes);
  return swizzled ? at_least(gpu, "warpgroup_mma.swizzle_alignment", bytes) : bytes;
}

/* A tile or a part of one that is no whole piece of what it is aligned to leaves room behind it. */
unsigned reserved_shared_bytes(const Gpu *gpu)
{
  return BARRIERS_AND_LOSS + 4 * (shared_alignment(gpu, false) - LINE) +
         4 * (shared_alignment(gpu, true) - PATTERN);
}

/* A fact of the family, or what a GPU without it does as well. */
static unsigned handover_fact(const Gpu *gpu, const char *path, unsigned otherwise)
{
  double fact = gpu_fact(gpu, path);
  return fact_known(fact) ? (unsigned)fact : otherwise;
}

unsigned handover_step(const Gpu *gpu)
{
  return handover_fact(gpu, "register_reallocation.step", gpu->register_unit / gpu->warp_size);
}

static unsigned round_down(unsigned registers, unsigned step)
{
  return registers / step * step;
}

unsigned handover_most(const Gpu *gpu)
{
  return round_down(handover_fact(gpu, "register_reallocation.max", gpu->registers_per_thread),
                    handover_step(gpu));
}

unsigned handover_least(const Gpu *gpu)
{
  unsigned step = handover_step(gpu),
           least = handover_fact(gpu, "register_reallocation.min", gpu->model->producer_registers);
  return (least + step - 1) / step * step;
}

unsigned producer_registers(const Gpu *gpu)
{
  unsigned step = handover_step(gpu), least = handover_fact(gpu, "register_reallocation.min", 0);
  return (MAX(gpu->model->producer_registers, least) + step - 1) / step * step;
}

unsigned consumer_registers(const Gpu *gpu, unsigned left)
{
  unsigned step = handover_step(gpu), all = (gpu->registers_per_thread + step - 1) / step * step;
  return MIN(round_down(left, step), MIN(all, handover_most(gpu)));
}

unsigned exchanging_blocks(const Gpu *gpu)
{
  return gpu_has(gpu, "cluster") && gpu_has(gpu, "mbarrier") ? gpu->cluster_portable : 1;
}

unsigned resident_blocks(const Gpu *gpu, unsigned threads)
{
  unsigned warps = MAX(1, (threads + gpu->warp_size - 1) / gpu->warp_size);
  return MIN(gpu->blocks_per_sm, gpu->warps_per_sm / warps);
}

unsigned entry_registers(const Gpu *gpu, unsigned threads, unsigned blocks)
{
  unsigned registers = MIN(gpu->registers_per_sm / (threads * blocks), gpu->registers_per_thread);
  return round_down(registers, handover_step(gpu));
}

bool may_hand_over(const Gpu *gpu, unsigned entry)
{
  return gpu_has(gpu, "register_reallocation") && producer_registers(gpu) <= entry &&
         handover_most(gpu) > entry;
}

unsigned left_registers(const Gpu *gpu, unsigned threads, unsigned receivers, unsigned blocks, unsigned kept)
{
  if (!threads || !receivers || receivers > threads) return 0;
  unsigned entry = entry_registers(gpu, threads, blocks);
  if (receivers == threads || !may_hand_over(gpu, entry)) return entry;
  unsigned given = consumer_registers(gpu, (entry * threads - kept * (threads - receivers)) / receivers);
  return MIN(given, gpu->registers_per_thread); /* whole steps may be more than a thread can name */
}

unsigned granted_registers(const Gpu *gpu, unsigned threads, unsigned receivers, unsigned blocks)
{
  return left_registers(gpu, threads, receivers, blocks, producer_registers(gpu));
}
