#include "execute/jit.h"
#include "base/version.h"
#include "execute/build.h"
#include "execute/build_id.h"
#include "execute/evaluate.h"
#include "execute/program_key.h"
#include "generator/choose/tuned.h"
#include <string.h>

void loaded_free(Loaded *loaded)
{
  if (!loaded) return;
  executable_free(loaded->executable); /* it takes from the queue, and that uses the assembler */
  assembly_queue_free(loaded->queue);
  assembler_free(loaded->assembler);
  g_ptr_array_unref(loaded->warnings);
  g_free(loaded->gpu);
  g_free(loaded);
}

const char *loaded_warning(const Loaded *loaded, size_t i)
{
  if (i < loaded->warnings->len) return loaded->warnings->pdata[i];
  return loaded->assembler && i == loaded->warnings->len ? cache_warning(loaded->assembler->cache) : NULL;
}

static Loaded *loaded_new(const char *gpu)
{
  Loaded *loaded = g_new0(Loaded, 1);
  loaded->warnings = g_ptr_array_new_with_free_func(g_free);
  loaded->gpu = g_strdup(gpu);
  return loaded;
}

/* One call on its way. */
typedef struct Jit {
  const JitOptions *options;
  Context *context;           /* NULL once the executable has it */
  const Assembler *assembler; /* and the cache in it; `loaded` has it */
  const Gpu *gpu;
  Gpu *own_gpu;
  char *target;
  Loaded *loaded;
} Jit;

static void jit_clear(Jit *jit)
{
  context_close(jit->context);
  gpu_free(jit->own_gpu);
  g_free(jit->target);
  loaded_free(jit->loaded);
}

/* ---- the description nearest to a device, in the cache ---- */

/* Reading every description takes longer than all else of a warm start. */
static Gpu *nearest_gpu(const DeviceFigures *figures, Cache *cache, GError **error)
{
  g_autoptr(GString) texts = g_string_new(NULL);
  g_autofree char *build = build_id();
  char key[CACHE_KEY_LENGTH + 1];
  bool known = build && program_add_texts(texts, "adl/gpu") && program_add_texts(texts, "adl/arch") &&
               program_add_texts(texts, "adl/model");
  if (!known) return figures_find_gpu(figures, error);
  g_string_append_printf(texts, "%u %u %u %" G_GUINT64_FORMAT, figures->capability, figures->sm_count,
                         figures->shared_per_block, figures->memory_bytes);
  cache_key(key, "nearest", ADLGEN_VERSION, build, figures->name, texts->str, NULL);
  g_autoptr(GBytes) content = cache_get(cache, key);
  gsize size = 0;
  const char *data = content ? g_bytes_get_data(content, &size) : NULL;
  g_autofree char *name = data ? g_strndup(data, size) : NULL;
  Gpu *gpu = name ? gpu_load(name, NULL) : NULL;
  if (gpu) return gpu;
  gpu = figures_find_gpu(figures, error);
  if (!gpu) return NULL;
  g_autoptr(GBytes) found = g_bytes_new(gpu->name, strlen(gpu->name));
  cache_put(cache, key, found);
  return gpu;
}

static bool open_assembler(Jit *jit, GError **error)
{
  const JitOptions *options = jit->options;
  Cache *cache = cache_open(options->cache_dir, 0);
  jit->loaded->assembler = options->nvjitlink
                               ? assembler_load_nvjitlink(cache, error)
                               : assembler_find_cached(options->ptxas, options->near, cache, error);
  jit->assembler = jit->loaded->assembler;
  return jit->assembler != NULL;
}

static bool jit_open(Jit *jit, const Gpu *gpu, GError **error)
{
  jit->loaded = loaded_new(NULL);
  jit->context = context_open(jit->options->device, error);
  if (!jit->context || !open_assembler(jit, error)) return false;
  const DeviceFigures *figures = context_figures(jit->context);
  jit->own_gpu = gpu ? NULL : nearest_gpu(figures, jit->assembler->cache, error);
  jit->gpu = gpu ? gpu : jit->own_gpu;
  jit->target = jit->gpu ? figures_target(figures, jit->gpu->target, error) : NULL;
  if (!jit->target) return false;
  jit->loaded->gpu = g_strdup(jit->gpu->name);
  figures_compare(figures, jit->gpu, jit->target, jit->loaded->warnings);
  return true;
}

