/* MatMul, MatMulInteger, Gemm. Row blocks of a product run on several threads; every element is summed in the
 * order of K whatever their number, so results do not depend on it. */
#include "reference/private.h"
#include <string.h>

typedef struct {
  int64_t m, n, k;
  const double *a, *b; /* [m, k] and [k, n], dense */
  double *c;
  const int64_t *ai, *bi; /* the same for integers */
  int64_t *ci;
  int64_t first, last; /* rows of this job */
} Job;

#define BLOCK_K 256
#define BLOCK_N 512
#define ROWS    4

/* C[first .. last) += A B, blocked so that a panel of B stays in the cache. */
static void multiply_floats(const Job *job)
{
  for (int64_t k0 = 0; k0 < job->k; k0 += BLOCK_K) {
    int64_t k1 = MIN(k0 + BLOCK_K, job->k);
    for (int64_t n0 = 0; n0 < job->n; n0 += BLOCK_N) {
      int64_t width = MIN(BLOCK_N, job->n - n0);
      for (int64_t i = job->first; i < job->last; i++) {
        double *restrict c = job->c + i * job->n + n0;
        int64_t k = k0;
        for (; k + ROWS <= k1; k += ROWS) {
          const double *a = job->a + i * job->k + k, *b = job->b + k * job->n + n0;
          const double *b1 = b + job->n, *b2 = b1 + job->n, *b3 = b2 + job->n;
          for (int64_t j = 0; j < width; j++)
            c[j] = c[j] + a[0] * b[j] + a[1] * b1[j] + a[2] * b2[j] + a[3] * b3[j];
        }
        for (; k < k1; k++)
          for (int64_t j = 0; j < width; j++)
            c[j] += job->a[i * job->k + k] * job->b[k * job->n + n0 + j];
      }
    }
  }
}

/* Modulo 2^64: the caller wraps to the type. */
static void multiply_integers(const Job *job)
{
  for (int64_t i = job->first; i < job->last; i++)
    for (int64_t k = 0; k < job->k; k++) {
      uint64_t a = (uint64_t)job->ai[i * job->k + k];
      const int64_t *b = job->bi + k * job->n;
      int64_t *restrict c = job->ci + i * job->n;
      for (int64_t j = 0; j < job->n; j++)
        c[j] = (int64_t)((uint64_t)c[j] + a * (uint64_t)b[j]);
    }
}

static void run_job(gpointer data, gpointer user)
{
  const Job *job = data;
  if (job->c)
    multiply_floats(job);
  else
    multiply_integers(job);
}

/* Splits the rows into jobs. A small product is not worth a thread. */
static void multiply(Job whole)
{
  unsigned threads = g_get_num_processors();
  double work = (double)whole.m * (double)whole.n * (double)whole.k;
  GThreadPool *pool =
      work > 1e6 && threads > 1 ? g_thread_pool_new(run_job, NULL, (int)threads, FALSE, NULL) : NULL;
  if (!pool) {
    whole.first = 0;
    whole.last = whole.m;
    run_job(&whole, NULL);
    return;
  }
  int64_t step = MAX((whole.m + threads - 1) / threads, 1), n_jobs = (whole.m + step - 1) / step;
  g_autofree Job *jobs = g_new(Job, n_jobs);
  for (int64_t i = 0; i < n_jobs; i++) {
    jobs[i] = whole;
    jobs[i].first = i * step;
    jobs[i].last = MIN((i + 1) * step, whole.m);
    g_thread_pool_push(pool, &jobs[i], NULL);
  }
  g_thread_pool_free(pool, FALSE, TRUE);
}

/* ---- operands ---- */

/* A matrix of an operand as the product wants it: transposed if need be, a zero point taken off. */
static void gather(const Value *value, size_t offset, int64_t rows, int64_t columns, bool transposed,
                   const Value *zero, bool zero_per_row, Value *matrix)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      size_t from = offset + (size_t)(transposed ? j * rows + i : i * columns + j),
             to = (size_t)(i * columns + j);
      if (value->floats) {
        matrix->floats[to] = value->floats[from];
        continue;
      }
      int64_t vector = zero && zero->n > 1 ? (zero_per_row ? i : j) : 0;
      matrix->integers[to] = value->integers[from] - (zero ? zero->integers[vector] : 0);
    }
}

typedef struct {
  const ReferenceCall *call;
  const Value *a, *b;
  bool transposed_a, transposed_b;
  int64_t m, n, k;
  unsigned batch_rank;
  int64_t batch[TENSOR_MAX_RANK], a_strides[TENSOR_MAX_RANK], b_strides[TENSOR_MAX_RANK]; /* in matrices */
} Product;

/* Number of matrices before this one of an operand, for batch `index`. */
static size_t batch_offset(const Product *product, const int64_t *strides, size_t index)
{
  size_t offset = 0;
  for (unsigned d = product->batch_rank; d-- > 0;) {
    offset += index % (size_t)product->batch[d] * (size_t)strides[d];
    index /= (size_t)product->batch[d];
  }
  return offset;
}

