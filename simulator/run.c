/* Launches: do they fit their kernels, memory and parameters, how much of them fits on the machine. */
#include "simulator/copy.h"
#include "simulator/flow.h"
#include "simulator/observe.h"
#include "simulator/product.h"
#include "simulator/race.h"
#include "simulator/sparse_copy.h"
#include <string.h>

#define MOST_INSTRUCTIONS 2000000000ull /* unless the caller says otherwise: some minutes */

SimModule *sim_module_parse(Source *source, GError **error)
{
  return ptx_parse(source, error);
}

void sim_module_free(SimModule *module)
{
  ptx_module_free(module);
}

void sim_options_default(SimOptions *options)
{
  *options = (SimOptions){
      .checkers = SIM_CHECK_ALL, .schedules = 1, .hits = 1, .max_instructions = MOST_INSTRUCTIONS};
}

static const PtxFunction *find_entry(const PtxModule *module, const char *name, GError **error)
{
  const PtxFunction *found = NULL;
  unsigned entries = 0;
  for (unsigned i = 0; i < module->n_functions; i++) {
    const PtxFunction *f = module->functions[i];
    if (!f->is_entry || !f->has_body) continue;
    entries++;
    if (!name || strcmp(f->name, name) == 0) found = f;
  }
  if (found && (name || entries == 1)) return found;
  Mark mark = {module->source, 1, 1};
  error_set(error, ERROR_INPUT, &mark, "ptx-entry", NULL, name ? "there is no entry '%s'" : "%s",
            name      ? name
            : entries ? "there are several entries; name one"
                      : "there is no entry");
  return NULL;
}

/* Takes over the diagnostics of one more entry; a function that several entries call is reported once. */
static void merge_errors(GError **all, GError *more, GHashTable *seen)
{
  const GPtrArray *list = error_diagnostics(more);
  for (unsigned i = 0; list && i < list->len; i++) {
    const Diagnostic *x = list->pdata[i];
    Mark mark = {x->source, x->line, x->column};
    if (!g_hash_table_add(seen, GSIZE_TO_POINTER(((gsize)x->line << 16) + x->column))) continue;
    error_add(all, (ErrorCode)more->code, x->severity, x->source ? &mark : NULL, x->code, x->hint, "%s",
              x->message);
  }
  g_error_free(more);
}

bool sim_module_check(const SimModule *module, const char *entry, GError **error)
{
  g_autoptr(GHashTable) seen = g_hash_table_new(g_direct_hash, g_direct_equal);
  GError *all = NULL;
  for (unsigned i = 0; i < module->n_functions; i++) {
    const PtxFunction *f = module->functions[i];
    if (!f->is_entry || !f->has_body || (entry && strcmp(entry, f->name))) continue;
    GError *local = NULL;
    Kernel *k = kernel_decode(module, f, &local);
    kernel_free(k);
    if (!k) merge_errors(&all, local, seen);
  }
  if (all) {
    g_propagate_error(error, all);
    return false;
  }
  return !entry || find_entry(module, entry, error);
}

/* More than any GPU has; a description says what one has. */
#define MOST_SHARED (1u << 20) /* bytes of a block */
#define MOST_LOCAL  (1u << 20) /* bytes of a thread, its stack included */

static bool refuse(const PtxFunction *f, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);
static bool refuse(const PtxFunction *f, GError **error, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  g_autofree char *text = g_strdup_vprintf(format, list);
  va_end(list);
  error_set(error, ERROR_INPUT, &f->mark, "launch-mismatch", NULL, "the launch does not fit '%s': %s",
            f->name, text);
  return false;
}

