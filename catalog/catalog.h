/* The catalogue: which kernels are committed under generated/, and how their files are named.
 *
 * catalog.json (docs/catalog.md, docs/schemas/catalog.schema.json) lists graphs, most of them through a
 * matrix: an entry with `for` stands for one graph per combination of its variables. What comes out is named
 * by content: a kernel that is the same for several GPUs is one file, in a folder named after all of them.
 * Every kernel is committed as a checksum; the text of one kernel of each kind is committed too. */
#pragma once
#include "base/diagnostic.h"
#include <jansson.h>
#include <stdint.h>

typedef struct CatalogGraph {
  char *name;        /* unique; also the stem of its kernels' files */
  char *text;        /* the op description */
  char *operators;   /* of its nodes, in order: "MatMul Relu" */
  char *types;       /* of its inputs, in order: "bf16 f32" */
  char **sets;       /* forced template parameters, name=value; NULL-terminated */
  unsigned variants; /* bit i: its kernel i is committed; 0: all of them */
  uint64_t gpus;     /* bit i: it is for Catalog.gpus[i] */
  Mark mark;         /* of the entry's graph, in Catalog.source */
} CatalogGraph;

typedef struct Catalog {
  Source *source;    /* what marks point into */
  char **gpus;       /* in the file's order */
  Mark *gpu_marks;   /* of each */
  GPtrArray *graphs; /* CatalogGraph *, in the file's order */
} Catalog;

Catalog *catalog_read(const char *path, GError **error);
void catalog_free(Catalog *catalog);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Catalog, catalog_free)
const CatalogGraph *catalog_graph(const Catalog *catalog, const char *name); /* NULL if there is none */

/* One kernel of one GPU. */
typedef struct CatalogKernel {
  unsigned gpu; /* index in Catalog.gpus */
  char *graph;  /* name of its graph */
  char *name;   /* "gemm_bf16_nt", or "gemm_bf16_nt.2" where a graph has several */
  char *entry;  /* entry point in the text */
  char *target;
  char *about;  /* template, tile and mechanism, for people */
  char *guard;  /* condition under which it is launched, or NULL */
  char *sha256; /* of its text */
  char *text;   /* NULL: read from a manifest, and its text is not committed */
  char *file;   /* below generated/ if kept, and its name in resources.json; set by catalog_name_files() */
  bool kept;    /* its text is committed; set by catalog_name_files() */
} CatalogKernel;

void catalog_kernel_free(void *kernel);
/* Orders the kernels by name and GPU, names their files, and decides which texts are kept: the first of each
 * kind, in the order of catalog.json. Two kernels are of one kind if they are for one target and of one
 * template, mechanism, types and forced parameters; and the first kernel of each chain of operators is kept
 * as well. A graph that is appended to catalog.json changes nothing for those before it. */
void catalog_name_files(const Catalog *catalog, GPtrArray *kernels);
/* Text of a GPU's manifest; g_free. */
char *catalog_manifest(const Catalog *catalog, const GPtrArray *kernels, unsigned gpu);
/* The kernels that a manifest's text lists, without their texts; adds to kernels. path is for messages. */
bool catalog_parse_manifest(const char *text, const char *path, unsigned gpu, GPtrArray *kernels,
                            GError **error);
/* The same of a committed manifest. */
bool catalog_read_rows(const Catalog *catalog, const char *folder, unsigned gpu, GPtrArray *kernels,
                       GError **error);
/* The kernels that a committed manifest lists, those that are kept with their texts; adds to kernels. */
bool catalog_read_manifest(const Catalog *catalog, const char *folder, unsigned gpu, GPtrArray *kernels,
                           GError **error);
/* Checksum of a text, as the manifests have it; g_free. */
char *catalog_checksum(const char *text);
