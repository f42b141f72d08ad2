/* Assembler: finds ptxas (or nvJitLink), runs it on PTX text and reads its report.
 *
 * The tool is looked for in a fixed order and every place tried is kept, so that a message (or `doctor`) can
 * say where it looked. An Assembler is immutable once found; assembler_run is thread-safe. */
#pragma once
#include "base/diagnostic.h"
#include "runtime/cache.h"
#include <gio/gio.h>
#include <stdint.h>

typedef struct AssemblerPlace {
  char *origin; /* "--ptxas", "ADLGEN_PTXAS", "CUDA_HOME", "PATH", "site-packages", ... */
  char *path;   /* the file that was looked for; may hold a `*` where a folder was searched */
  bool found;
} AssemblerPlace;

typedef struct Assembler {
  const char *tool; /* "ptxas" or "nvJitLink": they give different code */
  char *path;       /* NULL if none was found */
  char *origin;     /* origin of the place that had it */
  char *version;    /* "13.0.88" */
  char **targets;   /* what it can assemble for, oldest first; NULL: it was not asked */
  GPtrArray *tried; /* AssemblerPlace *, in order; of assembler_search those after the one found too */
  Cache *cache;     /* where machine code is looked for and put; NULL: nowhere. Owned */
  struct NvJitLink *library; /* NULL: a program */
} Assembler;

/* Finds the tool. explicit_path (the --ptxas flag) may be NULL; near is a folder, that of the program: a
 * private copy under `.deps` in it or up to three folders above it is found too; may be NULL. A tool named by
 * the flag or by ADLGEN_PTXAS is taken or refused, never replaced by another. ERROR_MISSING_TOOL
 * "no-assembler" lists the places. */
Assembler *assembler_find(const char *explicit_path, const char *near, GError **error);
/* As assembler_find, with a cache (NULL: none), which it takes: where that knows the tool, no process is
 * started. */
Assembler *assembler_find_cached(const char *explicit_path, const char *near, Cache *cache, GError **error);
/* nvJitLink, loaded into this process: ADLGEN_NVJITLINK, or where the system's loader and the toolkit have
 * it. Takes the cache, which may be NULL. ERROR_MISSING_TOOL "no-nvjitlink". */
Assembler *assembler_load_nvjitlink(Cache *cache, GError **error);
/* The search alone, and what the tool knows: never fails, path is NULL if nothing was found; *error (if not
 * NULL) says why. For `doctor`. */
Assembler *assembler_search(const char *explicit_path, const char *near, GError **error);
void assembler_free(Assembler *assembler);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Assembler, assembler_free)

/* The newest target the tool knows, or NULL if it was not asked. */
const char *assembler_newest_target(const Assembler *assembler);

/* What the tool reports about one entry point. Sizes in bytes. */
typedef struct AssembledEntry {
  char *name;
  unsigned registers, barriers;
  uint64_t stack, spill_stores, spill_loads, shared, constant;
} AssembledEntry;

typedef struct Assembly {
  GBytes *cubin;
  char *log;           /* the tool's report, as it wrote it */
  GPtrArray *entries;  /* AssembledEntry *, sorted by name */
  GPtrArray *findings; /* char *: costly remarks (docs/cli.md, "Costly findings"), empty if there are none */
  bool recalled;       /* it was in the cache */
} Assembly;

/* Assembles PTX text for a target. name is used for messages only. ERROR_MISSING_TOOL if the tool is too old
 * for the target, ERROR_INTERNAL "assembler-refused" with its messages if it refuses the text. */
Assembly *assembler_run(const Assembler *assembler, const char *name, const char *ptx, const char *target,
                        GError **error);
/* The same; it may be stopped from another thread: then the error says so, and nothing else means anything.
 * nvJitLink runs to its end. stop may be NULL. */
Assembly *assembler_run_until(const Assembler *assembler, const char *name, const char *ptx,
                              const char *target, GCancellable *stop, GError **error);
void assembly_free(Assembly *assembly);
/* What the cache files a text under, beside assembler, version and target. */
void ptx_hash(const char *ptx, char hash[CACHE_KEY_LENGTH + 1]);
/* What the assembler made of a text before, by its hash: NULL if that is not in the cache. */
Assembly *assembly_recall(const Assembler *assembler, const char *hash, const char *target);
/* Keeps a text in the cache until there is machine code of it, and finds it again: NULL if it is not there.
 */
void ptx_remember(const Assembler *assembler, const char *hash, const char *ptx);
char *ptx_recall(const Assembler *assembler, const char *hash);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Assembly, assembly_free)
const AssembledEntry *assembly_entry(const Assembly *assembly, const char *name); /* NULL if absent */

/* Reads a report (the text of `ptxas -v`) into the assembly's entries and findings. Exposed for tests. */
void assembly_read_log(Assembly *assembly, const char *log);

typedef struct AssemblyJob {
  const char *name, *ptx, *target;
  const char *hash; /* ptx_hash() of it; NULL: not known */
  Assembly *result; /* set on success; owned by the job's owner */
  GError *error;    /* set on failure; likewise */
} AssemblyJob;

/* Runs the jobs on `threads` threads (0 = one per processor); returns how many failed. progress (may be NULL)
 * is called from the calling thread with the number of jobs done. */
unsigned assembler_run_all(const Assembler *assembler, AssemblyJob *jobs, unsigned n, unsigned threads,
                           void (*progress)(unsigned done, unsigned n, void *data), void *data);

/* Disassembles a cubin with nvdisasm or cuobjdump, found beside the assembler or in PATH. g_free the result.
 * ERROR_MISSING_TOOL "no-disassembler" says where it looked. */
char *assembler_disassemble(const Assembler *assembler, GBytes *cubin, GError **error);
