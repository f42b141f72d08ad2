#include "reference/tensor.h"
#include <math.h>
#include <string.h>

Tensor *tensor_new(const char *name, NumberType type, unsigned rank, const int64_t *shape, GError **error)
{
  size_t n = 1, bytes = 0;
  bool fits = rank <= TENSOR_MAX_RANK, empty = false;
  for (unsigned i = 0; fits && i < rank; i++)
    empty = empty || shape[i] == 0;
  for (unsigned i = 0; fits && i < rank; i++)
    fits = shape[i] >= 0 && (empty || !__builtin_mul_overflow(n, (size_t)shape[i], &n));
  if (empty) n = 0;
  fits = fits && n <= G_MAXSSIZE / sizeof(uint64_t);
  if (fits) bytes = number_bytes_of(type, n);
  uint8_t *data = fits ? g_try_malloc0(MAX(bytes, 1)) : NULL;
  if (!data) {
    error_set(error, ERROR_INPUT, NULL, "too-large", NULL, "tensor `%s` does not fit into memory", name);
    return NULL;
  }
  Tensor *tensor = g_new0(Tensor, 1);
  *tensor =
      (Tensor){.name = g_strdup(name), .type = type, .rank = rank, .n = n, .bytes = bytes, .data = data};
  if (rank) memcpy(tensor->shape, shape, rank * sizeof *shape);
  return tensor;
}

void tensor_free(Tensor *tensor)
{
  if (!tensor) return;
  g_free(tensor->name);
  g_free(tensor->data);
  g_free(tensor);
}

Tensor *tensor_stack(const char *name, Tensor *const *parts, unsigned n, unsigned rank, int64_t columns,
                     GError **error)
{
  int64_t shape[TENSOR_MAX_RANK];
  unsigned last = rank - 1;
  size_t rows = 1, to = 0;
  memcpy(shape, parts[0]->shape, sizeof shape);
  shape[last] = 0;
  for (unsigned i = 0; i < n; i++)
    shape[last] += rank == 1 ? (int64_t)parts[i]->n : parts[i]->shape[last];
  int64_t free = MAX(columns - shape[last], 0);
  shape[last] += free;
  for (unsigned d = 0; d < last; d++)
    rows *= (size_t)shape[d];
  Tensor *stack = tensor_new(name, parts[0]->type, rank, shape, error);
  size_t behind = number_bytes_of(parts[0]->type, (uint64_t)free);
  for (size_t row = 0; stack && row < rows; row++) {
    for (unsigned i = 0; i < n; i++) {
      size_t bytes = parts[i]->bytes / rows;
      memcpy(stack->data + to, parts[i]->data + row * bytes, bytes);
      to += bytes;
    }
    to += behind;
  }
  return stack;
}

/* Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011). */
void philox(uint64_t seed, uint32_t stream, uint64_t block, uint32_t words[4])
{
  uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), stream, 0};
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (unsigned round = 0; round < 10; round++) {
    uint64_t first = (uint64_t)0xD2511F53u * counter[0], second = (uint64_t)0xCD9E8D57u * counter[2];
    counter[0] = (uint32_t)(second >> 32) ^ counter[1] ^ key[0];
    counter[2] = (uint32_t)(first >> 32) ^ counter[3] ^ key[1];
    counter[1] = (uint32_t)second;
    counter[3] = (uint32_t)first;
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  memcpy(words, counter, sizeof counter);
}

/* Two numbers of N(0, 1) by Box and Muller; u is in (0, 1), so that the logarithm is finite. */
static void normal_pair(const uint32_t words[4], double normal[2])
{
  double u = (words[0] + 1.0) / 4294967297.0, v = words[1] / 4294967296.0, radius = sqrt(-2 * log(u));
  normal[0] = radius * cos(2 * M_PI * v);
  normal[1] = radius * sin(2 * M_PI * v);
}

/* Two elements a block. */
static void fill_pair(Tensor *tensor, uint64_t seed, unsigned index, double scale, size_t first)
{
  uint32_t words[4];
  double normal[2] = {0};
  NumberClass class = number_class(tensor->type);
  philox(seed, index, first / 2, words);
  if (class == NUMBER_FLOAT) normal_pair(words, normal);
  for (unsigned i = 0; i < 2 && first + i < tensor->n; i++) {
    uint64_t bits = words[i] | (uint64_t)words[i + 2] << 32;
    double value = scale * normal[i];
    if (class == NUMBER_FLOAT) /* scales have no sign */
      number_write(tensor->type, tensor->type == NUMBER_E8M0 ? fabs(value) : value, true, tensor->data,
                   first + i);
    else
      number_set_bits(tensor->type, class == NUMBER_BOOLEAN ? bits & 1 : bits, tensor->data, first + i);
  }
}