/* ---- a compiled graph in the cache ----
 *
 * An entry is a line of JSON, [[[name, entry, hash of the PTX], ...], files], and behind it the plan. Machine code has
 * entries of its own, and so has PTX of which there is none yet: a process may end before all is assembled.
 */

static bool key_of(const Jit *jit, const Source *source, char key[CACHE_KEY_LENGTH + 1])
{
  const JitOptions *options = jit->options;
  const ProgramInput input = {source,        jit->gpu,       &options->compile,
                              options->dims, options->tuned, options->no_tuned};
  return program_key("program", &input, key);
}

typedef struct Program {
  Plan *plan;
  ExecutableKernel *kernels; /* names belong to `head` */
  unsigned n;
  json_t *head;
  AssemblyQueue *queue;
  bool lacks_code; /* of some kernel there is only PTX */
} Program;

static void program_clear(Program *program)
{
  plan_free(program->plan);
  g_free(program->kernels);
  json_decref(program->head);
  assembly_queue_free(program->queue);
}

static bool recall_kernel(const Jit *jit, Program *program, json_t *row)
{
  const char *name = NULL, *entry = NULL, *hash = NULL;
  if (json_unpack(row, "[sss]", &name, &entry, &hash)) return false;
  g_autoptr(Assembly) assembly = assembly_recall(jit->assembler, hash, jit->target);
  g_autofree char *ptx = assembly ? NULL : ptx_recall(jit->assembler, hash);
  if (!assembly && !ptx) return false;
  assembly_queue_add(program->queue, name, ptx, assembly ? assembly->cubin : NULL);
  program->lacks_code |= !assembly;
  program->kernels[program->n++] = (ExecutableKernel){name, entry};
  return true;
}

static bool read_program(const Jit *jit, Program *program, const char *data, gsize size)
{
  const char *end = memchr(data, '\n', size);
  if (!end) return false;
  program->head = json_loadb(data, (size_t)(end - data), 0, NULL);
  const json_t *list = json_array_get(program->head, 0);
  if (!json_is_array(list) || !program_files_same(json_array_get(program->head, 1))) return false;
  program->kernels = g_new0(ExecutableKernel, json_array_size(list) + 1);
  program->queue = assembly_queue_new(jit->assembler, jit->target, jit->options->jobs);
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!recall_kernel(jit, program, json_array_get(list, i))) return false;
  g_autoptr(Source) source = source_new("<cache>/plan.json", end + 1, size - (size_t)(end + 1 - data));
  program->plan = plan_read(source, NULL);
  return program->plan != NULL;
}

/* true if plan and machine code or PTX of every kernel were there. */
static bool recall_program(const Jit *jit, const char *key, Program *program)
{
  g_autoptr(GBytes) content = cache_get(jit->assembler->cache, key);
  gsize size = 0;
  const char *data = content ? g_bytes_get_data(content, &size) : NULL;
  return data && read_program(jit, program, data, size);
}

/* What is to be written while kernels are assembled. */
typedef struct Memory {
  const Assembler *assembler; /* and the cache in it */
  char key[CACHE_KEY_LENGTH + 1];
  char *plan;
  json_t *list, *files;
  GPtrArray *texts; /* PTX, as the list */
} Memory;

static void memory_free(void *data)
{
  Memory *memory = data;
  g_free(memory->plan);
  json_decref(memory->list);
  json_decref(memory->files);
  g_ptr_array_unref(memory->texts);
  g_free(memory);
}

