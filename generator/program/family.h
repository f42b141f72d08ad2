/* Families: which kernels a program can be, found by matching it. */
#pragma once
#include "generator/program/fused.h"

typedef struct Family {
  const char *name;
  const char *computes;  /* for people */
  const char *templates; /* names, separated by spaces */
  /* Binds the family's parameters: all of `fused` that follows from the program, in its arena. false: it does
   * not match, *why says what keeps it from that (static, or in the arena). */
  bool (*match)(const Program *program, FusedOperator *fused, const char **why);
} Family;

const Family *family_of(FusedKind kind);
bool family_has_template(const Family *family, const char *name);
/* The first family that takes the program. NULL and *error ("no family matches a contraction with a gathered
 * operand", ERROR_UNSUPPORTED, at the node that makes it so) if there is none. */
FusedOperator *family_match(const Program *program, GError **error);