static bool check_launch(const PtxFunction *f, const SimLaunch *launch, GError **error)
{
  uint64_t threads = 1, blocks = 1, per_cluster = 1;
  for (unsigned i = 0; i < 3; i++) {
    unsigned c = MAX(launch->cluster[i], 1);
    if (!launch->grid[i] || !launch->block[i]) return refuse(f, error, "a grid or block dimension is 0");
    if (launch->grid[i] % c)
      return refuse(f, error, "grid %u is not a multiple of cluster %u", launch->grid[i], c);
    if (f->required_threads[0] && f->required_threads[i] != launch->block[i])
      return refuse(f, error, "it requires blocks of %u x %u x %u threads", f->required_threads[0],
                    f->required_threads[1], f->required_threads[2]);
    if (f->cluster[0] && f->cluster[i] != c)
      return refuse(f, error, "it requires clusters of %u x %u x %u", f->cluster[0], f->cluster[1],
                    f->cluster[2]);
    if (launch->block[i] > (i == 2 ? 64 : 1024))
      return refuse(f, error, "%u threads in one dimension", launch->block[i]);
    threads *= launch->block[i];
    blocks *= launch->grid[i];
    per_cluster *= c;
  }
  uint64_t most =
      f->max_threads[0] ? (uint64_t)f->max_threads[0] * f->max_threads[1] * f->max_threads[2] : 1024;
  if (threads > MIN(most, 1024))
    return refuse(f, error, "%llu threads per block; at most %llu are allowed", (unsigned long long)threads,
                  (unsigned long long)most);
  if (per_cluster > 16) return refuse(f, error, "a cluster of %llu blocks", (unsigned long long)per_cluster);
  if (blocks > 1ull << 31) return refuse(f, error, "%llu blocks", (unsigned long long)blocks);
  if (launch->shared > MOST_SHARED)
    return refuse(f, error, "%llu bytes of shared memory", (unsigned long long)launch->shared);
  if (launch->n_arguments != f->n_parameters)
    return refuse(f, error, "%u arguments for %u parameters", launch->n_arguments, f->n_parameters);
  return true;
}

/* The number of a target such as sm_NN or compute_NN, whatever letters stand behind it; 0: none. */
static unsigned target_number(const char *target)
{
  while (target && *target && !g_ascii_isdigit(*target))
    target++;
  return target ? (unsigned)g_ascii_strtoull(target, NULL, 10) : 0;
}

/* Can a GPU of one target run code for another? Code for an architecture's own instructions (sm_NNa) runs
 * there alone, code for those of a family (sm_NNf) within it, any other on all that came later. */
static bool target_runs_on(const char *target, const char *gpu)
{
  unsigned code = target_number(target), own = target_number(gpu);
  if (g_str_has_suffix(target, "a")) return code == own;
  if (g_str_has_suffix(target, "f")) return code / 10 == own / 10 && code <= own;
  return code <= own;
}

static uint64_t *nothing_defined(uint64_t bytes)
{
  return g_malloc0(SIM_DEFINED_BYTES(bytes));
}

#define HEAP_BYTES (8u << 20) /* the driver's default */
enum { BUFFER_WORKSPACE, BUFFER_HEAP, SYSTEM_BUFFERS };

static uint64_t address_of(const Run *run, const PtxSymbol *s, bool generic)
{
  const PtxModule *m = run->kernel->module;
  if (s->kind == SYMBOL_FUNCTION) return call_address(m, s->function);
  if (s->space == SPACE_CONST) return s->offset + (generic ? WINDOW_CONST : 0);
  if (s->space == SPACE_SHARED) return run->kernel->shared_base + s->offset + (generic ? WINDOW_SHARED : 0);
  for (unsigned i = 0; i < m->n_variables; i++)
    if (m->variables[i] == s) return (uint64_t)(VARIABLE_BUFFER + i + 1) << BUFFER_SHIFT;
  return 0;
}

/* Memory that the driver gives a kernel: the workspace of a cooperative launch (its size, then the counter of
 * the grid's barrier) and the heap of malloc. */
static void make_system_buffer(Run *run, unsigned index, unsigned which)
{
  bool wanted = which == BUFFER_WORKSPACE ? run->kernel->cooperative : run->kernel->allocates;
  Buffer *b = &run->variables[index];
  if (!wanted || b->data) return;
  uint64_t bytes = which == BUFFER_WORKSPACE ? 64 : HEAP_BYTES;
  *b = (Buffer){.name = which == BUFFER_WORKSPACE ? "grid workspace" : "heap", .bytes = bytes, .owned = true};
  b->data = g_malloc0(bytes + 16);
  b->address = (uint64_t)(VARIABLE_BUFFER + index + 1) << BUFFER_SHIFT;
  if (which == BUFFER_WORKSPACE) memcpy(b->data, &(uint32_t){64}, 4);
  if (which == BUFFER_HEAP && run->track_undefined) b->defined = nothing_defined(bytes);
  g_ptr_array_add(run->session->memory, b);
}

