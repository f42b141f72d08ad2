/* Which build of the program or library is running. */
#pragma once

/* The linker's build identifier in hexadecimal: other code gives another one. NULL if it was linked without.
 * g_free. */
char *build_id(void);
