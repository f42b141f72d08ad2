/* UnpackGroups: the operand of groups along k whose parts lie one behind another, as DeepGEMM packs them, gets one row step. Columns fall into
 * parts where groups begin, at multiples of `align`; what is behind the last group is a part too, so that each element has one place. In units
 * of `align` columns, which lie side by side in both:
 *
 *   limit[g] = highest of ends[0] .. ends[g], in whole units: where the next group begins
 *   begin[c] = the highest limit up to column c, 0 if there is none; next[c] = the least limit behind it, or how many columns there are
 *   result[r, c] = packed[rows begin[c] + r (next[c] - begin[c]) + c - begin[c]] */
#include "generator/front/expand_rows.h"
#include "generator/front/expand_search.h"

#define MOST_ALIGN 65536

typedef struct Unpacking {
  Expansion *x;
  const Symbolic *rows, *columns; /* units */
  GraphTensor *begin, *width;     /* of the part of each column, s32 [columns] */
  NumberType place;               /* one that counts all units, of which a launch may have more */
} Unpacking;

static bool check(Expansion *x)
{
  GraphTensor *packed = expand_input(x, 0), *ends = expand_input(x, 1);
  int64_t align = graph_attribute(expand_written(x), "align")->integer;
  if (align < 1 || align > MOST_ALIGN)
    expand_refuse_attribute(x, ERROR_INPUT, "align", NULL, "align is 1 to %d, not %" G_GINT64_FORMAT,
                            MOST_ALIGN, align);
  else if (packed->rank != 2)
    expand_refuse(x, ERROR_INPUT, 0, "rank", NULL,
                  "UnpackGroups takes a packed operand as [M, K]: all of its groups' columns together");
  else if (ends->rank != 1 || ends->type != NUMBER_S32)
    expand_refuse(x, ERROR_INPUT, 1, "shape", NULL, "UnpackGroups takes ends of groups as s32 [G]");
  else if (!symbolic_divisible(packed->shape[1], align, expand_facts(x)))
    expand_refuse(x, ERROR_UNSUPPORTED, 0, "align", "lengthen the last group's rows up to a multiple",
                  "packed groups that begin at multiples of %" G_GINT64_FORMAT
                  " are not supported where columns are no multiple of it",
                  align);
  return !expand_failed(x);
}

/* Of each column of units the highest limit up to it, or (`behind`) the least one behind it. */
static GraphTensor *bound(const Unpacking *u, GraphTensor *limits, bool behind)
{
  Expansion *x = u->x;
  const Symbolic *const places[] = {u->columns, limits->shape[0]};
  GraphTensor *column = expand_index(x, "column", places, 2, 0),
              *limit = expand_unsqueeze(x, "limit", limits, 0);
  GraphTensor *most = expand_cast(x, "columns", expand_known(x, "columns", &u->columns, 1, 0), NUMBER_S32);
  GraphTensor *none = behind ? most : expand_number(x, "none", NUMBER_S32, 0);
  GraphTensor *fits = expand(x, behind ? ONNX_Greater : ONNX_LessOrEqual, "fits", limit, column);
  GraphTensor *those = expand_where(x, "those", fits, limit, none);
  GraphTensor *found = expand_reduce_away(x, behind ? ONNX_ReduceMin : ONNX_ReduceMax,
                                          behind ? "next" : "begin", those, 1u << 1);
  return expand(x, behind ? ONNX_Min : ONNX_Max, behind ? "behind" : "from", found, none);
}

/* Which unit of the packed operand each of [rows, columns] is. */
static GraphTensor *places(const Unpacking *u)
{
  Expansion *x = u->x;
  const Symbolic *const shape[] = {u->rows, u->columns};
  const Symbolic *above = symbolic_sub(expand_arena(x), u->rows, symbolic_constant(expand_arena(x), 1));
  GraphTensor *in_front = expand(x, ONNX_Mul, "in_front", expand_cast(x, "begin_", u->begin, u->place),
                                 expand_cast(x, "above", expand_known(x, "above", &above, 1, 0), u->place));
  GraphTensor *first =
      expand(x, ONNX_Add, "first", in_front,
             expand_cast(x, "column_", expand_index(x, "column", &u->columns, 1, 0), u->place));
  GraphTensor *row = expand_cast(x, "row_", expand_index(x, "row", shape, 2, 0), u->place);
  GraphTensor *width = expand_cast(x, "width_", expand_unsqueeze(x, "width", u->width, 0), u->place);
  return expand(x, ONNX_Add, "place", expand(x, ONNX_Mul, "down", row, width),
                expand_unsqueeze(x, "first", first, 0));
}

void expand_unpack_groups(Expansion *x)
{
  if (!check(x)) return;
  GraphTensor *packed = expand_input(x, 0), *ends = expand_input(x, 1);
  int64_t align = graph_attribute(expand_written(x), "align")->integer;
  Arena *arena = expand_arena(x);
  const Symbolic *unit = symbolic_constant(arena, align);
  Unpacking u = {
      .x = x, .rows = packed->shape[0], .columns = symbolic_ceil_div(arena, packed->shape[1], unit)};
  if (symbolic_equals(ends->shape[0], 0) || symbolic_equals(u.rows, 1)) { /* the one part, or the one row */
    expand_give(x, 0, expand(x, ONNX_Identity, "same", packed, NULL));
    return;
  }
  const Symbolic *units = symbolic_mul(arena, u.rows, u.columns);
  int64_t count;
  if (symbolic_is_constant(units, &count) && count > INT32_MAX) {
    expand_refuse(x, ERROR_UNSUPPORTED, 0, "size", "a greater `align` makes fewer units",
                  "packed groups of %" G_GINT64_FORMAT
                  " units of `align` elements are not supported, only of %d",
                  count, INT32_MAX);
    return;
  }
  u.place = expand_is_at_most(x, units, INT32_MAX) ? NUMBER_S32 : NUMBER_S64;
  GraphTensor *limit = expand_highest_ends(x, ends, packed->shape[1], false);
  if (align > 1)
    limit =
        expand(x, ONNX_Div, "limit",
               expand(x, ONNX_Add, "up", limit, expand_number(x, "more", NUMBER_S32, (double)(align - 1))),
               expand_number(x, "align", NUMBER_S32, (double)align));
  u.begin = bound(&u, limit, false);
  u.width = expand(x, ONNX_Sub, "wide", bound(&u, limit, true), u.begin);
  const Symbolic *const flat[] = {units, unit};
  GraphTensor *of_units = expand_reshape(x, "units", packed, flat, 2);
  ExpandNode gather = {ONNX_Gather, "moved", 2, {of_units, places(&u)}};
  expand_give(
      x, 0,
      expand_reshape(x, "unpacked", expand_node(x, &gather), (const Symbolic *const *)packed->shape, 2));
}