/* Addresses in the initialiser of variable i. */
static void relocate(Run *run, const PtxSymbol *s, unsigned i)
{
  uint8_t *at = s->space == SPACE_CONST ? run->constants + s->offset : run->variables[i].data;
  for (unsigned k = 0; k < s->n_relocations && at; k++) {
    const PtxRelocation *x = &s->relocations[k];
    uint64_t value = address_of(run, x->symbol, x->generic) + (uint64_t)x->addend;
    value = (value & x->mask) >> __builtin_ctzll(x->mask);
    memcpy(at + x->offset, &value, MIN(x->bytes, 8));
  }
}

static bool make_buffers(Session *s, const PtxFunction *f, const SimLaunch *launch, bool track,
                         GError **error)
{
  if (launch->n_buffers > VARIABLE_BUFFER) return refuse(f, error, "%u buffers", launch->n_buffers);
  s->n_buffers = launch->n_buffers;
  s->buffers = g_new0(Buffer, launch->n_buffers + 1);
  for (unsigned i = 0; i < launch->n_buffers; i++) {
    const SimBuffer *b = &launch->buffers[i];
    if (b->bytes > 1ull << 35) return refuse(f, error, "buffer '%s' is too large", b->name);
    s->buffers[i] = (Buffer){.name = b->name, .data = b->data, .bytes = b->bytes, .output = b->output};
    s->buffers[i].written = b->written;
    s->buffers[i].carries = b->carries;
    s->buffers[i].address = ((uint64_t)(i + 1) << BUFFER_SHIFT) + (1 << 20) + b->offset;
    s->buffers[i].borrowed = track && b->defined;
    if (s->buffers[i].borrowed)
      s->buffers[i].defined = b->defined;
    else if (track && b->undefined)
      s->buffers[i].defined = nothing_defined(b->bytes);
    g_ptr_array_add(s->memory, &s->buffers[i]);
  }
  return true;
}

/* Launches of one module share its variables. */
static void make_variables(Session *s, Run *run, const Run *earlier, unsigned n)
{
  const PtxModule *m = run->kernel->module;
  run->n_variables = m->n_variables + SYSTEM_BUFFERS;
  run->constant_bytes = m->const_bytes;
  run->constants = g_malloc0(m->const_bytes + 16);
  for (unsigned i = 0; i < m->n_variables; i++)
    if (m->variables[i]->space == SPACE_CONST && m->variables[i]->init)
      memcpy(run->constants + m->variables[i]->offset, m->variables[i]->init, m->variables[i]->bytes);
  for (unsigned i = 0; i < n && !run->variables; i++)
    if (earlier[i].kernel->module == m) run->variables = earlier[i].variables;
  run->owns_variables = !run->variables;
  if (run->owns_variables) run->variables = g_new0(Buffer, run->n_variables + 1);
  for (unsigned i = 0; i < SYSTEM_BUFFERS; i++)
    make_system_buffer(run, m->n_variables + i, i);
  if (run->kernel->cooperative) run->workspace = run->variables[m->n_variables].address;
  for (unsigned i = 0; i < m->n_variables && run->owns_variables; i++) {
    const PtxSymbol *v = m->variables[i];
    Buffer *b = &run->variables[i];
    b->name = v->name;
    if (v->space != SPACE_GLOBAL) continue;
    *b = (Buffer){.name = v->name, .bytes = v->bytes, .owned = true};
    b->data = g_malloc0(v->bytes + 16);
    b->address = (uint64_t)(VARIABLE_BUFFER + i + 1) << BUFFER_SHIFT;
    if (v->init) memcpy(b->data, v->init, v->bytes);
    g_ptr_array_add(s->memory, b);
  }
  for (unsigned i = 0; i < m->n_variables; i++)
    if (run->owns_variables || m->variables[i]->space == SPACE_CONST) relocate(run, m->variables[i], i);
}

