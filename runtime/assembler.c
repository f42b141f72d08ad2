#include "runtime/assembler_private.h"
#include "runtime/assembler_search.h"
#include <glib/gstdio.h>
#include <string.h>

/* ---- running a tool ---- */

/* Runs argv in a folder and returns what it printed on both streams; *status is its exit status, or -1 if it
 * was killed. NULL with *error if it could not be started, or was stopped (`stop` may be NULL). */
static char *run_tool(const char *const *argv, const char *folder, int *status, GCancellable *stop,
                      GError **error)
{
  g_autoptr(GSubprocessLauncher) launcher =
      g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_MERGE);
  if (folder) g_subprocess_launcher_set_cwd(launcher, folder);
  g_autoptr(GError) start_error = NULL;
  g_autoptr(GSubprocess) process = g_subprocess_launcher_spawnv(launcher, argv, &start_error);
  g_autoptr(GBytes) output = NULL;
  if (!process || !g_subprocess_communicate(process, NULL, stop, &output, NULL, &start_error)) {
    if (process) { /* it writes to a folder that will be removed */
      g_subprocess_force_exit(process);
      g_subprocess_wait(process, NULL, NULL);
    }
    error_set(error, ERROR_MISSING_TOOL, NULL, "tool-failed", NULL, "cannot run %s: %s", argv[0],
              start_error->message);
    return NULL;
  }
  *status = g_subprocess_get_if_exited(process) ? g_subprocess_get_exit_status(process) : -1;
  gsize size = 0;
  const char *text = g_bytes_get_data(output, &size);
  return g_utf8_make_valid(text ? text : "", (gssize)size);
}

/* ---- the tool and what it knows ---- */

static int compare_targets(const void *a, const void *b)
{
  const char *left = *(char *const *)a, *right = *(char *const *)b;
  guint64 x = g_ascii_strtoull(strchr(left, '_') + 1, NULL, 10);
  guint64 y = g_ascii_strtoull(strchr(right, '_') + 1, NULL, 10);
  return x != y ? (x < y ? -1 : 1) : strcmp(left, right);
}

/* The targets its help text lists, quoted. */
static char **read_targets(const char *help)
{
  g_autoptr(GPtrArray) targets = g_ptr_array_new();
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GRegex) pattern = g_regex_new("'(sm_[0-9]+[a-z]?)'", 0, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;
  for (g_regex_match(pattern, help, 0, &match); g_match_info_matches(match); g_match_info_next(match, NULL)) {
    char *target = g_match_info_fetch(match, 1);
    if (g_hash_table_add(seen, target))
      g_ptr_array_add(targets, target);
    else
      g_free(target);
  }
  if (targets->len) qsort(targets->pdata, targets->len, sizeof(char *), compare_targets);
  g_ptr_array_add(targets, NULL);
  return (char **)g_ptr_array_steal(targets, NULL);
}

static bool ask_tool(Assembler *assembler, GError **error)
{
  int status = 0;
  g_autofree char *text =
      run_tool((const char *[]){assembler->path, "--version", NULL}, NULL, &status, NULL, error);
  if (!text) return false;
  g_autoptr(GRegex) pattern = g_regex_new("\\bV([0-9]+(\\.[0-9]+)+)", 0, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;
  if (status != 0 || !g_regex_match(pattern, text, 0, &match)) {
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-assembler", "adlgen doctor shows every place tried",
              "%s (from %s) does not answer --version like ptxas", assembler->path, assembler->origin);
    return false;
  }
  assembler->version = g_match_info_fetch(match, 1);
  return true;
}

/* Its help takes longer than all else that it is asked: only those who want to tell somebody ask for it. NULL
 * if it does not say; g_strfreev. */
static char **ask_targets(const Assembler *assembler)
{
  int status = 0;
  g_autofree char *help =
      run_tool((const char *[]){assembler->path, "--help", NULL}, NULL, &status, NULL, NULL);
  return help ? read_targets(help) : NULL;
}

static bool read_version(Assembler *assembler, GError **error)
{
  if (tool_recall(assembler->cache, assembler)) return true;
  if (!ask_tool(assembler, error)) return false;
  tool_remember(assembler->cache, assembler);
  return true;
}

