/* Inside the loader: entries (facts of every kind) and the state while a description is being read. */
#pragma once
#include "adl/schema.h"
#include "adl/value.h"

/* One resolved key. Numbers are facts; the others are text or lists. */
typedef struct {
  const char *path; /* "limits.warp_size", "copy_async.scope", "product_warp.shapes.NAME.k" */
  RuleKind kind;
  const char *unit;
  double number; /* RULE_NUMBER, RULE_FLAG (0, 1), RULE_VERSION; FACT_UNKNOWN */
  double clock;  /* MHz, of a peak; FACT_UNKNOWN if the value has no `clock` of its own */
  bool unknown;
  const char *text; /* RULE_CHOICE, RULE_TEXT, RULE_TYPE */
  unsigned n;       /* of a list */
  const double *numbers;
  const char **texts;
  const char *source;
  bool guess;
  Mark mark;
} Entry;

typedef struct {
  Arena *arena;
  GPtrArray *documents; /* of Document: texts and marks point into them */
  GPtrArray *entries;   /* of Entry, in order of the schema */
  GHashTable *by_path;
} GpuPrivate;

typedef struct {
  Arena *arena;
  Gpu *gpu;
  GpuPrivate *private;
  bool is_product; /* else an architecture */
  Mark end;        /* where missing keys are reported: the file that was named */
  GError *error;   /* every fault found so far */
} Build;

#define build_error(build, mark, code_id, hint, ...)                                                         \
  error_add(&(build)->error, ERROR_INPUT, SEVERITY_ERROR, mark, code_id, hint, __VA_ARGS__)
#define build_note(build, mark, code_id, ...)                                                                \
  error_add(&(build)->error, ERROR_INPUT, SEVERITY_NOTE, mark, code_id, NULL, __VA_ARGS__)

/* validate.c: the tree against the schema; fills entries and the plain members of Gpu. */
void build_sections(Build *build, Value *root);
const Entry *build_entry(const Build *build, const char *path);
/* products.c: the shape sets of the product families. */
void build_products(Build *build, Value *families);
/* check.c: values against one another. */
void build_checks(Build *build);
/* Applies the rules of one section to a mapping; entries get the path prefix.key. */
void build_rules(Build *build, Value *map, const char *section, const char *prefix);

static inline const GpuPrivate *gpu_private(const Gpu *gpu)
{
  return gpu->private_data;
}