static bool make_tensormap(Run *run, const PtxFunction *f, const SimLaunch *launch, const SimTensorMap *t,
                           uint8_t *out, GError **error)
{
  TensorMap m = {.magic = TENSORMAP_MAGIC, .type = (uint8_t)t->type, .rank = (uint8_t)t->rank};
  unsigned bytes = number_bytes(t->type);
  if (t->buffer >= launch->n_buffers || t->rank < 1 || t->rank > 5)
    return refuse(f, error, "tensor map '%s' has no buffer or a bad rank", t->name);
  m.address = run->buffers[t->buffer].address + t->buffer_offset;
  m.fill_nan = t->fill_nan;
  m.ftz = t->ftz;
  m.swizzle_log = t->swizzle == 128 ? 3 : t->swizzle == 64 ? 2 : t->swizzle == 32 ? 1 : 0;
  if (m.address & 15)
    return refuse(f, error, "tensor map '%s': the address is not a multiple of 16", t->name);
  if (t->swizzle && !m.swizzle_log)
    return refuse(f, error, "tensor map '%s': swizzle %u", t->name, t->swizzle);
  for (unsigned i = 0; i < t->rank; i++) {
    if (!t->dims[i] || t->dims[i] > 1ull << 32 || !t->box[i] || t->box[i] > 256)
      return refuse(f, error, "tensor map '%s': dimension %u: size %llu, box %u", t->name, i,
                    (unsigned long long)t->dims[i], t->box[i]);
    m.dims[i] = (uint32_t)(t->dims[i] - 1);
    m.box[i] = (uint16_t)t->box[i];
    unsigned stride = MAX(t->element_strides[i], 1);
    if (stride > 8) return refuse(f, error, "tensor map '%s': element stride %u", t->name, stride);
    m.element_strides[i] = (uint8_t)stride;
    if (i + 1 == t->rank) break;
    m.strides[i] = t->strides[i];
    if (t->strides[i] & 15 || t->strides[i] >> 40)
      return refuse(f, error, "tensor map '%s': stride %llu is not a multiple of 16 below 2^40", t->name,
                    (unsigned long long)t->strides[i]);
  }
  if (t->box[0] * bytes % 16 || (t->swizzle && t->box[0] * bytes > t->swizzle))
    return refuse(f, error, "tensor map '%s': an inner box of %u bytes", t->name, t->box[0] * bytes);
  memcpy(out, &m, sizeof m);
  return true;
}

/* Addresses and tensor maps that stand in buffers. */
static bool fill_references(Run *run, const PtxFunction *f, const SimLaunch *launch, GError **error)
{
  for (unsigned i = 0; i < launch->n_buffers; i++)
    for (unsigned k = 0; k < launch->buffers[i].n_references; k++) {
      const SimReference *r = &launch->buffers[i].references[k];
      const Buffer *b = &run->buffers[i];
      unsigned bytes = r->tensormap ? 128 : 8;
      if (r->at > b->bytes || b->bytes - r->at < bytes)
        return refuse(f, error, "buffer '%s': %u bytes at byte %llu are not within its %llu", b->name, bytes,
                      (unsigned long long)r->at, (unsigned long long)b->bytes);
      if (r->tensormap && (b->address + r->at) % 64)
        return refuse(f, error, "buffer '%s': a tensor map at byte %llu is not aligned to 64 bytes", b->name,
                      (unsigned long long)r->at);
      uint64_t address = r->tensormap ? 0 : run->buffers[r->index].address + r->offset;
      if (!r->tensormap)
        memcpy(b->data + r->at, &address, 8);
      else if (!make_tensormap(run, f, launch, &launch->tensormaps[r->index], b->data + r->at, error))
        return false;
      memory_define(&(Place){.offset = r->at, .defined = b->defined}, bytes, true);
    }
  return true;
}