static char *describe_places(const GPtrArray *tried)
{
  g_autoptr(GString) text = g_string_new("looked in");
  for (guint i = 0; i < tried->len; i++) {
    const AssemblerPlace *place = tried->pdata[i];
    g_string_append_printf(text, "%s %s (%s)", i ? "," : "", place->path, place->origin);
  }
  return g_string_free(g_steal_pointer(&text), FALSE);
}

static Assembler *search(const char *explicit_path, const char *near, bool all, Cache *cache, GError **error)
{
  Assembler *assembler = g_new0(Assembler, 1);
  assembler->tool = "ptxas";
  assembler->cache = cache;
  assembler->tried = assembler_places(explicit_path, near, all);
  for (guint i = 0; i < assembler->tried->len && !assembler->path; i++) {
    const AssemblerPlace *place = assembler->tried->pdata[i];
    if (place->found) {
      /* It is run in folders of its own. */
      assembler->path = g_canonicalize_filename(place->path, NULL);
      assembler->origin = g_strdup(place->origin);
    } else if (assembler_place_binds(place)) {
      error_set(error, ERROR_MISSING_TOOL, NULL, "no-assembler", NULL, "%s names %s, which is not a program",
                place->origin, place->path);
      return assembler;
    }
  }
  if (!assembler->path) {
    g_autofree char *places = describe_places(assembler->tried);
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-assembler",
              "scripts/setup fetches one into a private folder, or name one with --ptxas or ADLGEN_PTXAS",
              "no ptxas found; %s", places);
    return assembler;
  }
  if (!read_version(assembler, error)) g_clear_pointer(&assembler->path, g_free);
  return assembler;
}

Assembler *assembler_search(const char *explicit_path, const char *near, GError **error)
{
  Assembler *assembler = search(explicit_path, near, true, NULL, error);
  if (assembler->path) assembler->targets = ask_targets(assembler);
  return assembler;
}

Assembler *assembler_find_cached(const char *explicit_path, const char *near, Cache *cache, GError **error)
{
  Assembler *assembler = search(explicit_path, near, false, cache, error);
  if (assembler->path) return assembler;
  assembler_free(assembler);
  return NULL;
}

Assembler *assembler_find(const char *explicit_path, const char *near, GError **error)
{
  return assembler_find_cached(explicit_path, near, NULL, error);
}

Assembler *assembler_load_nvjitlink(Cache *cache, GError **error)
{
  Assembler *assembler = g_new0(Assembler, 1);
  assembler->tool = "nvJitLink";
  assembler->cache = cache;
  assembler->tried = g_ptr_array_new();
  assembler->library = nvjitlink_open(&assembler->path, &assembler->version, error);
  if (assembler->library) return assembler;
  assembler_free(assembler);
  return NULL;
}

void assembler_free(Assembler *assembler)
{
  if (!assembler) return;
  g_free(assembler->path);
  g_free(assembler->origin);
  g_free(assembler->version);
  g_strfreev(assembler->targets);
  g_ptr_array_unref(assembler->tried);
  nvjitlink_free(assembler->library);
  cache_close(assembler->cache);
  g_free(assembler);
}

static const char *newest_of(char **targets)
{
  guint n = targets ? g_strv_length(targets) : 0;
  return n ? targets[n - 1] : NULL;
}

const char *assembler_newest_target(const Assembler *assembler)
{
  return newest_of(assembler->targets);
}

/* ---- the report ---- */

static void entry_free(void *memory)
{
  AssembledEntry *entry = memory;
  g_free(entry->name);
  g_free(entry);
}

static int compare_entries(const void *a, const void *b)
{
  return strcmp((*(AssembledEntry *const *)a)->name, (*(AssembledEntry *const *)b)->name);
}

static AssembledEntry *find_or_add_entry(Assembly *assembly, const char *name)
{
  for (guint i = 0; i < assembly->entries->len; i++) {
    AssembledEntry *entry = assembly->entries->pdata[i];
    if (!strcmp(entry->name, name)) return entry;
  }
  AssembledEntry *entry = g_new0(AssembledEntry, 1);
  entry->name = g_strdup(name);
  g_ptr_array_add(assembly->entries, entry);
  return entry;
}

/* The number before a phrase: number_before("16 bytes smem, ...", " bytes smem") is 16; 0 if the phrase is
 * absent. */
static uint64_t number_before(const char *line, const char *phrase)
{
  const char *end = strstr(line, phrase), *start = end;
  if (!end) return 0;
  while (start > line && g_ascii_isdigit(start[-1]))
    start--;
  return g_ascii_strtoull(start, NULL, 10);
}

