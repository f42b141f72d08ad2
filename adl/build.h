/* Inside the loader: entries (facts of every kind) and the state while a description is being read. */
#pragma once
#include "adl/schema.h"
#include "adl/value.h"

/* One resolved key. Numbers are facts; the others are text or lists. */
typedef struct {
  const Rule *rule;
  const char *path; /* "limits.warp_size", "copy_async.scope", "warp_mma.shapes.NAME.k" */
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
  const char *effect; /* what it does: bounds_effect() */
  Mark mark;
} Entry;

typedef struct {
  Arena *arena;
  GPtrArray *documents; /* of Document: texts and marks point into them */
  GPtrArray *entries;   /* of Entry, in order of the schema */
  GHashTable *by_path;
  double peaks[NUMBER_TYPE_COUNT]; /* gpu_peak() */
} GpuPrivate;

typedef struct {
  Arena *arena;
  Gpu *gpu;
  GpuPrivate *private;
  bool is_product;          /* else an architecture, */
  const char *architecture; /* of this name */
  Mark end;                 /* where missing keys are reported: the file that was named */
  const Source **chain;     /* the file that was named, its base, ... */
  unsigned n_chain;
  const Value *families; /* what they were read from; knows which were removed, and where */
  GError *error;         /* every fault found so far */
} Build;

#define build_error(build, mark, code_id, hint, ...)                                                         \
  error_add(&(build)->error, ERROR_INPUT, SEVERITY_ERROR, mark, code_id, hint, __VA_ARGS__)
#define build_note(build, mark, code_id, ...)                                                                \
  error_add(&(build)->error, ERROR_INPUT, SEVERITY_NOTE, mark, code_id, NULL, __VA_ARGS__)

/* validate.c: the tree against the schema; fills entries and the plain members of Gpu. */
void build_sections(Build *build, Value *root);
const Entry *build_entry(const Build *build, const char *path);
/* The value of a node as the rule says, into numbers, text or texts of entry. */
bool build_value(Build *build, const Rule *rule, Node *node, Entry *entry);
bool build_version(Build *build, Node *node, double *number);
/* products.c: the shape sets of the product families. */
void build_products(Build *build, Value *families);
/* check.c: values against one another. */
void build_checks(Build *build);
/* peaks.c: stated peaks against what follows from rates, SMs and clocks. */
void build_peaks(Build *build);
/* targets.c: target, PTX version, families and shapes against adl/targets.yaml. */
void build_targets(Build *build);
/* model.c: the cost model called so. folder: where paths start, or NULL; mark: where it is named. */
void build_model(Build *build, const char *name, const char *folder, const Mark *mark);
/* The models that are found by name, for hints; the caller frees. */
char *build_model_names(void);
/* bounds.c: every value against adl/bounds.yaml: what no GPU has, and what adlgen could not honour. */
void build_bounds(Build *build);
/* rules.c: the row of a rule in adl/bounds.yaml; NULL if there is none. */
Node *bounds_row(Node *root, const char *section, const char *key);
/* What a rule does, and on what: "drives", ..., and "fixed" for a row with `is` or `has`, whose `why` is given. NULL if
 * the row says nothing, or several things. *what lives as long as the row, the word for ever. */
const char *bounds_effect(Node *row, const char **what);
/* culprit.c: where a contradiction is shown. How far the file of a mark is from the one that was named: 0 is
 * that one; UINT_MAX: none of the chain. */
unsigned build_distance(const Build *build, const Mark *mark);
/* The entry given nearest to the file that was named, the first of several; NULLs do not count. */
const Entry *build_culprit(const Build *build, const Entry *const *entries, unsigned n);
/* "NAME is given here", or inherited, for the other side of a contradiction. */
void build_given(Build *build, const Entry *entry);
const Entry *build_family_entry(const Build *build, const char *family);
/* Applies the rules of one section to a mapping; entries get the path prefix.key. */
void build_rules(Build *build, Value *map, const char *section, const char *prefix);

/* query.c: answers to what is asked for every tile that is priced. Once all facts are set. */
void build_answers(Build *build);

static inline const GpuPrivate *gpu_private(const Gpu *gpu)
{
  return gpu->private_data;
}
