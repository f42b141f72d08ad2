/* Data of buffers: files in safetensors, .npy or raw form, and reproducible random values. */
#pragma once
#include "base/diagnostic.h"
#include "base/number.h"

typedef struct BufferShape {
  NumberType type;
  uint64_t dims[8];
  unsigned rank;
} BufferShape;

/* Reads exactly bytes. A .safetensors file is asked for the tensor of that name, or for its only one. */
bool launch_data_read(const char *path, const char *tensor, void *data, uint64_t bytes, const Mark *mark,
                      GError **error);
/* By the ending: .safetensors, .npy, else raw bytes. Written aside and renamed. */
bool launch_data_write(const char *path, const char *tensor, const void *data, uint64_t bytes,
                       const BufferShape *shape, GError **error);
/* Philox4x32-10 with key (seed) and counter (element / 2, index): floats are N(0, 1) by Box and Muller,
 * rounded to the type; integers take all values. */
void launch_data_random(NumberType type, void *data, uint64_t bytes, uint64_t seed, unsigned index);