static void read_resources(AssembledEntry *entry, const char *line)
{
  const char *used = strstr(line, "Used ");
  if (used) {
    entry->registers = (unsigned)number_before(used, " registers");
    entry->barriers = (unsigned)number_before(used, " barriers");
    entry->shared = number_before(used, " bytes smem");
    entry->constant = number_before(used, " bytes cmem[0]");
  }
  if (strstr(line, "bytes stack frame")) {
    entry->stack = number_before(line, " bytes stack frame");
    entry->spill_stores = number_before(line, " bytes spill stores");
    entry->spill_loads = number_before(line, " bytes spill loads");
  }
}

/* Remarks that the tool gives as information and that cost speed; its own -Werror ignores them. */
static const char *const costly_phrases[] = {"Potential Performance Loss", "is injected", "' ignored"};

static void note_costly_line(Assembly *assembly, const char *line)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(costly_phrases); i++) {
    if (!strstr(line, costly_phrases[i])) continue;
    const char *text = strstr(line, ": ");
    g_ptr_array_add(assembly->findings, g_strdup(text ? text + 2 : line));
    return;
  }
}

static void note_costly_entry(Assembly *assembly, const AssembledEntry *entry)
{
  if (entry->spill_stores || entry->spill_loads)
    g_ptr_array_add(assembly->findings,
                    g_strdup_printf("%s: spills, %" G_GUINT64_FORMAT " bytes stored, %" G_GUINT64_FORMAT
                                    " bytes loaded",
                                    entry->name, entry->spill_stores, entry->spill_loads));
  else if (entry->stack)
    g_ptr_array_add(assembly->findings, g_strdup_printf("%s: stack frame of %" G_GUINT64_FORMAT " bytes",
                                                        entry->name, entry->stack));
}

/* The name between the first and the next quote after a phrase, or up to the line's end if unquoted. */
static char *name_after(const char *line, const char *phrase)
{
  const char *start = strstr(line, phrase);
  if (!start) return NULL;
  start += strlen(phrase);
  if (*start == '\'') {
    start++;
    const char *end = strchr(start, '\'');
    return end ? g_strndup(start, (gsize)(end - start)) : g_strdup(start);
  }
  return g_strstrip(g_strdup(start));
}

void assembly_read_log(Assembly *assembly, const char *log)
{
  AssembledEntry *entry = NULL;
  g_auto(GStrv) lines = g_strsplit(log, "\n", -1);
  for (char **line = lines; *line; line++) {
    g_autofree char *compiled = name_after(*line, "Compiling entry function ");
    /* Properties of device functions that were not inlined count against the entry they follow. */
    g_autofree char *described = name_after(*line, "Function properties for ");
    if (compiled) entry = find_or_add_entry(assembly, compiled);
    if (!compiled && !described && entry) read_resources(entry, *line);
    note_costly_line(assembly, *line);
  }
  if (assembly->entries->len)
    qsort(assembly->entries->pdata, assembly->entries->len, sizeof(void *), compare_entries);
  for (guint i = 0; i < assembly->entries->len; i++)
    note_costly_entry(assembly, assembly->entries->pdata[i]);
}

const AssembledEntry *assembly_entry(const Assembly *assembly, const char *name)
{
  for (guint i = 0; i < assembly->entries->len; i++) {
    const AssembledEntry *entry = assembly->entries->pdata[i];
    if (!strcmp(entry->name, name)) return entry;
  }
  return NULL;
}

Assembly *assembly_new(GBytes *cubin, char *log)
{
  Assembly *assembly = g_new0(Assembly, 1);
  assembly->entries = g_ptr_array_new_with_free_func(entry_free);
  assembly->findings = g_ptr_array_new_with_free_func(g_free);
  assembly->cubin = cubin;
  assembly->log = log;
  assembly_read_log(assembly, log);
  return assembly;
}

void assembly_free(Assembly *assembly)
{
  if (!assembly) return;
  if (assembly->cubin) g_bytes_unref(assembly->cubin);
  g_free(assembly->log);
  g_ptr_array_unref(assembly->entries);
  g_ptr_array_unref(assembly->findings);
  g_free(assembly);
}

/* ---- assembling ---- */

