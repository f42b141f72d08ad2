/* What a shared library exports so that `adlgen bench --against plugin:FILE` times other people's kernels
 * beside ours, for matrix products or for whole graphs: docs/bench.md says how they are built and used,
 * scripts/peers holds some.
 *
 * The library exports one function, adlgen_peer_get(), and hands out one table. bench asks it for the
 * variants of a problem, prepares each for the operands' addresses, launches them in turn with its own
 * kernels, and compares their results as it does its own. A library takes products, graphs or both: the entries of what it
 * does not take are NULL. Products are offered to the former, any other case, and products too, to the latter.
 *
 * Threads.        All calls come from one thread, with the device's primary context current.
 * Ownership.      The table and all strings it gives live as long as the library is loaded; a string of
 *                 variant_name() until the next call. A state is the caller's until release().
 * Errors.         A function that fails writes one line into `message` (of `bytes` bytes, ended by 0) and
 *                 says so by what it returns; it never exits.
 * Compatibility.  ADLGEN_PEER_VERSION grows whenever something here changes; bench takes only its own. */
#ifndef ADLGEN_PEER_H
#define ADLGEN_PEER_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ADLGEN_PEER_VERSION 2

/* Types of elements. Their values are part of the binary interface. */
enum {
  ADLGEN_PEER_F64 = 1,
  ADLGEN_PEER_F32 = 2,
  ADLGEN_PEER_TF32 = 3, /* stored as f32, multiplied with tf32's precision */
  ADLGEN_PEER_F16 = 4,
  ADLGEN_PEER_BF16 = 5,
  ADLGEN_PEER_E4M3 = 6,
  ADLGEN_PEER_E5M2 = 7,
  ADLGEN_PEER_S8 = 8,
  ADLGEN_PEER_S32 = 9
};

/* Element (r, c) of product number i lies at r * row_step + c * column_step + i * batch_step elements. */
typedef struct adlgen_peer_matrix {
  int32_t type;
  int32_t reserved; /* 0 */
  int64_t row_step, column_step, batch_step;
} adlgen_peer_matrix;

/* D[m, n] = s t sum over k of A[m, k] B[k, n], `batch` times. Sums of floats below f64 are kept in f32, of
 * integers in s32. */
typedef struct adlgen_peer_problem {
  int64_t m, n, k, batch; /* all >= 1 */
  adlgen_peer_matrix a, b, d;
  int32_t scaled;            /* 1: s and t are given, one f32 each, in device memory; 0: both are 1 */
  int32_t fast_accumulation; /* 8-bit floats: 1: sums may stay in the tensor cores' precision */
  int32_t device;            /* its number among those that are visible */
  int32_t sms;               /* it has so many */
  uint64_t workspace;        /* bytes of device memory offered */
} adlgen_peer_problem;

/* Addresses on the device. Operands are aligned to 256 bytes; d holds no meaningful values. */
typedef struct adlgen_peer_operands {
  const void *a, *b;
  const float *scale_a, *scale_b; /* s and t; NULL unless `scaled` */
  void *d;
  void *workspace; /* shared by all variants: nothing in it lasts from one launch to the next */
} adlgen_peer_operands;

/* A graph with every dimension bound.
 *
 * `json` is an object: name; tensors, by name, each with type ("bf16"), kind ("input" | "constant" | "computed"), output (is
 * it one of the graph), shape, strides (elements) and, of a constant that is known, data (row-major); nodes, in an order in
 * which they can be computed, each with op, domain, since (its version), inputs and outputs (names; null: absent) and
 * attributes, all of them, with their defaults (null: has none); outputs, by name.
 * `tensors` names those that have an address: inputs, constants and outputs. */
typedef struct adlgen_peer_graph {
  const char *name, *json;
  const char *const *tensors;
  uint32_t n_tensors;
  int32_t device; /* its number among those that are visible */
  int32_t sms;    /* it has so many */
  uint32_t reserved;
} adlgen_peer_graph;

typedef struct adlgen_peer {
  uint32_t version;    /* ADLGEN_PEER_VERSION, as the library was compiled with */
  uint32_t reserved;   /* 0 */
  const char *name;    /* short, for tables: letters, digits, '-', '_' */
  const char *library; /* whose kernels, and which version: "CUTLASS 4.2.0" */
  /* Variants for a problem: 0 if it has none, with the reason in `message`. */
  unsigned (*count)(const adlgen_peer_problem *problem, char *message, size_t bytes);
  /* What variant `index` (below count()) is called, without blanks. */
  const char *(*variant_name)(const adlgen_peer_problem *problem, unsigned index);
  /* All that is done once for some addresses: a state for launch(), or NULL. May allocate and wait. */
  void *(*prepare)(const adlgen_peer_problem *problem, unsigned index, const adlgen_peer_operands *operands,
                   char *message, size_t bytes);
  /* Queues the product once on a CUstream; waits for nothing and allocates nothing on the device, so that it
   * can be captured in a graph. 0, or a code of the library's own. */
  int (*launch)(void *state, void *stream, char *message, size_t bytes);
  void (*release)(void *state);
  /* The same three of graphs. addresses: as graph->tensors, aligned to 256 bytes; outputs hold no meaningful values. The
   * graph lives until the last state of it is released. */
  unsigned (*graph_count)(const adlgen_peer_graph *graph, char *message, size_t bytes);
  const char *(*graph_variant_name)(const adlgen_peer_graph *graph, unsigned index);
  void *(*graph_prepare)(const adlgen_peer_graph *graph, unsigned index, void *const *addresses,
                         char *message, size_t bytes);
  /* Queues copies of what the last launch() computed to the addresses of the outputs. It is called before results are
   * compared, and is not timed: libraries that choose where their results lie would pay for a copy that nobody needs.
   * NULL: launch() writes to the addresses. */
  int (*deliver)(void *state, void *stream, char *message, size_t bytes);
} adlgen_peer;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const adlgen_peer *
adlgen_peer_get(void);

#ifdef __cplusplus
}
#endif
#endif
