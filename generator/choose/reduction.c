#include "generator/choose/reduction.h"
#include <math.h>

/* "combine_max_integer_s64" */
static const char *combining(const char *with, NumberType compute)
{
  static const char *const plain[][2] = {{"combine_sum", "combine_sum_integer"},
                                         {"combine_max", "combine_max_integer"},
                                         {"combine_min", "combine_min_integer"}},
                           *const wide[][2] = {{"combine_sum_f64", "combine_sum_integer_s64"},
                                               {"combine_max_f64", "combine_max_integer_s64"},
                                               {"combine_min_f64", "combine_min_integer_s64"}};
  unsigned which = g_str_equal(with, "max") ? 1 : g_str_equal(with, "min") ? 2 : 0;
  bool integer = number_class(compute) != NUMBER_FLOAT;
  return number_bits(compute) > number_bits(NUMBER_F32) ? wide[which][integer] : plain[which][integer];
}

void choose_reduction(Choice *choice, ProgramReduction reduction, NumberType compute)
{
  bool integer = number_class(compute) != NUMBER_FLOAT,
       is_wide = number_bits(compute) > number_bits(NUMBER_F32);
  bool max = reduction == REDUCTION_MAX, min = reduction == REDUCTION_MIN;
  const char *with = max ? "max" : min ? "min" : "sum";
  choice_set_name(choice, "element", number_name(compute));
  choice_set_name(choice, "with", with);
  if (integer)
    choice_set_int(choice, "identity",
                   max   ? (is_wide ? G_MININT64 : G_MININT32)
                   : min ? (is_wide ? G_MAXINT64 : G_MAXINT32)
                         : 0);
  else
    choice_set_float(choice, "identity", max ? -INFINITY : min ? INFINITY : 0.0);
  choice_set_name(choice, "combine", combining(with, compute));
}
