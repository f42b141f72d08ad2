#include "measure/plugin.h"
#include "include/adlgen/peer.h"
#include "measure/gpu_private.h"
#include "measure/graph_json.h"
#include <dlfcn.h>
#include <string.h>

/* As much as cuBLASLt is offered. */
#define WORKSPACE    CUBLASLT_WORKSPACE
#define MESSAGE_SIZE 512

struct BenchPlugin {
  const adlgen_peer *table;
  char *path;
  Device *device; /* that `workspace` is of; NULL: none yet */
  uint64_t workspace;
};

/* A case in the interface's words: a product, or a graph with what it points to. */
typedef struct Problem {
  bool is_graph;
  adlgen_peer_problem product;
  adlgen_peer_graph graph;
  char *json;
  const char **names;          /* of the graph's tensors that have addresses */
  const GraphTensor **tensors; /* these */
} Problem;

/* A variant: one state for each set of tensors. */
typedef struct Variant {
  const adlgen_peer *table;
  Device *device;
  Problem problem;
  void **states;
  unsigned n_states;
} Variant;

/* ---- opening ---- */

static bool refuse(const char *path, const char *what, GError **error)
{
  error_set(error, ERROR_INPUT, NULL, "bad-plugin", "docs/bench.md tells how to build one", "plugin %s: %s",
            path, what);
  return false;
}

static bool is_name(const char *text)
{
  if (!text || !*text) return false;
  for (; *text; text++)
    if (!g_ascii_isalnum(*text) && *text != '-' && *text != '_') return false;
  return true;
}

static bool check_table(const char *path, const adlgen_peer *table, GError **error)
{
  if (!table) return refuse(path, "adlgen_peer_get() gave nothing", error);
  if (table->version != ADLGEN_PEER_VERSION) {
    g_autofree char *what =
        g_strdup_printf("it is made for version %u of adlgen/peer.h; this program knows version %u",
                        table->version, ADLGEN_PEER_VERSION);
    return refuse(path, what, error);
  }
  if (!is_name(table->name)) return refuse(path, "its name is to be of letters, digits, '-' and '_'", error);
  if (!table->count && !table->graph_count)
    return refuse(path, "it takes neither products nor graphs: `count` and `graph_count` are empty", error);
  const struct {
    const char *name;
    bool there, wanted;
  } entries[] = {{"library", table->library != NULL, true},
                 {"variant_name", table->variant_name != NULL, table->count},
                 {"prepare", table->prepare != NULL, table->count},
                 {"graph_variant_name", table->graph_variant_name != NULL, table->graph_count},
                 {"graph_prepare", table->graph_prepare != NULL, table->graph_count},
                 {"launch", table->launch != NULL, true},
                 {"release", table->release != NULL, true}};
  for (unsigned i = 0; i < G_N_ELEMENTS(entries); i++) {
    if (entries[i].there || !entries[i].wanted) continue;
    g_autofree char *what = g_strdup_printf("`%s` of its table is empty", entries[i].name);
    return refuse(path, what, error);
  }
  return true;
}

BenchPlugin *bench_plugin_open(const char *path, GError **error)
{
  /* Without a slash the loader would search its own places and not this folder. */
  g_autofree char *file = strchr(path, '/') ? g_strdup(path) : g_build_filename(".", path, NULL);
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-plugin", NULL, "plugin %s: %s", path, dlerror());
    return NULL;
  }
  const adlgen_peer *(*get)(void) = NULL;
  *(void **)&get = dlsym(library, "adlgen_peer_get");
  const adlgen_peer *table = get ? get() : NULL;
  if (!(get ? check_table(path, table, error) : refuse(path, "it has no adlgen_peer_get", error))) {
    dlclose(library);
    return NULL;
  }
  BenchPlugin *plugin = g_new0(BenchPlugin, 1);
  plugin->table = table;
  plugin->path = g_strdup(path);
  return plugin;
}

void bench_plugin_close(BenchPlugin *plugin)
{
  if (!plugin) return;
  if (plugin->device) device_release(plugin->device, plugin->workspace);
  g_free(plugin->path);
  g_free(plugin);
}

const char *bench_plugin_name(const BenchPlugin *plugin)
{
  return plugin->table->name;
}

const char *bench_plugin_library(const BenchPlugin *plugin)
{
  return plugin->table->library;
}

const char *bench_plugin_path(const BenchPlugin *plugin)
{
  return plugin->path;
}

/* ---- the problem ---- */

static int32_t type_of(NumberType type)
{
  switch (type) {
  case NUMBER_F64: return ADLGEN_PEER_F64;
  case NUMBER_F32: return ADLGEN_PEER_F32;
  case NUMBER_TF32: return ADLGEN_PEER_TF32;
  case NUMBER_F16: return ADLGEN_PEER_F16;
  case NUMBER_BF16: return ADLGEN_PEER_BF16;
  case NUMBER_E4M3: return ADLGEN_PEER_E4M3;
  case NUMBER_E5M2: return ADLGEN_PEER_E5M2;
  case NUMBER_S8: return ADLGEN_PEER_S8;
  case NUMBER_S32: return ADLGEN_PEER_S32;
  default: return 0;
  }
}

