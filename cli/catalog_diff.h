/* What changed in the catalogue since a git revision. */
#pragma once
#include "catalog/catalog.h"
#include "cli/cli.h"

/* Compares the manifests and resources of the working tree with those of a revision: which kernels came,
 * went, got another name or another text, and what ptxas said of both; for texts that are committed, how many
 * lines changed. The compiler does not run: build first. ERROR_INPUT for an unknown revision,
 * ERROR_MISSING_TOOL without git. */
bool catalog_diff(const Catalog *catalog, const char *folder, const bool *selected, const char *revision,
                  const Cli *cli, GError **error);
