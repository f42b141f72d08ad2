/* Which modifiers and types an instruction of PTX takes: adl/forms.yaml. */
#pragma once
#include "simulator/ptx.h"

typedef struct Forms Forms;

Forms *forms_load(GError **error);
void forms_free(Forms *forms);
/* Whether parts ("add", "rn", "f32") are a form that PTX has, or of an opcode that is not judged. */
bool forms_have(const Forms *forms, const char *const *parts, unsigned n);
/* false: *error has every instruction of the module that PTX has not, each at its place. */
bool forms_check(const PtxModule *module, GError **error);
