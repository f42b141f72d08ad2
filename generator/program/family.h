/* Families: which kernels a program can be, found by matching it. */
#pragma once
#include "generator/program/division.h"
#include "generator/program/fused.h"

typedef enum {
  MATCH_OTHER,  /* the program computes something else */
  MATCH_NEARLY, /* it computes what the family does, in a way that no template can */
  MATCH_TAKEN,
} FamilyMatch;

/* Takes what a binding consists of, in an order of the family's own; none may be NULL. */
typedef struct BindingVisitor {
  void (*number)(int64_t number, void *data);
  void (*real)(double number, void *data);
  void (*expression)(const Symbolic *expression, void *data);
  void (*operand)(const FusedOperand *operand, void *data);
  void *data;
} BindingVisitor;

typedef struct FamilyExtent {
  const char *letter; /* in front of it in names of kernels */
  const Symbolic *extent;
} FamilyExtent;

/* All that code outside of a family's own files knows of it. */
typedef struct Family {
  unsigned index; /* of its row of families.def */
  const char *name;
  const char *computes;  /* for people */
  const char *templates; /* names, separated by spaces */
  bool ranges; /* what was measured of it is filed by ranges of rows (generator/choose/tuned_gemm.h) */
  /* The way-th of the ways to make several kernels of a program that the family takes, in the program's arena. false:
   * there are no more. NULL: there are none. Which is best tells the judge, of all the kernels' price. */
  bool (*divide)(const Program *program, unsigned way, ProgramDivision *division);
  /* The operator of a loop's body, over all times of the loop as its first dim, which one launch does; it lives in `arena`. NULL and *why: none
   * does. The function NULL: so it is of all operators. */
  const FusedOperator *(*in_times)(Arena *arena, const FusedOperator *op, const GraphTimes *times,
                                   const char **why);
  /* Binds the family's parameters: all of `fused` that follows from the program, in its arena. Unless it matches,
   * *why says what keeps it from that (static, or in the arena); NULL: it goes without saying. */
  FamilyMatch (*match)(const Program *program, FusedOperator *fused, const char **why);
  /* What the operator's binding says that dims, inputs, steps and outputs do not: kernels depend on all of it. */
  void (*visit)(const FusedOperator *op, const BindingVisitor *visitor);
  /* The same as lines for people. */
  void (*describe)(const FusedOperator *op, GString *text);
  /* For names of kernels: types of what is read, FAMILY_MOST_TYPES at most, and extents, FAMILY_MOST_EXTENTS at most. */
  unsigned (*types)(const FusedOperator *op, NumberType *types);
  unsigned (*extents)(const FusedOperator *op, FamilyExtent *extents);
  /* The same numbers computed with dims in another order, which kernels may be written for; NULL: there is none. Lives
   * in `arena` and shares what it points to with `op`. */
  const FusedOperator *(*turned)(Arena *arena, const FusedOperator *op);
} Family;

#define FAMILY_MOST_TYPES   2
#define FAMILY_MOST_EXTENTS (FUSED_MAX_RANK + 4)
/* How many families there are. */
enum {
#define FAMILY(name, ...) FAMILY_NUMBER_##name,
#include "generator/program/families.def"
#undef FAMILY
  FAMILY_COUNT
};

const Family *family_at(unsigned index);
bool family_has_template(const Family *family, const char *name);
/* The first family that takes the program. NULL and *error ("no family matches a contraction with a gathered
 * operand", ERROR_UNSUPPORTED, at the node that makes it so) if there is none. */
FusedOperator *family_match(const Program *program, GError **error);
/* The same without an error: NULL and *why, the reason of the family that comes nearest, or those of all. */
FusedOperator *family_take(const Program *program, const char **why);