static void remove_scratch(const char *folder)
{
  static const char *const files[] = {"kernel.ptx", "kernel.cubin"};
  for (unsigned i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autofree char *path = g_build_filename(folder, files[i], NULL);
    g_remove(path);
  }
  g_rmdir(folder);
}

static char *make_scratch(GError **error)
{
  g_autoptr(GError) system = NULL;
  char *folder = g_dir_make_tmp("adlgen-XXXXXX", &system);
  if (!folder)
    error_set(error, ERROR_INPUT, NULL, "unwritable", "set TMPDIR to a writable folder",
              "cannot make a temporary folder: %s", system->message);
  return folder;
}

/* Lines of the report that say why the text was refused: at most ten. */
static char *complaints(const char *log)
{
  g_autoptr(GString) text = g_string_new(NULL);
  g_auto(GStrv) lines = g_strsplit(log, "\n", -1);
  unsigned shown = 0;
  for (char **line = lines; *line && shown < 10; line++) {
    if (!**line || strstr(*line, "info    :")) continue;
    g_string_append_printf(text, "\n  %s", *line);
    shown++;
  }
  return g_string_free(g_steal_pointer(&text), FALSE);
}

static GBytes *read_file(const char *folder, const char *name)
{
  g_autofree char *path = g_build_filename(folder, name, NULL);
  char *data = NULL;
  gsize size = 0;
  return g_file_get_contents(path, &data, &size, NULL) ? g_bytes_new_take(data, size) : NULL;
}

static Assembly *run_in(const Assembler *assembler, const char *folder, const char *name, const char *target,
                        GCancellable *stop, GError **error)
{
  const char *argv[] = {assembler->path, "-v", "-arch", target, "-o", "kernel.cubin", "kernel.ptx", NULL};
  int status = 0;
  g_autofree char *log = run_tool(argv, folder, &status, stop, error);
  if (!log) return NULL;
  g_autoptr(GBytes) cubin = status == 0 ? read_file(folder, "kernel.cubin") : NULL;
  if (!cubin) {
    g_autofree char *reasons = complaints(log);
    error_set(error, ERROR_INTERNAL, NULL, "assembler-refused", NULL, "ptxas %s refused %s for %s:%s",
              assembler->version, name, target, *reasons ? reasons : " it was stopped");
    return NULL;
  }
  return assembly_new(g_steal_pointer(&cubin), g_steal_pointer(&log));
}

static Assembly *run_program(const Assembler *assembler, const char *name, const char *ptx,
                             const char *target, GCancellable *stop, GError **error)
{
  g_autofree char *folder = make_scratch(error);
  if (!folder) return NULL;
  g_autofree char *path = g_build_filename(folder, "kernel.ptx", NULL);
  g_autoptr(GError) system = NULL;
  Assembly *assembly = NULL;
  if (!g_file_set_contents(path, ptx, -1, &system))
    error_set(error, ERROR_INPUT, NULL, "unwritable", "set TMPDIR to a folder with room",
              "cannot write %s: %s", path, system->message);
  else
    assembly = run_in(assembler, folder, name, target, stop, error);
  remove_scratch(folder);
  return assembly;
}

Assembly *assembler_run(const Assembler *assembler, const char *name, const char *ptx, const char *target,
                        GError **error)
{
  return assembler_run_until(assembler, name, ptx, target, NULL, error);
}

/* The program refused: because it does not know the target? Then `fault` is freed. */
static bool explain_target(const Assembler *assembler, const char *target, GError *fault, GError **error)
{
  g_auto(GStrv) targets = ask_targets(assembler);
  if (!targets || g_strv_contains((const char *const *)targets, target)) return false;
  const char *newest = newest_of(targets);
  g_error_free(fault);
  error_set(error, ERROR_MISSING_TOOL, NULL, "assembler-too-old", "adlgen doctor shows what was found",
            "%s (ptxas %s) cannot assemble for %s; its newest target is %s", assembler->path,
            assembler->version, target, newest ? newest : "not known");
  return true;
}

static Assembly *run_known(const Assembler *assembler, const char *name, const char *ptx, const char *target,
                           GCancellable *stop, GError **error)
{
  GError *fault = NULL;
  Assembly *assembly = run_program(assembler, name, ptx, target, stop, &fault);
  bool stopped = stop && g_cancellable_is_cancelled(stop);
  if (!assembly && (stopped || !explain_target(assembler, target, fault, error)))
    g_propagate_error(error, fault);
  return assembly;
}

