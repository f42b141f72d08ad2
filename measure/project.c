/* The whole of a large product, checked by what it does to a random vector: D x = A (B x), in double on the
 * GPU. */
#include "measure/check.h"

typedef struct Vectors {
  uint64_t x, z, y[2]; /* signs; B x; D x and A (B x) */
} Vectors;

static bool allocate(Device *device, const BenchProduct *p, Vectors *v, GError **error)
{
  return (v->x = device_allocate(device, (uint64_t)p->n * 8, error)) &&
         (v->z = device_allocate(device, (uint64_t)p->k * 8, error)) &&
         (v->y[0] = device_allocate(device, (uint64_t)p->m * 8, error)) &&
         (v->y[1] = device_allocate(device, (uint64_t)p->m * 8, error));
}

/* Rows of all batches times vectors that make the norms steady enough to be held against a limit. */
#define LEAST_SUMS 256

static bool project_batch(BenchGpu *gpu, const BenchTensors *t, const Vectors *v, int64_t batch,
                          uint32_t seed, double *host, GError **error)
{
  const BenchProduct *p = &t->c->product;
  Device *device = bench_gpu_device(gpu);
  uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
  uint64_t a = bench_tensor_address(t, 0, p->a) + (uint64_t)(batch * p->a_batch) * number_bytes(p->a->type);
  uint64_t b = bench_tensor_address(t, 0, p->b) + (uint64_t)(batch * p->b_batch) * number_bytes(p->b->type);
  uint64_t d = bench_tensor_address(t, 0, p->d) + (uint64_t)(batch * p->d_batch) * number_bytes(p->d->type);
  return bench_gpu_signs(gpu, v->x, n, seed, error) &&
         bench_gpu_project(gpu, d, p->d->type, p->d_step, m, n, v->x, v->y[0], error) &&
         bench_gpu_project(gpu, b, p->b->type, p->b_step, k, n, v->x, v->z, error) &&
         bench_gpu_project(gpu, a, p->a->type, p->a_step, m, k, v->z, v->y[1], error) &&
         device_read(device, host, v->y[0], m * 8, error) &&
         device_read(device, host + m, v->y[1], m * 8, error);
}

/* The factor that a product's scales make together. */
static bool read_scales(const BenchTensors *t, double *factor, GError **error)
{
  const BenchProduct *p = &t->c->product;
  *factor = 1;
  for (unsigned i = 0; i < 2; i++) {
    float scale = 1;
    if (p->scale[i] && !device_read(bench_gpu_device(t->gpu), &scale, bench_tensor_address(t, 0, p->scale[i]),
                                    sizeof scale, error))
      return false;
    *factor *= scale;
  }
  return true;
}

bool project_product(BenchGpu *gpu, const BenchTensors *t, double *error_norm, double *worst, GError **error)
{
  const BenchProduct *p = &t->c->product;
  Device *device = bench_gpu_device(gpu);
  Vectors v = {0};
  g_autofree double *host = g_new(double, 2 * (size_t)p->m + 1);
  double difference = 0, norm = 0, factor = 1;
  int64_t rows = p->m * p->batch, vectors = rows ? (LEAST_SUMS + rows - 1) / rows : 0;
  bool ok = allocate(device, p, &v, error) && read_scales(t, &factor, error);
  *worst = 0;
  for (int64_t turn = 0; ok && turn < p->batch * vectors; turn++) {
    ok = project_batch(gpu, t, &v, turn / vectors, (uint32_t)turn + 1, host, error);
    for (int64_t i = 0; ok && i < p->m; i++) {
      double wanted = factor * host[p->m + i], d = fabs(host[i] - wanted);
      difference += d * d;
      norm += wanted * wanted;
      if (!(d <= *worst)) *worst = d; /* a NaN stays */
    }
  }
  *error_norm = norm > 0 ? sqrt(difference / norm) : sqrt(difference);
  if (norm > 0) *worst /= sqrt(norm / (double)(rows * vectors));
  device_release(device, v.x);
  device_release(device, v.z);
  device_release(device, v.y[0]);
  device_release(device, v.y[1]);
  return ok;
}
