/* The schema of a description, as data: one row per key. The loader, the messages, the facts and the
 * reference table in docs/adl.md all derive from it. */
#pragma once
#include "adl/gpu.h"

typedef enum {
  RULE_NUMBER,  /* a quantity, or a count */
  RULE_NUMBERS, /* a list of them */
  RULE_RANGES,  /* numbers and ranges, `8..256 step 8` */
  RULE_FLAG,    /* true or false */
  RULE_CHOICE,  /* one of a closed set */
  RULE_CHOICES, /* a list out of a closed set */
  RULE_TYPE,    /* a number type */
  RULE_TYPES,   /* one or a list of them */
  RULE_TEXT,
  RULE_VERSION, /* major.minor, kept as major * 10 + minor */
} RuleKind;

typedef enum {
  RULE_REQUIRED = 1,
  RULE_MAY_BE_UNKNOWN = 2,
  RULE_POWER_OF_TWO = 4,
  RULE_POSITIVE = 8,
} RuleFlags;

typedef enum { FIELD_NONE, FIELD_UNSIGNED, FIELD_DOUBLE } FieldKind;

typedef struct {
  const char *section; /* "" is the top level; a family's name; "shape" is an entry of a family's `shapes` */
  const char *key;
  RuleKind kind;
  const char *unit;    /* base unit, or what is counted */
  const char *choices; /* space-separated, for RULE_CHOICE(S) */
  unsigned flags;
  FieldKind field; /* member of Gpu that receives it */
  size_t offset;
  const char *doc;
} Rule;

typedef struct {
  const char *name;
  bool is_family;
  bool of_product; /* stands in a product's file: not required of an architecture */
  bool required;   /* the section itself must be there */
  const char *doc;
  const char *former; /* what an earlier version called the family, which files may still say; or NULL */
} Section;

extern const Rule schema_rules[];
extern const unsigned schema_n_rules;
extern const Section schema_sections[];
extern const unsigned schema_n_sections;

const Section *schema_section(const char *name);
/* NULL-terminated keys of a section, or names of families (section "families"); caller frees the array. */
const char **schema_keys(const char *section);
/* What a value of the rule looks like: "cycles", "true or false", "one of ...". Caller frees. */
char *schema_form(const Rule *rule);
/* The reference tables of docs/adl.md, with what adl/bounds.yaml says. Caller frees. */
char *schema_to_markdown(GError **error);
/* The table of the cost model's constants there. Caller frees. */
char *model_to_markdown(void);