static adlgen_peer_matrix matrix_of(const GraphTensor *tensor, const int64_t steps[2], int64_t batch_step)
{
  return (adlgen_peer_matrix){
      .type = type_of(tensor->type), .row_step = steps[0], .column_step = steps[1], .batch_step = batch_step};
}

static bool make_product(const BenchPlugin *plugin, BenchGpu *gpu, const BenchCase *c,
                         adlgen_peer_problem *problem, GError **error)
{
  const BenchProduct *p = &c->product;
  Accumulate accumulate = p->accumulate == ACCUMULATE_DEFAULT ? c->accumulate : p->accumulate;
  *problem = (adlgen_peer_problem){.m = p->m,
                                   .n = p->n,
                                   .k = p->k,
                                   .batch = p->batch,
                                   .a = matrix_of(p->a, p->a_step, p->a_batch),
                                   .b = matrix_of(p->b, p->b_step, p->b_batch),
                                   .d = matrix_of(p->d, p->d_step, p->d_batch),
                                   .scaled = p->scale[0] || p->scale[1],
                                   .fast_accumulation = accumulate == ACCUMULATE_FAST,
                                   .device = (int32_t)gpu->number,
                                   .sms = (int32_t)gpu->sms,
                                   .workspace = WORKSPACE};
  bool ok = problem->a.type && problem->b.type && problem->d.type && p->m > 0 && p->n > 0 && p->k > 0 &&
            p->batch > 0 && !p->scale[0] == !p->scale[1] && !p->fused;
  if (!ok)
    error_set(error, ERROR_UNSUPPORTED, NULL, "no-variant", NULL,
              "%s: adlgen/peer.h has no words for this product", plugin->table->name);
  return ok;
}

static void make_graph(BenchGpu *gpu, const BenchCase *c, Problem *problem)
{
  const Graph *graph = c->graph;
  json_t *json = bench_graph_json(graph);
  problem->json = json_dumps(json, JSON_COMPACT);
  json_decref(json);
  problem->names = g_new0(const char *, graph->n_tensors + 1);
  problem->tensors = g_new0(const GraphTensor *, graph->n_tensors + 1);
  unsigned n = 0;
  for (unsigned i = 0; i < graph->n_tensors; i++) {
    if (!bench_tensor_is_external(graph->tensors[i])) continue;
    problem->tensors[n] = graph->tensors[i];
    problem->names[n++] = graph->tensors[i]->name;
  }
  problem->graph = (adlgen_peer_graph){.name = c->name,
                                       .json = problem->json,
                                       .tensors = problem->names,
                                       .n_tensors = n,
                                       .device = (int32_t)gpu->number,
                                       .sms = (int32_t)gpu->sms};
}

static void clear_problem(Problem *problem)
{
  free(problem->json);
  g_free(problem->names);
  g_free(problem->tensors);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Problem, clear_problem)

static bool make_problem(const BenchPlugin *plugin, BenchGpu *gpu, const BenchCase *c, Problem *problem,
                         GError **error)
{
  *problem = (Problem){.is_graph = !plugin->table->count || (!c->is_product && plugin->table->graph_count)};
  if (problem->is_graph) {
    make_graph(gpu, c, problem);
    return true;
  }
  if (c->is_product) return make_product(plugin, gpu, c, &problem->product, error);
  error_set(error, ERROR_UNSUPPORTED, NULL, "no-variant", NULL, "%s: %s is not one matrix product",
            plugin->table->name, c->name);
  return false;
}

unsigned bench_plugin_count(const BenchPlugin *plugin, BenchGpu *gpu, const BenchCase *c, GError **error)
{
  g_auto(Problem) problem = {0};
  char message[MESSAGE_SIZE] = "";
  if (!make_problem(plugin, gpu, c, &problem, error)) return 0;
  unsigned n = problem.is_graph ? plugin->table->graph_count(&problem.graph, message, sizeof message)
                                : plugin->table->count(&problem.product, message, sizeof message);
  if (!n)
    error_set(error, ERROR_UNSUPPORTED, NULL, "no-variant", NULL, "%s: %s", plugin->table->name,
              *message ? message : "no variant for this case");
  return n;
}

static const char *variant_name(const adlgen_peer *table, const Problem *problem, unsigned index)
{
  return problem->is_graph ? table->graph_variant_name(&problem->graph, index)
                           : table->variant_name(&problem->product, index);
}

char *bench_plugin_variant_name(const BenchPlugin *plugin, BenchGpu *gpu, const BenchCase *c, unsigned index)
{
  g_auto(Problem) problem = {0};
  if (!make_problem(plugin, gpu, c, &problem, NULL)) return NULL;
  return g_strdup_printf("%s:%s", plugin->table->name, variant_name(plugin->table, &problem, index));
}

/* ---- candidates ---- */

