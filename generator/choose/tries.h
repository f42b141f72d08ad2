/* Walking what a template says is tried (`try { ... }` in its head, docs/ir.md): every set of values of its parameters,
 * in the order of the text. Names are resolved once; a walk only reads what was resolved, so threads may share it. */
#pragma once
#include "ir/ir.h"

typedef struct Tries Tries; /* of one template */

/* Parameters (by their place in the head) that the lines up to here gave values, in the order of the lines. */
typedef struct TryValues {
  const int64_t *of; /* by parameter; one that no line gave has its default */
  const unsigned *given;
  unsigned n;
} TryValues;

typedef struct TryWalk {
  bool measured;        /* blocks of those who measure, else of everybody */
  const int64_t *facts; /* values, by the names that tries_resolve() got */
  /* Value of a parameter outside of the key, which follows from those given; NULL: its default */
  int64_t (*derive)(const TryValues *values, unsigned parameter, void *data);
  /* What is asked of a parameter by name: of values that a line tries it is the only one, unless the line's condition is
   * against it. NULL: nothing is. */
  bool (*forced)(const char *name, int64_t *value, void *data);
  void (*take)(const TryValues *values, void *data);
  void *data;
} TryWalk;

/* `facts`: names of what conditions may ask, NULL-terminated; "model.x" is one too. NULL and *error: a block names another.
 * The head must outlive the result. */
Tries *tries_resolve(const IrModule *head, const char *const *facts, GError **error);
void tries_free(Tries *tries);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Tries, tries_free)
void tries_walk(const Tries *tries, const TryWalk *walk);
