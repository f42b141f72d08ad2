/* The spaces of templates: what each of their parameters may be, which of them tell kernels apart, and which values are
 * tried together, read off the templates' heads (param, axis, key, alike, try). Choosing, --set, files of measured choices
 * and `adlgen tune` ask these, so that a parameter is described once, by the template that has it. */
#pragma once
#include "generator/choose/tries.h"
#include "generator/program/family.h"

typedef struct Axis { /* what choosing knows of a parameter, beside what templates declare */
  const char *name;
  int absent;       /* the value where nothing is said of it */
  unsigned carried; /* which variants have it; numbers of the family's own */
  bool tile;        /* --set of it speaks of a tile */
  const char *word; /* in names of kernels, before the value; "" or NULL tells none apart by it */
} Axis;

/* The kind of templates whose chooser includes fact_table.h and whose axes are all in the key. */
#define SPACE_KIND(names, of_key, others, forced_late)                                                       \
  {                                                                                                          \
    .templates = names, .facts = facts, .axes = of_key, .n_axes = G_N_ELEMENTS(of_key),                      \
    .n_keys = G_N_ELEMENTS(of_key), .next = others, .late = forced_late, .fact = problem_fact,               \
    .tried = tried_facts                                                                                     \
  }

#define SPACE_SLOTS 32 /* parameters of a candidate */

struct Problem;

typedef struct SpaceKind {  /* what a family's chooser knows of the spaces of its templates */
  const char *templates;    /* that have a key, of this family or of others; names, separated by spaces */
  const char *const *facts; /* that `try` lines may ask, NULL-terminated */
  const Axis *axes;         /* those of the key first */
  unsigned n_axes, n_keys;
  const struct SpaceKind *next; /* of the family's other templates; NULL: there are none */
  bool late; /* what --set asks for is put into what was chosen; else it is heeded where it is tried */
  /* A fact that conditions of parameters may ask, whatever is tried. `tried`: facts of what is tried, which they cannot ask,
   * NULL-terminated. */
  int64_t (*fact)(const struct Problem *problem, unsigned index);
  const char *const *tried;
} SpaceKind;

typedef struct Space { /* of one template with a key */
  const char *template_name;
  const IrModule *head;
  const SpaceKind *kind;
  /* Slots of candidates: the kind's axes, then what else the key has, of which values are kept less their defaults, so
   * that 0 is the default in any template. NULL: the template has no such parameter. */
  const IrParameter *declared[SPACE_SLOTS];
  int base[SPACE_SLOTS]; /* what a kept 0 stands for */
  unsigned n;
  int *slot_of; /* by the head's parameters; -1: none */
  Tries *tries;
} Space;

typedef struct Spaces Spaces;

/* Of no template yet. */
Spaces *spaces_new(void);
/* What every template of all families declares; no candidates. NULL and *error if a template cannot be read. */
Spaces *spaces_read(GError **error);
void spaces_free(Spaces *spaces);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Spaces, spaces_free)
/* Reads templates of the family, unless it was done: the kind's, with their spaces; NULL: all, for what they declare. What
 * is only read is thread-safe. false and *error: a template cannot be read, or its key is not what choosing takes it
 * for. */
bool spaces_add(Spaces *spaces, const Family *family, const SpaceKind *kind, GError **error);

/* The template's space; NULL: it is not among them (spaces may be NULL), or has no key. */
const Space *spaces_of(const Spaces *spaces, const char *template_name);
/* Does the parameter at the slot tell kernels apart? */
static inline bool space_has_key(const Space *space, unsigned slot)
{
  return slot < space->kind->n_keys || slot >= space->kind->n_axes;
}
/* Which of the kind's facts a leaf of an expression names; -1: none. */
int space_fact(const SpaceKind *kind, const IrExpr *leaf);
/* Is a parameter of the name in the template's key? */
bool space_is_key(const Space *space, const char *name);
/* Has the template a parameter of the name? NULL, of which nothing is known: yes. */
bool space_declares(const Space *space, const char *name);
/* May --set give the template's parameter the number? NULL, of which nothing is known: yes. */
bool space_may_set(const Space *space, const char *name, int64_t value);
/* A declaration of a parameter, one that nothing else decides if there is any; NULL: no template has it. */
const IrParameter *spaces_find(const Spaces *spaces, const char *name);
/* Is the value one that the parameter may have in some template? */
bool spaces_have(const Spaces *spaces, const char *name, int64_t value);
/* "from 1 to 16", of every template that differs one; "one of 1, 2 or from 4 to 8". g_free. */
char *spaces_domain_text(const Spaces *spaces, const char *name);
/* A name that is declared and may be meant, or NULL. */
const char *spaces_nearest(const Spaces *spaces, const char *name);
/* Do any two values of the parameter above its default make kernels of one kind? */
bool spaces_alike(const Spaces *spaces, const char *name);
