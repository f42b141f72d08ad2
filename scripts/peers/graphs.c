/* A peer whose kernels Python makes (graphs.py, which hosts the program): a state is the list of launches that a CUDA graph
 * has captured from one stream. They are queued one by one, as ours are, so that nobody pays for the launch of a graph.
 *
 * -DNAME="eager" names the table. Python fills it by graphs_set() before the program opens this library, and makes and ends
 * states by graphs_state_new() and graphs_state_free(). */
#include "adlgen/peer.h"
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* The driver's entries by the names of their first versions, which cuda.h hides behind later ones. X(field, symbol, parameters) */
#define DRIVER(X)                                                                                            \
  X(roots, "cuGraphGetRootNodes", (CUgraph, CUgraphNode *, size_t *))                                        \
  X(followers, "cuGraphNodeGetDependentNodes_v2", (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *)) \
  X(type, "cuGraphNodeGetType", (CUgraphNode, CUgraphNodeType *))                                            \
  X(kernel, "cuGraphKernelNodeGetParams_v2", (CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2 *))                    \
  X(attribute, "cuGraphKernelNodeGetAttribute",                                                              \
    (CUgraphNode, CUlaunchAttributeID, CUlaunchAttributeValue *))                                            \
  X(memset_of, "cuGraphMemsetNodeGetParams", (CUgraphNode, CUDA_MEMSET_NODE_PARAMS *))                       \
  X(copy_of, "cuGraphMemcpyNodeGetParams", (CUgraphNode, CUDA_MEMCPY3D *))                                   \
  X(launch, "cuLaunchKernelEx", (const CUlaunchConfig *, CUfunction, void **, void **))                      \
  X(set_8, "cuMemsetD2D8Async", (CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream))              \
  X(set_16, "cuMemsetD2D16Async", (CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream))           \
  X(set_32, "cuMemsetD2D32Async", (CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream))                 \
  X(copy_3d, "cuMemcpy3DAsync_v2", (const CUDA_MEMCPY3D *, CUstream))                                        \
  X(copy, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))

static struct {
#define X(field, symbol, parameters) CUresult(*field) parameters;
  DRIVER(X)
#undef X
} driver;

typedef struct Launch {
  CUgraphNodeType type;
  CUDA_KERNEL_NODE_PARAMS_v2 kernel; /* its arguments live as long as the graph */
  CUlaunchAttribute attributes[3];
  unsigned n_attributes;
  CUDA_MEMSET_NODE_PARAMS set;
  CUDA_MEMCPY3D copy;
} Launch;

typedef struct Result { /* where a result lies, and where it is to go */
  CUdeviceptr from, to;
  size_t bytes;
} Result;

typedef struct State {
  Launch *launches;
  unsigned n_launches;
  Result *results;
  unsigned n_results;
} State;

static adlgen_peer table;

static int open_driver(char *message, size_t bytes)
{
  static const char *const symbols[] = {
#define X(field, symbol, parameters) symbol,
      DRIVER(X)
#undef X
  };
  if (driver.launch) return 1;
  void *library = dlopen("libcuda.so.1", RTLD_NOW), **entries = (void **)&driver;
  for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; i++)
    if (!library || !(entries[i] = dlsym(library, symbols[i]))) {
      snprintf(message, bytes, "the driver has no %s", symbols[i]);
      memset(&driver, 0, sizeof driver);
      return 0;
    }
  return 1;
}

