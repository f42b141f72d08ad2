/* Tensors in memory and on disk, default data, and comparison against the reference. docs/data.md says how to
 * reproduce the data elsewhere. All functions are thread-safe as long as one tensor is used by one thread. */
#pragma once
#include "base/diagnostic.h"
#include "base/number.h"
#include <stdbool.h>
#include <stdint.h>

#define TENSOR_MAX_RANK 9

/* Dense, row-major, elements as they lie in memory and on disk (little-endian; of 4 bits two a byte, low first). */
typedef struct Tensor {
  char *name;
  NumberType type;
  unsigned rank;
  int64_t shape[TENSOR_MAX_RANK];
  size_t n; /* elements */
  size_t bytes;
  uint8_t *data; /* owned; aligned for any element type */
} Tensor;

/* Zeroed. ERROR_INPUT if the shape is negative or larger than memory. */
Tensor *tensor_new(const char *name, NumberType type, unsigned rank, const int64_t *shape, GError **error);
void tensor_free(Tensor *tensor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Tensor, tensor_free)

/* Tensors of one type and shape but for the last dimension, side by side along that; rank 1: all their elements, one tensor behind
 * the other, else their own rank. Behind them are zeros up to so many columns. */
Tensor *tensor_stack(const char *name, Tensor *const *parts, unsigned n, unsigned rank, int64_t columns,
                     GError **error);

/* ---- data ---- */

/* Philox4x32-10: four random words of a counter block of a stream. */
void philox(uint64_t seed, uint32_t stream, uint64_t block, uint32_t words[4]);
/* Default data: floats N(0, scale^2) rounded to the type, integers over the full range, bool 0 or 1; e8m0, which has no
 * sign, of their magnitude. index:
 * the place of the tensor among the graph's inputs. */
void tensor_fill_random(Tensor *tensor, uint64_t seed, unsigned index, double scale);
/* Integers low .. high - 1, for inputs that are indices. */
void tensor_fill_range(Tensor *tensor, uint64_t seed, unsigned index, int64_t low, int64_t high);

/* ---- files ---- */

/* One tensor of a file: .npy, or .safetensors, where `name` picks it (NULL: the only one). "FILE#NAME" also
 * names a tensor of a safetensors file. */
Tensor *tensor_load(const char *path, const char *name, GError **error);
/* Elements that lie in a file from a byte on, without a header. */
Tensor *tensor_load_raw(const char *path, uint64_t offset, const char *name, NumberType type, unsigned rank,
                        const int64_t *shape, GError **error);
/* All tensors of a safetensors file, in its order; free with g_ptr_array_unref. */
GPtrArray *tensors_load(const char *path, GError **error);
/* Written aside, then renamed. */
bool tensors_save(GPtrArray *tensors, const char *path, GError **error);
bool tensor_save_npy(const Tensor *tensor, const char *path, GError **error);
/* The same data under another type of the same storage (f32 as tf32; bytes as elements of 4 bits, or as e8m0, in any shape), and of the shape wanted; ERROR_INPUT
 * says what differs. */
bool tensor_check(Tensor *tensor, NumberType type, unsigned rank, const int64_t *shape, GError **error);