static bool multiply_batches(const Product *p, Value *out, GError **error)
{
  const ReferenceCall *call = p->call;
  bool zero_points = !strcmp(call->op, "MatMulInteger");
  const Value *a_zero = zero_points && call->n_inputs > 2 ? call->inputs[2] : NULL;
  const Value *b_zero = zero_points && call->n_inputs > 3 ? call->inputs[3] : NULL;
  g_autoptr(Value) a = value_new(p->a->type, 2, (int64_t[]){p->m, p->k}, error);
  g_autoptr(Value) b = a ? value_new(p->b->type, 2, (int64_t[]){p->k, p->n}, error) : NULL;
  if (!a || !b) return false;
  size_t size = (size_t)(p->m * p->n);
  for (size_t i = 0; size && i < out->n / size; i++) {
    gather(p->a, batch_offset(p, p->a_strides, i) * (size_t)(p->m * p->k), p->m, p->k, p->transposed_a,
           a_zero, true, a);
    gather(p->b, batch_offset(p, p->b_strides, i) * (size_t)(p->k * p->n), p->k, p->n, p->transposed_b,
           b_zero, false, b);
    multiply((Job){.m = p->m,
                   .n = p->n,
                   .k = p->k,
                   .a = a->floats,
                   .b = b->floats,
                   .c = out->floats ? out->floats + i * size : NULL,
                   .ai = a->integers,
                   .bi = b->integers,
                   .ci = out->integers ? out->integers + i * size : NULL});
  }
  for (size_t i = 0; out->integers && i < out->n; i++)
    out->integers[i] = reference_wrap(out->type, out->integers[i]);
  return true;
}

/* Batch dims of both operands, broadcast; strides count matrices. */
static bool set_batches(Product *p, unsigned a_rank, unsigned b_rank)
{
  p->batch_rank = MAX(a_rank, b_rank);
  int64_t a_stride = 1, b_stride = 1;
  for (unsigned d = 1; d <= p->batch_rank; d++) {
    int64_t x = d <= a_rank ? p->a->shape[a_rank - d] : 1, y = d <= b_rank ? p->b->shape[b_rank - d] : 1;
    unsigned at = p->batch_rank - d;
    if (x != y && x != 1 && y != 1) return false;
    p->batch[at] = x == 1 ? y : x;
    p->a_strides[at] = x == 1 ? 0 : a_stride;
    p->b_strides[at] = y == 1 ? 0 : b_stride;
    a_stride *= x;
    b_stride *= y;
  }
  return true;
}

static Value *matmul(const ReferenceCall *call, GError **error)
{
  Product p = {.call = call, .a = call->inputs[0], .b = call->inputs[1]};
  const Value *a = p.a, *b = p.b;
  if (!a->rank || !b->rank) {
    reference_refuse(error, call, "scalars have no product");
    return NULL;
  }
  p.m = a->rank > 1 ? a->shape[a->rank - 2] : 1;
  p.k = a->shape[a->rank - 1];
  p.n = b->rank > 1 ? b->shape[b->rank - 1] : 1;
  bool fits = p.k == b->shape[b->rank > 1 ? b->rank - 2 : 0];
  if (!fits || !set_batches(&p, a->rank > 2 ? a->rank - 2 : 0, b->rank > 2 ? b->rank - 2 : 0)) {
    reference_refuse(error, call, "the shapes do not fit");
    return NULL;
  }
  int64_t shape[TENSOR_MAX_RANK];
  unsigned rank = p.batch_rank;
  memcpy(shape, p.batch, rank * sizeof *shape);
  if (a->rank > 1) shape[rank++] = p.m;
  if (b->rank > 1) shape[rank++] = p.n;
  g_autoptr(Value) out = value_new(call->result, rank, shape, error);
  if (!out || !multiply_batches(&p, out, error)) return NULL;
  const ReferenceAttribute *alpha = reference_attribute(call, "alpha");
  for (size_t j = 0; alpha && alpha->number != 1 && j < out->n; j++) {
    if (out->floats)
      out->floats[j] *= alpha->number;
    else
      out->integers[j] = reference_wrap(out->type, (int64_t)(alpha->number * (double)out->integers[j]));
  }
  return g_steal_pointer(&out);
}

/* alpha AB + beta C; integers multiply exactly by integral factors and truncate otherwise. */
static void scale_and_add(const ReferenceCall *call, Value *out)
{
  double alpha = reference_number(call, "alpha"), beta = reference_number(call, "beta");
  const Value *c = call->n_inputs > 2 ? call->inputs[2] : NULL;
  int64_t strides[TENSOR_MAX_RANK] = {0};
  if (c) reference_strides(c, 2, out->shape, strides);
  for (int64_t i = 0; i < out->shape[0]; i++)
    for (int64_t j = 0; j < out->shape[1]; j++) {
      size_t to = (size_t)(i * out->shape[1] + j), from = (size_t)(i * strides[0] + j * strides[1]);
      if (out->floats) {
        double added = c && beta != 0 ? beta * c->floats[from] : 0;
        out->floats[to] = alpha * out->floats[to] + added;
      } else {
        double added = c ? beta * (double)c->integers[from] : 0;
        out->integers[to] =
            reference_wrap(out->type, (int64_t)(alpha * (double)out->integers[to]) + (int64_t)added);
      }
    }
}

static Value *gemm(const ReferenceCall *call, GError **error)
{
  Product p = {.call = call, .a = call->inputs[0], .b = call->inputs[1]};
  p.transposed_a = reference_integer(call, "transA") != 0;
  p.transposed_b = reference_integer(call, "transB") != 0;
  if (p.a->rank != 2 || p.b->rank != 2 || p.a->shape[!p.transposed_a] != p.b->shape[p.transposed_b]) {
    reference_refuse(error, call, "the shapes do not fit");
    return NULL;
  }
  p.m = p.a->shape[p.transposed_a];
  p.k = p.a->shape[!p.transposed_a];
  p.n = p.b->shape[!p.transposed_b];
  g_autoptr(Value) out = value_new(call->result, 2, (int64_t[]){p.m, p.n}, error);
  if (!out || !multiply_batches(&p, out, error)) return NULL;
  scale_and_add(call, out);
  return g_steal_pointer(&out);
}

Value *reference_product(const ReferenceCall *call, GError **error)
{
  if (!strcmp(call->op, "GroupedMatMul")) return reference_grouped(call, error);
  return strcmp(call->op, "Gemm") ? matmul(call, error) : gemm(call, error);
}
