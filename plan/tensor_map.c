#include "plan/tensor_map.h"

int plan_map_type(NumberType type)
{
  switch (type) {
  case NUMBER_F64: return 8;
  case NUMBER_F32: return 7;
  case NUMBER_TF32: return 11;
  case NUMBER_F16: return 6;
  case NUMBER_BF16: return 9;
  case NUMBER_S32: return 3;
  case NUMBER_S64: return 5;
  default: break;
  }
  switch (number_bits(type)) {
  case 8: return 0;
  case 16: return 1;
  case 32: return 2;
  default: return 4;
  }
}

int plan_map_code(unsigned bytes, unsigned first)
{
  int code = 0;
  for (; bytes >= first; bytes /= 2)
    code++;
  return code;
}
