/* Families: which kernels a program can be, found by matching it. */
#pragma once
#include "generator/program/fused.h"

typedef enum {
  MATCH_OTHER,  /* the program computes something else */
  MATCH_NEARLY, /* it computes what the family does, in a way that no template can */
  MATCH_TAKEN,
} FamilyMatch;

typedef struct Family {
  const char *name;
  const char *computes;  /* for people */
  const char *templates; /* names, separated by spaces */
  /* Binds the family's parameters: all of `fused` that follows from the program, in its arena. Unless it matches,
   * *why says what keeps it from that (static, or in the arena). */
  FamilyMatch (*match)(const Program *program, FusedOperator *fused, const char **why);
} Family;

const Family *family_of(FusedKind kind);
bool family_has_template(const Family *family, const char *name);
/* The first family that takes the program. NULL and *error ("no family matches a contraction with a gathered
 * operand", ERROR_UNSUPPORTED, at the node that makes it so) if there is none. */
FusedOperator *family_match(const Program *program, GError **error);
/* The same without an error: NULL and *why, the reason of the family that comes nearest, or those of all. */
FusedOperator *family_take(const Program *program, const char **why);
