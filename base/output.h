/* A folder of results that appears at once or not at all: files are written aside, on the same file system,
 * and moved into place by output_commit(). Files that are there already and not written again stay; those that are written
 * with what they hold stay too, with a new time. */
#pragma once
#include "base/diagnostic.h"
#include <stddef.h>

typedef struct Output Output;

/* Starts a set of files for a folder, which need not exist. ERROR_INPUT "unwritable" if it cannot be written.
 */
Output *output_new(const char *folder, GError **error);
/* name may have folders in it; a name written twice is a broken promise of the caller. */
bool output_write(Output *output, const char *name, const void *data, size_t size, GError **error);
bool output_write_text(Output *output, const char *name, const char *text, GError **error);
/* Where a name is being written, for writers that take a path; g_free. Creates its folders; NULL on error. */
char *output_path(Output *output, const char *name, GError **error);
/* Moves every file into place; if one cannot be moved, those before it are moved back. */
bool output_commit(Output *output, GError **error);
/* Removes what was not committed. */
void output_free(Output *output);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Output, output_free)

/* Removes a folder with all it holds; a link is removed, not followed. */
void remove_folder(const char *path);
