/* The declared spaces of templates: what each of their parameters may be, which of them tell kernels apart, read off the
 * templates' heads (param, axis, key, alike). Asked by --set, files of measured choices and `adlgen tune`, so that a
 * parameter is described once, by the template that has it. Immutable once read; thread-safe. */
#pragma once
#include "generator/fusion/fusion.h"
#include "ir/ir.h"

typedef struct Spaces Spaces;

/* Of every template of all families, or of those whose kernels are measured. NULL and *error if a template cannot be
 * read. */
Spaces *spaces_read(bool measured, GError **error);
void spaces_free(Spaces *spaces);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Spaces, spaces_free)

/* The head of one of the templates: parameters, key and alike. */
const IrModule *spaces_head(const Spaces *spaces, const char *template_name);
/* The first declaration of a parameter, NULL: no template has it. */
const IrParameter *spaces_find(const Spaces *spaces, const char *name);
/* Is the value one that the parameter may have in some template? */
bool spaces_have(const Spaces *spaces, const char *name, int64_t value);
/* "from 1 to 16", of every template that differs one; "one of 1, 2 or from 4 to 8". g_free. */
char *spaces_domain_text(const Spaces *spaces, const char *name);
/* A name that is declared and may be meant, or NULL. */
const char *spaces_nearest(const Spaces *spaces, const char *name);
/* Do any two values of the parameter above its default make kernels of one kind? */
bool spaces_alike(const Spaces *spaces, const char *name);