static bool make_parameters(Run *run, const PtxFunction *f, const SimLaunch *launch, GError **error)
{
  run->parameter_bytes = f->parameter_bytes;
  run->parameters = g_aligned_alloc0(1, f->parameter_bytes + 128, 128);
  for (unsigned i = 0; i < f->n_parameters; i++) {
    const PtxSymbol *p = f->parameters[i];
    const SimArgument *a = &launch->arguments[i];
    uint8_t *at = run->parameters + p->offset;
    switch (a->kind) {
    case SIM_ARG_BUFFER: {
      uint64_t address = a->index < run->n_buffers ? run->buffers[a->index].address + a->offset : 0;
      if (p->bytes != 8)
        return refuse(f, error, "parameter '%s' has %u bytes, not a pointer's 8", p->name,
                      (unsigned)p->bytes);
      memcpy(at, &address, 8);
      break;
    }
    case SIM_ARG_TENSORMAP:
      if (p->bytes != 128 || p->align % 64 || a->index >= launch->n_tensormaps)
        return refuse(f, error, "parameter '%s' is no tensor map (128 bytes aligned to 64)", p->name);
      if (!make_tensormap(run, f, launch, &launch->tensormaps[a->index], at, error)) return false;
      break;
    default:
      if (p->bytes != a->n_bytes)
        return refuse(f, error, "parameter '%s' has %u bytes, the argument %u", p->name, (unsigned)p->bytes,
                      a->n_bytes);
      memcpy(at, a->bytes, a->n_bytes);
      break;
    }
  }
  return true;
}

static unsigned registers_at_entry(const PtxFunction *f, const SimLaunch *launch, const Gpu *gpu)
{
  if (launch->registers) return launch->registers;
  if (f->max_registers) return f->max_registers;
  unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];
  unsigned total = gpu ? gpu->registers_per_sm : 65536;
  if (!f->min_blocks) return 0;
  return MIN(total / (f->min_blocks * threads) / 8 * 8, 255);
}

/* Clusters that are on the GPU at once; 0 without a description. Registers count if they are known. How
 * clusters spread over the GPU's parts is not modelled. */
static uint64_t fitting_clusters(const Run *run, const Gpu *gpu)
{
  if (!gpu || !gpu->warp_size) return 0;
  unsigned warps = (unsigned)((run->threads + gpu->warp_size - 1) / gpu->warp_size);
  uint64_t per_sm = MIN(gpu->warps_per_sm / warps, gpu->blocks_per_sm);
  uint64_t shared = run->shared_end - run->kernel->shared_base + gpu->shared_reserved;
  if (shared) per_sm = MIN(per_sm, gpu->shared_per_sm / shared);
  if (run->registers_per_thread) {
    uint64_t unit = MAX(gpu->register_unit, 1),
             per_warp = (uint64_t)run->registers_per_thread * gpu->warp_size;
    per_warp = (per_warp + unit - 1) / unit * unit;
    per_sm = MIN(per_sm, gpu->registers_per_sm / per_warp / warps);
  }
  uint64_t per_cluster = (uint64_t)run->cluster[0] * run->cluster[1] * run->cluster[2];
  return MAX(per_sm * gpu->sm_count / per_cluster, 1);
}

static void set_sizes(Run *run, const PtxFunction *f, const SimLaunch *launch, const Gpu *gpu)
{
  const Kernel *k = run->kernel;
  run->threads = 1;
  run->clusters = 1;
  for (unsigned i = 0; i < 3; i++) {
    run->grid[i] = launch->grid[i];
    run->block[i] = launch->block[i];
    run->cluster[i] = MAX(launch->cluster[i], 1);
    run->threads *= run->block[i];
    run->clusters *= run->grid[i] / run->cluster[i];
  }
  run->dynamic_shared = launch->shared;
  uint64_t start = k->shared_base + k->shared_static;
  run->shared_end = launch->shared ? (start + 15) / 16 * 16 + launch->shared : start;
  run->registers_per_thread = registers_at_entry(f, launch, gpu);
  run->sm_count = gpu ? gpu->sm_count : 1;
  run->fitting = fitting_clusters(run, gpu);
}

