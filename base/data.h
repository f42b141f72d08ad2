/* Data files: GPU descriptions and templates. Looked for in $ADLGEN_DATA_DIR, then in $XDG_DATA_HOME/adlgen
 * (~/.local/share/adlgen if unset), then among the copies embedded in the program; the first found wins.
 * Thread-safe. */
#pragma once
#include "base/diagnostic.h"

/* relative_path such as "adl/gpu/NAME.yaml" or "templates/NAME.ir". ERROR_INPUT "no-such-file" says where was
 * looked. An embedded copy's source is named "<embedded>/adl/gpu/NAME.yaml". */
Source *data_load(const char *relative_path, GError **error);
/* true if data_load would find it. */
bool data_exists(const char *relative_path);
/* true if what data_load gives is a file on disk, and not the copy in the program, which the program's own
 * identity covers. */
bool data_on_disk(const char *relative_path);
/* Names (without the folder) of the files in a folder of any of the three places: sorted, each once;
 * NULL-terminated, g_strfreev. An unknown folder gives an empty list. */
char **data_list(const char *folder);