/* The entry comes last: whoever finds it finds the texts too. */
static void memory_write(void *data)
{
  const Memory *memory = data;
  for (guint i = 0; i < memory->texts->len; i++) {
    char hash[CACHE_KEY_LENGTH + 1];
    ptx_hash(memory->texts->pdata[i], hash);
    json_array_append_new(json_array_get(memory->list, i), json_string(hash));
    ptx_remember(memory->assembler, hash, memory->texts->pdata[i]);
  }
  json_t *head = json_pack("[OO]", memory->list, memory->files);
  char *line = json_dumps(head, JSON_COMPACT);
  char *text = g_strconcat(line, "\n", memory->plan, NULL);
  free(line);
  json_decref(head);
  g_autoptr(GBytes) content = g_bytes_new_take(text, strlen(text));
  cache_put(memory->assembler->cache, memory->key, content);
}

/* Takes `files`. */
static Memory *program_memory(const Jit *jit, const char *key, const CompileResult *result, json_t *files)
{
  Memory *memory = g_new0(Memory, 1);
  memory->assembler = jit->assembler;
  memcpy(memory->key, key, sizeof memory->key);
  memory->plan = plan_text(result->plan);
  memory->list = json_array();
  memory->files = files;
  memory->texts = g_ptr_array_new_with_free_func(g_free);
  for (guint i = 0; i < result->kernels->len; i++) {
    const CompiledKernel *kernel = result->kernels->pdata[i];
    json_array_append_new(memory->list, json_pack("[ss]", kernel->name, kernel->entry));
    g_ptr_array_add(memory->texts, g_strdup(kernel->text));
  }
  return memory;
}

/* ---- assembling and loading ---- */

static void want_kernel(void *data, unsigned kernel)
{
  assembly_queue_want(data, kernel);
}

static GBytes *take_kernel(void *data, unsigned kernel, GError **error)
{
  return assembly_queue_take(data, kernel, error);
}

static KernelSource source_of(AssemblyQueue *queue)
{
  return (KernelSource){want_kernel, take_kernel, queue};
}

/* The plan is read back from its text, since the executable has one of its own. Takes the context. */
static Executable *make_executable(const CompileResult *result, Context *context, AssemblyQueue *queue,
                                   GError **error)
{
  unsigned n = result->kernels->len;
  g_autofree ExecutableKernel *kernels = g_new0(ExecutableKernel, n + 1);
  g_autofree char *text = plan_text(result->plan);
  g_autoptr(Source) source = source_new("<plan>", text, strlen(text));
  const KernelSource origin = source_of(queue);
  Plan *copy = plan_read(source, error);
  if (!copy) {
    context_close(context);
    return NULL;
  }
  for (unsigned i = 0; i < n; i++) {
    const CompiledKernel *kernel = result->kernels->pdata[i];
    kernels[i] = (ExecutableKernel){kernel->name, kernel->entry};
    assembly_queue_add(queue, kernel->name, kernel->text, NULL);
  }
  Executable *executable = executable_new(copy, context, kernels, n, &origin, error);
  if (!executable) plan_free(copy);
  return executable;
}

Loaded *jit_kernels(const CompileResult *result, Context *context, const Assembler *assembler,
                    const char *target, GError **error)
{
  g_autoptr(Loaded) loaded = loaded_new(result->plan->gpu_name);
  loaded->queue = assembly_queue_new(assembler, target, 0);
  loaded->executable = make_executable(result, context, loaded->queue, error);
  return loaded->executable ? g_steal_pointer(&loaded) : NULL;
}

/* key: of the cache's entry; NULL: there will be none. Takes `files`, as they were when the graph was read. */
static bool assemble_and_load(Jit *jit, const CompileResult *result, const char *key, json_t *files,
                              GError **error)
{
  Loaded *loaded = jit->loaded;
  loaded->queue = assembly_queue_new(jit->assembler, jit->target, jit->options->jobs);
  loaded->executable = make_executable(result, g_steal_pointer(&jit->context), loaded->queue, error);
  if (!loaded->executable) {
    json_decref(files);
    return false;
  }
  Memory *memory = key && files ? program_memory(jit, key, result, files) : NULL;
  if (!memory) json_decref(files);
  assembly_queue_start(loaded->queue, memory ? memory_write : NULL, memory, memory ? memory_free : NULL);
  return true;
}