static bool make_run(Session *s, Run *runs, unsigned i, const SimStep *step, const Gpu *gpu, GError **error)
{
  Run *run = &runs[i];
  const SimOptions *options = s->options;
  const SimLaunch *launch = step->launch;
  const PtxFunction *f = find_entry(step->module, launch->entry, error);
  if (!f || !check_launch(f, launch, error)) return false;
  Kernel *kernel = kernel_decode(step->module, f, error);
  if (!kernel) return false;
  *run = (Run){.session = s, .kernel = kernel, .options = options, .index = i};
  if (kernel->local_bytes > MOST_LOCAL) {
    error_set(error, ERROR_UNSUPPORTED, &f->mark, "local-memory", NULL,
              "'%s' needs %llu bytes of local memory per thread; the simulator has %u", f->name,
              (unsigned long long)kernel->local_bytes, MOST_LOCAL);
    return false;
  }
  for (uint32_t k = 0; k < kernel->n_code; k++) {
    product_bind(&kernel->code[k], gpu);
    product_bind_wmma(&kernel->code[k], gpu);
    product_bind_group(&kernel->code[k], gpu);
    product_bind_general(&kernel->code[k], gpu);
  }
  run->name = step->name;
  run->after = step->after;
  run->n_after = step->n_after;
  uint32_t value_checks = 1u << SIM_FAULT_UNDEFINED | 1u << SIM_FAULT_WGMMA;
  run->track_races = s->track_races;
  run->track_undefined = options->checkers & value_checks;
  run->ours = options->strict || g_strstr_len(step->module->source->text, 1024, "adlgen") != NULL;
  set_sizes(run, f, launch, gpu);
  if (!i && !make_buffers(s, f, launch, run->track_undefined, error)) return false;
  run->buffers = s->buffers;
  run->n_buffers = s->n_buffers;
  if (!i && !fill_references(run, f, launch, error)) return false;
  make_variables(s, run, runs, i);
  uint64_t shared = run->shared_end - kernel->shared_base;
  const char *target = step->module->target;
  if (gpu && gpu->target && !target_runs_on(target, gpu->target))
    return refuse(f, error, "it is for %s; %s takes %s", target, gpu->name, gpu->target);
  if (shared > MOST_SHARED)
    return refuse(f, error, "%llu bytes of shared memory", (unsigned long long)shared);
  if (gpu && gpu->shared_per_block && shared > gpu->shared_per_block)
    return refuse(f, error, "%llu bytes of shared memory; a block has %u", (unsigned long long)shared,
                  gpu->shared_per_block);
  return make_parameters(run, f, launch, error);
}

static void run_free(Run *run)
{
  for (unsigned i = 0; i < run->n_variables && run->owns_variables; i++)
    if (run->variables[i].owned) {
      g_free(run->variables[i].data);
      g_free(run->variables[i].defined);
    }
  if (run->owns_variables) g_free(run->variables);
  if (run->parameters) g_aligned_free(run->parameters);
  g_free(run->constants);
  kernel_free((Kernel *)run->kernel);
}

static void session_free(Session *s, Run *runs, unsigned n)
{
  for (unsigned i = 0; i < s->n_buffers && s->buffers; i++)
    if (!s->buffers[i].borrowed) g_free(s->buffers[i].defined);
  g_free(s->buffers);
  for (unsigned i = n; i-- > 0;)
    run_free(&runs[i]);
  g_ptr_array_free(s->memory, TRUE);
  block_memory_free(s);
  g_hash_table_destroy(s->seen);
  g_mutex_clear(&s->lock);
}

/* What the caller's buffers held before the first of several threads wrote to them. */
typedef struct Before {
  SparseCopy **data;    /* NULL: one thread does it all */
  SparseCopy **defined; /* of bits that are the caller's */
  unsigned n;
} Before;

static void keep_buffers(Before *before, const Session *s, const Run *runs, unsigned n)
{
  unsigned jobs = s->options->jobs ? s->options->jobs : g_get_num_processors();
  bool threads = false;
  for (unsigned i = 0; i < n; i++)
    threads |= jobs > 1 && runs[i].clusters > 1 && !runs[i].kernel->global_order;
  if (!threads) return;
  before->data = g_new0(SparseCopy *, s->n_buffers + 1);
  before->defined = g_new0(SparseCopy *, s->n_buffers + 1);
  before->n = s->n_buffers;
  for (unsigned i = 0; i < s->n_buffers; i++) {
    const Buffer *b = &s->buffers[i];
    before->data[i] = sparse_copy_new(b->data, b->bytes);
    if (b->borrowed) before->defined[i] = sparse_copy_new(b->defined, SIM_DEFINED_BYTES(b->bytes));
  }
}

