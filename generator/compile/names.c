#include "generator/compile/names.h"
#include "generator/program/family.h"

/* Adds a type unless it is the one before. */
static void put_type(GString *name, NumberType type, NumberType *last)
{
  if (type == *last) return;
  g_string_append_printf(name, "_%s", number_name(type));
  *last = type;
}

/* Of what the operator reads, as its family tells, and of its first result. */
static void put_types(GString *name, const FusedOperator *op)
{
  NumberType last = NUMBER_TYPE_COUNT, types[FAMILY_MOST_TYPES];
  unsigned n = op->family->types(op, types);
  for (unsigned i = 0; i < n; i++)
    put_type(name, types[i], &last);
  if (op->n_outputs) put_type(name, op->outputs[0].tensor->type, &last);
}

/* Extents that the kernel does not take as arguments. */
static void put_extents(GString *name, const FusedOperator *op)
{
  FamilyExtent extents[FAMILY_MOST_EXTENTS];
  unsigned n = op->family->extents(op, extents);
  const char *separator = "_";
  for (unsigned i = 0; i < n; i++) {
    int64_t size;
    if (!symbolic_is_constant(extents[i].extent, &size)) continue;
    g_string_append_printf(name, "%s%s%" G_GINT64_FORMAT, separator, extents[i].letter, size);
    separator = "";
  }
}

char *compile_kernel_name(const FusedOperator *op, const Choice *choice)
{
  GString *name = g_string_new(op->chain);
  put_types(name, op);
  put_extents(name, op);
  g_string_append_printf(name, "_%s", choice->suffix);
  return g_string_free(name, FALSE);
}