static CUresult read_kernel(CUgraphNode node, Launch *launch)
{
  static const CUlaunchAttributeID wanted[] = {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                               CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
  CUresult status = driver.kernel(node, &launch->kernel);
  for (unsigned i = 0; i < 2 && !status; i++) {
    CUlaunchAttribute *attribute = &launch->attributes[launch->n_attributes];
    attribute->id = wanted[i];
    if (driver.attribute(node, wanted[i], &attribute->value)) continue;
    launch->n_attributes += i ? attribute->value.cooperative != 0 : attribute->value.clusterDim.x != 0;
  }
  return status;
}

static int add(State *state, CUgraphNode node, char *message, size_t bytes)
{
  state->launches = realloc(state->launches, (state->n_launches + 1) * sizeof *state->launches);
  Launch *launch = &state->launches[state->n_launches++];
  memset(launch, 0, sizeof *launch);
  CUresult status = driver.type(node, &launch->type);
  if (!status && launch->type == CU_GRAPH_NODE_TYPE_KERNEL)
    status = read_kernel(node, launch);
  else if (!status && launch->type == CU_GRAPH_NODE_TYPE_MEMSET)
    status = driver.memset_of(node, &launch->set);
  else if (!status && launch->type == CU_GRAPH_NODE_TYPE_MEMCPY)
    status = driver.copy_of(node, &launch->copy);
  else if (!status && launch->type != CU_GRAPH_NODE_TYPE_EMPTY) {
    snprintf(message, bytes, "the captured graph has a node of type %d", (int)launch->type);
    return 0;
  }
  if (status) snprintf(message, bytes, "a node of the captured graph cannot be read: %d", (int)status);
  return !status;
}

/* The last launch may start before the one in front of it has ended. */
static void overlap(State *state)
{
  Launch *launch = &state->launches[state->n_launches - 1];
  CUlaunchAttribute *attribute = &launch->attributes[launch->n_attributes];
  if (launch->type != CU_GRAPH_NODE_TYPE_KERNEL) return;
  attribute->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute->value.programmaticStreamSerializationAllowed = 1;
  launch->n_attributes++;
}

/* The nodes of a chain. */
static int read_graph(State *state, CUgraph graph, char *message, size_t bytes)
{
  CUgraphNode node[2];
  CUgraphEdgeData edge[2] = {{0}};
  size_t n = 2;
  CUresult status = driver.roots(graph, node, &n);
  while (!status && n == 1) {
    CUgraphNode last = node[0];
    if (!add(state, last, message, bytes)) return 0;
    if (edge[0].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) overlap(state);
    n = 2;
    status = driver.followers(last, node, edge, &n);
  }
  if (!status && n == 0 && state->n_launches) return 1;
  snprintf(message, bytes,
           status ? "the captured graph cannot be read: %d"
           : n    ? "the captured graph has branches"
                  : "nothing was captured",
           (int)status);
  return 0;
}

static CUresult queue(const Launch *launch, CUstream stream)
{
  const CUDA_KERNEL_NODE_PARAMS_v2 *k = &launch->kernel;
  const CUDA_MEMSET_NODE_PARAMS *s = &launch->set;
  if (launch->type == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUlaunchConfig config = {.gridDimX = k->gridDimX,
                             .gridDimY = k->gridDimY,
                             .gridDimZ = k->gridDimZ,
                             .blockDimX = k->blockDimX,
                             .blockDimY = k->blockDimY,
                             .blockDimZ = k->blockDimZ,
                             .sharedMemBytes = k->sharedMemBytes,
                             .hStream = stream,
                             .attrs = (CUlaunchAttribute *)launch->attributes,
                             .numAttrs = launch->n_attributes};
    return driver.launch(&config, k->func ? k->func : (CUfunction)k->kern, k->kernelParams, k->extra);
  }
  if (launch->type == CU_GRAPH_NODE_TYPE_MEMCPY) return driver.copy_3d(&launch->copy, stream);
  if (launch->type != CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_SUCCESS;
  size_t pitch = s->height > 1 ? s->pitch : s->width * s->elementSize;
  return s->elementSize == 1
             ? driver.set_8(s->dst, pitch, (unsigned char)s->value, s->width, s->height, stream)
         : s->elementSize == 2
             ? driver.set_16(s->dst, pitch, (unsigned short)s->value, s->width, s->height, stream)
             : driver.set_32(s->dst, pitch, s->value, s->width, s->height, stream);
}

static int launch(void *data, void *stream, char *message, size_t bytes)
{
  const State *state = data;
  for (unsigned i = 0; i < state->n_launches; i++) {
    CUresult status = queue(&state->launches[i], stream);
    if (!status) continue;
    snprintf(message, bytes, "launch %u", i);
    return (int)status;
  }
  return 0;
}

static int deliver(void *data, void *stream, char *message, size_t bytes)
{
  const State *state = data;
  for (unsigned i = 0; i < state->n_results; i++) {
    const Result *r = &state->results[i];
    CUresult status = driver.copy(r->to, r->from, r->bytes, stream);
    if (status) return (int)status;
  }
  return 0;
}

/* ---- for Python ---- */

EXPORT void graphs_state_free(void *data)
{
  State *state = data;
  if (!state) return;
  free(state->launches);
  free(state->results);
  free(state);
}

/* What `graph` captured, which lives as long as the state; results: from, to, bytes of each. */
EXPORT void *graphs_state_new(void *graph, const uint64_t *results, unsigned n, char *message, size_t bytes)
{
  State *state = calloc(1, sizeof *state);
  if (!state || !open_driver(message, bytes) || !read_graph(state, graph, message, bytes)) {
    graphs_state_free(state);
    return NULL;
  }
  state->results = malloc((n + 1) * sizeof *state->results);
  for (unsigned i = 0; i < n; i++)
    state->results[i] = (Result){results[3 * i], results[3 * i + 1], results[3 * i + 2]};
  state->n_results = n;
  return state;
}

EXPORT void graphs_set(const char *library, unsigned (*count)(const adlgen_peer_graph *, char *, size_t),
                       const char *(*name)(const adlgen_peer_graph *, unsigned),
                       void *(*prepare)(const adlgen_peer_graph *, unsigned, void *const *, char *, size_t),
                       void (*release)(void *))
{
  table = (adlgen_peer){.version = ADLGEN_PEER_VERSION,
                        .name = NAME,
                        .library = library,
                        .graph_count = count,
                        .graph_variant_name = name,
                        .graph_prepare = prepare,
                        .launch = launch,
                        .release = release,
                        .deliver = deliver};
}

const adlgen_peer *adlgen_peer_get(void)
{
  return table.version ? &table : NULL;
}