static void put_back(const Before *before, const SimLaunch *launch)
{
  for (unsigned i = 0; i < before->n; i++) {
    sparse_copy_restore(before->data[i], launch->buffers[i].data);
    if (before->defined[i]) sparse_copy_restore(before->defined[i], launch->buffers[i].defined);
  }
}

static void forget_buffers(Before *before)
{
  for (unsigned i = 0; i < before->n; i++) {
    sparse_copy_free(before->data[i]);
    sparse_copy_free(before->defined[i]);
  }
  g_free(before->data);
  g_free(before->defined);
}

/* before: NULL for one thread */
static bool run_once(const SimStep *steps, unsigned n, const Gpu *gpu, const SimOptions *options,
                     SimResult *result, Before *before, GError **error)
{
  *result = (SimResult){0};
  uint32_t races = 1u << SIM_FAULT_RACE | 1u << SIM_FAULT_PROXY | 1u << SIM_FAULT_PROXY_WAR;
  Session s = {.options = options, .result = result, .track_races = options->checkers & races};
  g_mutex_init(&s.lock);
  s.seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  s.memory = g_ptr_array_new();
  s.left = g_ptr_array_new();
  g_autofree Run *runs = g_new0(Run, n);
  bool ok = true;
  for (unsigned i = 0; i < n && ok; i++)
    ok = make_run(&s, runs, i, &steps[i], gpu, error);
  for (unsigned i = 0; i < n && ok; i++)
    ok = observe_begin(&runs[i], (Kernel *)runs[i].kernel, gpu, error);
  if (ok) {
    if (before) keep_buffers(before, &s, runs, n);
    gint64 start = g_get_monotonic_time();
    if (options->timeout > 0) s.deadline = start + (gint64)(options->timeout * 1e6);
    session_run(&s, runs, n);
    result->seconds = (double)(g_get_monotonic_time() - start) * 1e-6;
    result->instructions = s.instructions;
    result->of_steps = g_new(uint64_t, n);
    for (unsigned i = 0; i < n; i++)
      result->of_steps[i] = runs[i].instructions;
    for (unsigned i = 0; i < n; i++)
      print_finish_run(&runs[i]);
  }
  for (unsigned i = 0; i < n; i++)
    if (runs[i].kernel) observe_end(&runs[i]);
  session_free(&s, runs, n);
  return ok;
}

static bool anything_reported(const SimResult *result)
{
  for (unsigned i = 0; i < result->n_faults; i++)
    if (result->faults[i].kind != SIM_FAULT_BANK && result->faults[i].kind != SIM_FAULT_SECTOR) return true;
  return false;
}

/* Clusters that run at the same time report in the order in which they happen to meet. So that the report is
 * the same whatever the number of threads, it always comes from one: when several have found anything, memory
 * is put back and they are not used again. A good kernel pays with a copy of its buffers. */
bool sim_run_steps(const SimStep *steps, unsigned n, const Gpu *gpu, const SimOptions *options,
                   SimResult *result, GError **error)
{
  if (options->counts && (!gpu || n > 1)) {
    error_set(error, ERROR_USAGE, NULL, "counts-gpu", gpu ? NULL : "name a GPU",
              gpu ? "counting works for one launch, not for a list"
                  : "counting needs a GPU, whose description has its banks and sectors");
    return false;
  }
  Before before = {0};
  bool ok = run_once(steps, n, gpu, options, result, &before, error);
  bool late = options->timeout > 0 && result->seconds >= options->timeout;
  if (ok && before.data && anything_reported(result) && !late) {
    SimOptions single = *options;
    double spent = result->seconds;
    single.jobs = 1;
    if (options->timeout > 0) single.timeout = options->timeout - spent;
    put_back(&before, steps[0].launch);
    sim_result_clear(result);
    ok = run_once(steps, n, gpu, &single, result, NULL, error);
    result->seconds += spent;
  }
  forget_buffers(&before);
  return ok;
}

bool sim_run(const SimModule *module, const SimLaunch *launch, const Gpu *gpu, const SimOptions *options,
             SimResult *result, GError **error)
{
  const SimStep step = {.module = module, .launch = launch};
  return sim_run_steps(&step, 1, gpu, options, result, error);
}