static bool failed(const BenchPlugin *plugin, const char *what, const char *message, GError **error)
{
  error_set(error, ERROR_UNSUPPORTED, NULL, "plugin-failed", NULL, "%s: %s: %s", plugin->table->name, what,
            *message ? message : "no reason given");
  return false;
}

static void variant_release(BenchCandidate *candidate)
{
  Variant *variant = candidate->data;
  for (unsigned i = 0; i < variant->n_states; i++)
    variant->table->release(variant->states[i]);
  clear_problem(&variant->problem);
  g_free(variant->states);
  g_free(variant);
}

static bool call(const BenchCandidate *candidate, unsigned set,
                 int (*entry)(void *state, void *stream, char *message, size_t bytes), GError **error)
{
  const Variant *variant = candidate->data;
  char message[MESSAGE_SIZE] = "";
  int status = entry(variant->states[set], device_stream(variant->device), message, sizeof message);
  if (!status) return true;
  error_set(error, ERROR_UNSUPPORTED, NULL, "plugin-failed", NULL, "%s: status %d%s%s", candidate->name,
            status, *message ? ": " : "", message);
  return false;
}

static bool variant_queue(BenchCandidate *candidate, unsigned set, GError **error)
{
  return call(candidate, set, ((const Variant *)candidate->data)->table->launch, error);
}

static bool variant_deliver(BenchCandidate *candidate, unsigned set, GError **error)
{
  return call(candidate, set, ((const Variant *)candidate->data)->table->deliver, error);
}

static const void *address_of(const BenchTensors *tensors, unsigned set, const GraphTensor *tensor)
{
  return tensor ? (const void *)(uintptr_t)bench_tensor_address(tensors, set, tensor) // NOLINT: of the device
                : NULL;
}

/* A state for one set of tensors; NULL with the library's words in the message. */
static void *prepare_product(const BenchPlugin *plugin, const Problem *problem, unsigned index,
                             const BenchTensors *tensors, unsigned set, char message[MESSAGE_SIZE])
{
  const BenchProduct *p = &tensors->c->product;
  const adlgen_peer_operands operands = {
      .a = address_of(tensors, set, p->a),
      .b = address_of(tensors, set, p->b),
      .scale_a = address_of(tensors, set, p->scale[0]),
      .scale_b = address_of(tensors, set, p->scale[1]),
      .d = (void *)address_of(tensors, set, p->d),
      .workspace = (void *)(uintptr_t)plugin->workspace, // NOLINT: of the device
  };
  return plugin->table->prepare(&problem->product, index, &operands, message, MESSAGE_SIZE);
}

static void *prepare_graph(const BenchPlugin *plugin, const Problem *problem, unsigned index,
                           const BenchTensors *tensors, unsigned set, char message[MESSAGE_SIZE])
{
  g_autofree void **addresses = g_new0(void *, problem->graph.n_tensors + 1);
  for (unsigned i = 0; i < problem->graph.n_tensors; i++)
    addresses[i] = (void *)address_of(tensors, set, problem->tensors[i]);
  return plugin->table->graph_prepare(&problem->graph, index, addresses, message, MESSAGE_SIZE);
}

static bool prepare(const BenchPlugin *plugin, unsigned index, const BenchTensors *tensors, Variant *variant,
                    GError **error)
{
  const Problem *problem = &variant->problem;
  char message[MESSAGE_SIZE] = "";
  variant->states = g_new0(void *, tensors->n_sets + 1);
  for (unsigned set = 0; set < tensors->n_sets; set++) {
    void *state =
        (problem->is_graph ? prepare_graph : prepare_product)(plugin, problem, index, tensors, set, message);
    if (!state) return failed(plugin, variant_name(plugin->table, problem, index), message, error);
    variant->states[variant->n_states++] = state;
  }
  return true;
}

BenchCandidate *bench_plugin_candidate(BenchPlugin *plugin, unsigned index, const BenchTensors *tensors,
                                       GError **error)
{
  g_auto(Problem) problem = {0};
  if (!make_problem(plugin, tensors->gpu, tensors->c, &problem, error)) return NULL;
  if (!plugin->workspace && !problem.is_graph) {
    plugin->workspace = device_allocate(bench_gpu_device(tensors->gpu), WORKSPACE, error);
    if (!plugin->workspace) return NULL;
    plugin->device = bench_gpu_device(tensors->gpu);
  }
  g_autoptr(BenchCandidate) candidate = g_new0(BenchCandidate, 1);
  Variant *variant = g_new0(Variant, 1);
  variant->table = plugin->table;
  variant->device = bench_gpu_device(tensors->gpu);
  candidate->name =
      g_strdup_printf("%s:%s", plugin->table->name, variant_name(plugin->table, &problem, index));
  candidate->facts = json_pack("{s:s, s:i}", "library", plugin->table->library, "variant", (int)index);
  candidate->queue = variant_queue;
  candidate->deliver = plugin->table->deliver ? variant_deliver : NULL;
  candidate->release = variant_release;
  candidate->data = variant;
  variant->problem = problem;
  problem = (Problem){0};
  return prepare(plugin, index, tensors, variant, error) ? g_steal_pointer(&candidate) : NULL;
}
