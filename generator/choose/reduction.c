#include "generator/choose/reduction.h"
#include <math.h>

void choose_reduction(Choice *choice, ProgramReduction reduction, NumberType compute)
{
  bool integer = number_class(compute) != NUMBER_FLOAT;
  bool max = reduction == REDUCTION_MAX, min = reduction == REDUCTION_MIN;
  choice_set_name(choice, "element", number_name(compute));
  choice_set_name(choice, "with", max ? "max" : min ? "min" : "sum");
  if (integer)
    choice_set_int(choice, "identity", max ? G_MININT32 : min ? G_MAXINT32 : 0);
  else
    choice_set_float(choice, "identity", max ? -INFINITY : min ? INFINITY : 0.0);
  choice_set_name(choice, "combine",
                  max   ? (integer ? "combine_max_integer" : "combine_max")
                  : min ? (integer ? "combine_min_integer" : "combine_min")
                        : (integer ? "combine_sum_integer" : "combine_sum"));
}
