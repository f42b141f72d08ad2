/* Measured choices: which template parameters were fastest on a GPU for a product, or for another operator, as `adlgen tune` found.
 *
 * A TunedFile is one JSON file for one GPU (docs/tune.md); a TunedDatabase is a list of them, the first with
 * an answer wins. A file whose GPU, number of SMs or generation differs stays unread but for a note: what it
 * measured was another machine, or kernels that are no longer generated. Files own their strings. Reading a
 * database is thread-safe once it is open. */
#pragma once
#include "adl/gpu.h"

/* Version 2 has entries of operators that are no products. Files without such are written as version 1. */
#define TUNED_VERSION 2
/* To be raised when kernels of the same parameters change so much that old measurements mislead. */
#define TUNED_GENERATION 1

typedef struct TunedParameter {
  const char *name; /* as the template declares it */
  int64_t value;
} TunedParameter;

#define TUNED_MAX_PARAMETERS 24
#define TUNED_MAX_EXTENTS    24

typedef struct TunedEntry {
  const char *
      product; /* types, layouts and epilogue (tuned_gemm.c); of an operator what it computes (tuned_operator.c) */
  int64_t batches, n, k;
  int64_t *
      extents; /* of an operator: of its dims, then what else its family counts; then batches to most are 0 */
  unsigned n_extents;  /* 0: it is a product */
  unsigned sms;        /* that the kernel may use */
  int64_t m;           /* rows it was measured at */
  int64_t least, most; /* rows it answers for */
  double us;           /* median time, cold and clean L2 */
  double first_us;     /* of the model's first choice in the same run */
  TunedParameter *parameters;
  unsigned n_parameters;
} TunedEntry;

/* "bm=128 bn=256 cluster_m=2"; g_free. */
char *tuned_parameters_text(const TunedEntry *entry);

typedef struct TunedFile TunedFile;

/* An empty file for a GPU. */
TunedFile *tuned_file_new(const Gpu *gpu);
/* Strict. ERROR_INPUT with every place that is wrong. */
TunedFile *tuned_file_read(Source *source, GError **error);
void tuned_file_free(TunedFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TunedFile, tuned_file_free)
/* NULL, or why its entries do not hold for the GPU and this program; g_free. */
char *tuned_file_stale(const TunedFile *file, const Gpu *gpu);
unsigned tuned_file_count(const TunedFile *file);
const TunedEntry *tuned_file_entry(const TunedFile *file, unsigned index);
/* Copies an entry into the file; one of the same product, batches, n, k, sms and m is replaced. */
void tuned_file_put(TunedFile *file, const TunedEntry *entry);
/* The bytes of the file, entries sorted; g_free. */
char *tuned_file_text(const TunedFile *file);

typedef struct TunedDatabase TunedDatabase;

TunedDatabase *tuned_database_new(void);
void tuned_database_free(TunedDatabase *database);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TunedDatabase, tuned_database_free)
/* Takes the file; `name` is for notes. A stale file becomes a note. */
void tuned_database_add(TunedDatabase *database, TunedFile *file, const char *name, const Gpu *gpu);
/* The files for a GPU, first to last: `files` (ended by NULL, or NULL), those of the variable ADLGEN_TUNED (a
 * path list), NAME.json of tuned/ in the user's data folder, the one that is shipped. */
TunedDatabase *tuned_database_open(const Gpu *gpu, const char *const *files, GError **error);
/* Text that differs where the files' contents do, for keys of caches: as tuned_database_open() finds them,
 * without reading them as JSON. false: one cannot be read. */
bool tuned_database_digest(const char *gpu, const char *const *files, GString *digest);
/* Why files were left out, a line each; ended by NULL. */
const char *const *tuned_database_notes(const TunedDatabase *database);
/* The entry for a product: of the first file that has any, the one measured nearest to m. NULL: none. Only
 * product, batches, n, k, sms and m of `wanted` count. */
const TunedEntry *tuned_database_find(const TunedDatabase *database, const TunedEntry *wanted);
/* The entry for an operator: of the first file that has any, the one whose extents are the same, but for those that are open
 * (a bool each): of these it is the nearest to what is wanted that counts. NULL: none. */
const TunedEntry *tuned_database_find_operator(const TunedDatabase *database, const TunedEntry *wanted,
                                               const bool *open);
/* Where `adlgen tune` keeps a GPU's measurements for this user; g_free. */
char *tuned_user_path(const char *gpu);
