/* Former names of parameters and attributes (ir/former.def). Pure; thread-safe. */
#pragma once

/* Today's name of what was called so, or NULL: no name that anything had. */
const char *ir_former_name(const char *name);