#define FILL_AT_ONCE (UINT64_C(1) << 18) /* elements: what is worth a thread; even */

typedef struct Filling {
  Tensor *tensor;
  uint64_t seed;
  unsigned index;
  double scale;
  uint64_t next; /* atomic: the first element nobody has taken */
} Filling;

static void *fill_pieces(void *data)
{
  Filling *f = data;
  for (;;) {
    uint64_t first = __atomic_fetch_add(&f->next, FILL_AT_ONCE, __ATOMIC_RELAXED);
    if (first >= f->tensor->n) return NULL;
    for (uint64_t i = first; i < MIN(first + FILL_AT_ONCE, f->tensor->n); i += 2)
      fill_pair(f->tensor, f->seed, f->index, f->scale, i);
  }
}

/* Every element is computed from its own number alone, so it does not matter which thread does. */
void tensor_fill_random(Tensor *tensor, uint64_t seed, unsigned index, double scale)
{
  Filling filling = {.tensor = tensor, .seed = seed, .index = index, .scale = scale};
  uint64_t pieces = (tensor->n + FILL_AT_ONCE - 1) / FILL_AT_ONCE;
  unsigned others = (unsigned)MIN(g_get_num_processors(), MAX(pieces, 1)) - 1;
  g_autofree GThread **threads = g_new0(GThread *, others + 1);
  for (unsigned i = 0; i < others; i++)
    threads[i] = g_thread_new("fill", fill_pieces, &filling);
  fill_pieces(&filling);
  for (unsigned i = 0; i < others; i++)
    g_thread_join(threads[i]);
}

void tensor_fill_range(Tensor *tensor, uint64_t seed, unsigned index, int64_t low, int64_t high)
{
  uint64_t span = high > low ? (uint64_t)(high - low) : 1;
  for (size_t i = 0; i < tensor->n; i++) {
    uint32_t words[4];
    philox(seed, index, i / 2, words);
    uint64_t bits = words[i % 2] | (uint64_t)words[i % 2 + 2] << 32;
    int64_t value = low + (int64_t)(bits % span);
    number_set_bits(tensor->type, (uint64_t)value, tensor->data, i);
  }
}

static char *shape_text(unsigned rank, const int64_t *shape)
{
  GString *text = g_string_new("[");
  for (unsigned i = 0; i < rank; i++)
    g_string_append_printf(text, "%s%" G_GINT64_FORMAT, i ? ", " : "", shape[i]);
  g_string_append_c(text, ']');
  return g_string_free(text, FALSE);
}

/* Files know elements of 4 bits, and powers of two, as bytes too, whatever their shape. */
static bool take_bytes(Tensor *tensor, NumberType type, unsigned rank, const int64_t *shape)
{
  size_t n = 1;
  if (tensor->type != NUMBER_U8 || !(number_is_packed(type) || type == NUMBER_E8M0) || rank > TENSOR_MAX_RANK)
    return false;
  for (unsigned i = 0; i < rank; i++)
    if (shape[i] < 0 || __builtin_mul_overflow(n, (size_t)shape[i], &n)) return false;
  if (number_bytes_of(type, n) != tensor->bytes) return false;
  tensor->type = type;
  tensor->rank = rank;
  tensor->n = n;
  if (rank) memcpy(tensor->shape, shape, rank * sizeof *shape);
  return true;
}

bool tensor_check(Tensor *tensor, NumberType type, unsigned rank, const int64_t *shape, GError **error)
{
  bool storage = tensor->type == type || (tensor->type == NUMBER_F32 && type == NUMBER_TF32);
  bool same = tensor->rank == rank;
  for (unsigned i = 0; same && i < rank; i++)
    same = tensor->shape[i] == shape[i];
  if (storage && same) {
    tensor->type = type;
    return true;
  }
  if (take_bytes(tensor, type, rank, shape)) return true;
  g_autofree char *have = shape_text(tensor->rank, tensor->shape), *want = shape_text(rank, shape);
  error_set(error, ERROR_INPUT, NULL, "tensor", NULL, "tensor `%s` is %s %s, but %s %s is needed",
            tensor->name, number_name(tensor->type), have, number_name(type), want);
  return false;
}
