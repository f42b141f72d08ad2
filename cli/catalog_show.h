/* One kernel of the catalogue as text. */
#pragma once
#include "catalog/catalog.h"
#include "cli/cli.h"

/* Prints the kernel as the compiler emits it now, for the first selected GPU that has one of this name; a
 * note on standard error says where that is not the committed text, and which other GPUs have another.
 * ERROR_INPUT for a name that no manifest lists. */
bool catalog_show(const Catalog *catalog, const char *folder, const bool *selected, const char *name,
                  const Cli *cli, GError **error);