static Assembly *run_hashed(const Assembler *assembler, const char *name, const char *ptx, const char *hash,
                            const char *target, GCancellable *stop, GError **error)
{
  Assembly *assembly = assembly_recall(assembler, hash, target);
  if (assembly) return assembly;
  assembly = assembler->library ? nvjitlink_run(assembler->library, name, ptx, target, error)
                                : run_known(assembler, name, ptx, target, stop, error);
  if (assembly) assembly_remember(assembler, hash, target, assembly);
  return assembly;
}

Assembly *assembler_run_until(const Assembler *assembler, const char *name, const char *ptx,
                              const char *target, GCancellable *stop, GError **error)
{
  char hash[CACHE_KEY_LENGTH + 1];
  ptx_hash(ptx, hash);
  return run_hashed(assembler, name, ptx, hash, target, stop, error);
}

/* ---- many at once ---- */

typedef struct Batch {
  const Assembler *assembler;
  GAsyncQueue *done;
} Batch;

static void run_job(void *memory, void *data)
{
  AssemblyJob *job = memory;
  Batch *batch = data;
  job->result =
      job->hash ? run_hashed(batch->assembler, job->name, job->ptx, job->hash, job->target, NULL, &job->error)
                : assembler_run(batch->assembler, job->name, job->ptx, job->target, &job->error);
  g_async_queue_push(batch->done, job);
}

unsigned assembler_run_all(const Assembler *assembler, AssemblyJob *jobs, unsigned n, unsigned threads,
                           void (*progress)(unsigned done, unsigned n, void *data), void *data)
{
  Batch batch = {assembler, g_async_queue_new()};
  GThreadPool *pool =
      g_thread_pool_new(run_job, &batch, (int)(threads ? threads : g_get_num_processors()), FALSE, NULL);
  for (unsigned i = 0; i < n; i++)
    g_thread_pool_push(pool, &jobs[i], NULL);
  unsigned failed = 0;
  for (unsigned i = 0; i < n; i++) {
    const AssemblyJob *job = g_async_queue_pop(batch.done);
    failed += job->result == NULL;
    if (progress) progress(i + 1, n, data);
  }
  g_thread_pool_free(pool, FALSE, TRUE);
  g_async_queue_unref(batch.done);
  return failed;
}

/* ---- disassembling ---- */

static char *find_beside(const Assembler *assembler, const char *tool)
{
  g_autofree char *folder = g_path_get_dirname(assembler->path);
  g_autofree char *path = g_build_filename(folder, tool, NULL);
  return g_file_test(path, G_FILE_TEST_IS_EXECUTABLE) ? g_steal_pointer(&path) : g_find_program_in_path(tool);
}

char *assembler_disassemble(const Assembler *assembler, GBytes *cubin, GError **error)
{
  g_autofree char *nvdisasm = find_beside(assembler, "nvdisasm");
  g_autofree char *cuobjdump = nvdisasm ? NULL : find_beside(assembler, "cuobjdump");
  if (!nvdisasm && !cuobjdump) {
    g_autofree char *folder = g_path_get_dirname(assembler->path);
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-disassembler", "they come with the CUDA toolkit",
              "no nvdisasm or cuobjdump found; looked in %s and PATH", folder);
    return NULL;
  }
  g_autofree char *folder = make_scratch(error);
  if (!folder) return NULL;
  g_autofree char *path = g_build_filename(folder, "kernel.cubin", NULL);
  gsize size = 0;
  const char *bytes = g_bytes_get_data(cubin, &size);
  int status = 0;
  char *text = NULL;
  const char *with_nvdisasm[] = {nvdisasm, "-c", "kernel.cubin", NULL};
  const char *with_cuobjdump[] = {cuobjdump, "-sass", "kernel.cubin", NULL};
  if (g_file_set_contents(path, bytes, (gssize)size, NULL))
    text = run_tool(nvdisasm ? with_nvdisasm : with_cuobjdump, folder, &status, NULL, error);
  else
    error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write %s", path);
  remove_scratch(folder);
  if (text && status != 0) {
    error_set(error, ERROR_MISSING_TOOL, NULL, "tool-failed", NULL, "%s failed: %s",
              nvdisasm ? nvdisasm : cuobjdump, text);
    g_clear_pointer(&text, g_free);
  }
  return text;
}
