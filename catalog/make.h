/* Generating the catalogue in parallel, and what the assembler says about it. */
#pragma once
#include "catalog/catalog.h"
#include "runtime/assembler.h"

/* Called by one thread as work goes on, with the word (char *) for what is done. NULL where nobody looks. */
typedef void (*CatalogProgress)(unsigned done, unsigned n, void *what);

/* Generates every graph of the catalogue for the GPUs whose `selected` is true; CatalogKernel *, owned. jobs
 * 0: one a processor. All faults are reported, each with the names of graph and GPU. */
GPtrArray *catalog_generate(const Catalog *catalog, const bool *selected, unsigned jobs,
                            CatalogProgress progress, GError **error);
/* Generates the texts that these kernels (CatalogKernel *) lack, as the compiler emits them now: whether they
 * have the kernels' checksums is for the caller to see. ERROR_INPUT for a kernel that catalog.json gives no
 * more. */
bool catalog_make_texts(const Catalog *catalog, GPtrArray *kernels, unsigned jobs, CatalogProgress progress,
                        GError **error);
/* Name of kernel i of the n that a graph compiles to; g_free. */
char *catalog_kernel_name(const CatalogGraph *graph, unsigned n, unsigned i);

/* What the assembler makes of one file. */
typedef struct CatalogResource {
  char *file;
  unsigned registers, barriers;
  uint64_t spill_bytes, stack, shared, cubin_bytes;
} CatalogResource;

typedef struct CatalogResources {
  char *assembler;      /* its version */
  GPtrArray *resources; /* CatalogResource *, by file */
  GPtrArray *findings;  /* char *: "FILE: what it says" */
} CatalogResources;

/* Assembles each distinct file of the selected GPUs once. Refusals are reported all together. */
CatalogResources *catalog_assemble(const GPtrArray *kernels, const bool *selected, const Assembler *assembler,
                                   unsigned jobs, CatalogProgress progress, GError **error);
void catalog_resources_free(CatalogResources *resources);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CatalogResources, catalog_resources_free)
/* generated/resources.json; one file a line. A file that is not there reads as an empty set. */
CatalogResources *catalog_resources_read(const char *path, GError **error);
/* The same of a text; NULL reads as an empty set. path is for messages. */
CatalogResources *catalog_resources_parse(const char *text, const char *path, GError **error);
char *catalog_resources_text(const CatalogResources *resources);
const CatalogResource *catalog_resource(const CatalogResources *resources,
                                        const char *file); /* NULL if absent */
/* "registers 96 -> 104" and the like for what rose, or NULL. */
char *catalog_resource_rise(const CatalogResource *from, const CatalogResource *to);