static bool load_program(Jit *jit, Program *program, GError **error)
{
  Context *context = g_steal_pointer(&jit->context);
  const KernelSource origin = source_of(program->queue);
  jit->loaded->executable =
      executable_new(program->plan, context, program->kernels, program->n, &origin, error);
  if (!jit->loaded->executable) return false;
  program->plan = NULL; /* the executable has it */
  jit->loaded->queue = g_steal_pointer(&program->queue);
  if (program->lacks_code) assembly_queue_start(jit->loaded->queue, NULL, NULL, NULL);
  return true;
}

/* ---- constants ---- */

static bool load_constant(Executable *executable, const Graph *graph, unsigned i, GError **error)
{
  g_autoptr(Tensor) tensor = evaluate_plan_constant(graph, executable_tensor(executable, i), error);
  return tensor && executable_set_constant(executable, i, tensor->data, tensor->bytes, error);
}

/* Those that another executable has are its. Gives how many are left. */
static unsigned share_constants(Executable *executable, const Executable *from)
{
  unsigned left = 0;
  for (unsigned i = 0; i < executable_tensor_count(executable); i++)
    if (executable_tensor(executable, i)->kind == PLAN_CONSTANT)
      left += !from || !executable_share_constant(executable, i, from);
  return left;
}

/* Those that it does not share. */
static bool load_constants(Executable *executable, const Graph *graph, GError **error)
{
  for (unsigned i = 0; i < executable_tensor_count(executable); i++)
    if (executable_tensor(executable, i)->kind == PLAN_CONSTANT && !executable_has_constant(executable, i) &&
        !load_constant(executable, graph, i, error))
      return false;
  return true;
}

/* ---- the doors ---- */

/* What was loaded, or NULL; the rest is given back. */
static Loaded *finish(Jit *jit, bool ok)
{
  Loaded *loaded = ok ? g_steal_pointer(&jit->loaded) : NULL;
  jit_clear(jit);
  return loaded;
}

static bool compile_and_load(Jit *jit, Source *source, const char *key, Graph **graph, GError **error)
{
  CompileOptions options = jit->options->compile;
  options.drop_ir = options.drop_notes = true;
  g_autoptr(TunedDatabase) tuned = NULL;
  *graph = build_graph(source, jit->options->dims, error);
  if (*graph && !jit->options->no_tuned) {
    tuned = tuned_database_open(jit->gpu, jit->options->tuned, error);
    if (!tuned) return false;
  }
  options.tuned = tuned;
  json_t *files = *graph && key ? program_files(*graph) : NULL;
  g_autoptr(CompileResult) result = *graph ? generator_compile(*graph, jit->gpu, &options, error) : NULL;
  if (result) return assemble_and_load(jit, result, key, files, error);
  json_decref(files);
  return false;
}

Loaded *jit_source(Source *source, const Gpu *gpu, const JitOptions *options, GError **error)
{
  Jit jit = {.options = options};
  Program program = {NULL};
  g_autoptr(Graph) graph = NULL;
  char key[CACHE_KEY_LENGTH + 1];
  bool ok = jit_open(&jit, gpu, error), known = ok && key_of(&jit, source, key);
  if (known && recall_program(&jit, key, &program))
    ok = load_program(&jit, &program, error);
  else
    ok = ok && compile_and_load(&jit, source, known ? key : NULL, &graph, error);
  program_clear(&program);
  if (ok && share_constants(jit.loaded->executable, options->share)) {
    if (!graph) graph = build_graph(source, options->dims, error);
    ok = graph && load_constants(jit.loaded->executable, graph, error);
  }
  return finish(&jit, ok);
}

Loaded *jit_result(const CompileResult *result, const Graph *graph, const Gpu *gpu, const JitOptions *options,
                   GError **error)
{
  Jit jit = {.options = options};
  bool ok = jit_open(&jit, gpu, error) && assemble_and_load(&jit, result, NULL, NULL, error);
  if (ok && share_constants(jit.loaded->executable, options->share))
    ok = load_constants(jit.loaded->executable, graph, error);
  return finish(&jit, ok);
}
