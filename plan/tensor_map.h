/* Numbers by which the driver knows the fields of a tensor map: for what launches a plan, and what prints C that does. */
#pragma once
#include "base/number.h"

/* CUtensorMapDataType of an element type; what has none of its own is moved as bits of its size. */
int plan_map_type(NumberType type);
/* Position among the powers of two from `first` on that a field takes, counted from 1; 0 for less. */
int plan_map_code(unsigned bytes, unsigned first);
