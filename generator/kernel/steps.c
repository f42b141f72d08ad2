#include "generator/kernel/steps.h"
#include <math.h>
#include <string.h>

/* What computes an operator: an operation of the language (".add") or a sub-kernel of templates/math.ir and
 * templates/operators.ir, for floats, for integers and for truth values. NULL: none. Attributes that are
 * numbers follow the operands as arguments, in the order of the operator table. */
typedef struct StepForm {
  OperatorId id;
  const char *floats, *integers, *truth;
} StepForm;

static const StepForm forms[] = {
    {ONNX_Add, ".add", ".add", NULL},
    {ONNX_Sub, ".sub", ".sub", NULL},
    {ONNX_Mul, ".mul", ".mul", NULL},
    {ONNX_Div, ".div", "div_integer", NULL},
    {ONNX_Pow, "pow", NULL, NULL},
    {ONNX_Min, ".min", ".min", NULL},
    {ONNX_Max, ".max", ".max", NULL},
    {ONNX_Sum, ".add", NULL, NULL},
    {ONNX_Neg, ".neg", ".neg", NULL},
    {ONNX_Abs, ".abs", ".abs", NULL},
    {ONNX_Sign, "sign", "sign_integer", NULL},
    {ONNX_Reciprocal, ".rcp", NULL, NULL},
    {ONNX_Sqrt, ".sqrt", NULL, NULL},
    {ONNX_Exp, "exp", NULL, NULL},
    {ONNX_Log, "log", NULL, NULL},
    {ONNX_Floor, ".floor", NULL, NULL},
    {ONNX_Ceil, ".ceil", NULL, NULL},
    {ONNX_Round, ".round", NULL, NULL},
    {ONNX_Sin, "sin", NULL, NULL},
    {ONNX_Cos, "cos", NULL, NULL},
    {ONNX_Tan, "tan", NULL, NULL},
    {ONNX_Asin, "asin", NULL, NULL},
    {ONNX_Acos, "acos", NULL, NULL},
    {ONNX_Atan, "atan", NULL, NULL},
    {ONNX_Sinh, "sinh", NULL, NULL},
    {ONNX_Cosh, "cosh", NULL, NULL},
    {ONNX_Tanh, "tanh", NULL, NULL},
    {ONNX_Asinh, "asinh", NULL, NULL},
    {ONNX_Acosh, "acosh", NULL, NULL},
    {ONNX_Atanh, "atanh", NULL, NULL},
    {ONNX_Erf, "erf", NULL, NULL},
    {ONNX_IsNaN, "is_nan", NULL, NULL},
    {ONNX_IsInf, "is_inf", NULL, NULL},
    {ONNX_BitwiseAnd, NULL, ".and", NULL},
    {ONNX_BitwiseOr, NULL, ".or", NULL},
    {ONNX_BitwiseXor, NULL, ".xor", NULL},
    {ONNX_BitwiseNot, NULL, ".not", NULL},
    {ONNX_And, NULL, NULL, ".and"},
    {ONNX_Or, NULL, NULL, ".or"},
    {ONNX_Xor, NULL, NULL, ".xor"},
    {ONNX_Not, NULL, NULL, ".not"},
    {ONNX_Equal, ".eq", ".eq", NULL},
    {ONNX_Less, ".lt", ".lt", NULL},
    {ONNX_LessOrEqual, ".le", ".le", NULL},
    {ONNX_Greater, ".gt", ".gt", NULL},
    {ONNX_GreaterOrEqual, ".ge", ".ge", NULL},
    {ONNX_Relu, "relu", "relu_integer", NULL},
    {ONNX_LeakyRelu, "leaky_relu", NULL, NULL},
    {ONNX_PRelu, "prelu", "prelu_integer", NULL},
    {ONNX_ThresholdedRelu, "thresholded_relu", NULL, NULL},
    {ONNX_Elu, "elu", NULL, NULL},
    {ONNX_Selu, "selu", NULL, NULL},
    {ONNX_Celu, "celu", NULL, NULL},
    {ONNX_Sigmoid, "sigmoid", NULL, NULL},
    {ONNX_HardSigmoid, "hard_sigmoid", NULL, NULL},
    {ONNX_HardSwish, "hard_swish", NULL, NULL},
    {ONNX_Swish, "swish", NULL, NULL},
    {ONNX_Mish, "mish", NULL, NULL},
    {ONNX_Softplus, "softplus", NULL, NULL},
    {ONNX_Softsign, "softsign", NULL, NULL},
    {ONNX_Shrink, "shrink", NULL, NULL},
    {ONNX_Philox, NULL, "philox", NULL},
};

NumberType step_element(const IrExpr *value, NumberType otherwise)
{
  return value->kind == EXPR_VALUE ? value->value->type.element : otherwise;
}

static bool is_tile(const IrExpr *value)
{
  return value->kind == EXPR_VALUE && value->value->type.kind == TYPE_TILE;
}

IrType step_tile_like(IrModule *module, const IrExpr *value, NumberType element)
{
  IrType type = value->value->type;
  type.element = element;
  type.layout = NULL;
  return type;
}

/* Broadcast extents of the operands with an element type; TYPE_NONE if none is a tile. */
static IrType broadcast(IrExpr *const *operands, unsigned n, NumberType element)
{
  IrType type = {.kind = TYPE_NONE};
  for (unsigned i = 0; i < n; i++) {
    if (!operands[i] || !is_tile(operands[i])) continue;
    const IrType *other = &operands[i]->value->type;
    if (type.kind == TYPE_NONE) type = *other;
    for (unsigned d = 0; d < type.rank && d < other->rank; d++)
      if (ir_tile_extent(&type, d) == 1) type.dims[d] = other->dims[d];
  }
  type.element = element;
  type.layout = NULL;
  return type;
}

/* Where approximations will do x / a is x (1 / a), which is rounded once more and has no long way, and two factors are one. What x is
 * multiplied by; *x: of which. NULL: it is not that. */
static IrExpr *one_factor(const StepWriter *writer, IrOpcode code, NumberType element,
                          IrExpr *const *operands, IrExpr **x)
{
  bool known = writer->approximate && (code == OP_DIV || code == OP_MUL) && element == NUMBER_F32 &&
               is_tile(operands[0]) && operands[1]->kind == EXPR_FLOAT;
  if (!known) return NULL;
  double by = code == OP_DIV ? 1 / operands[1]->number : operands[1]->number;
  const IrOp *inner = operands[0]->value->def;
  bool twice = inner && inner->code == OP_MUL && inner->operands[1]->kind == EXPR_FLOAT;
  if (code == OP_MUL && !twice) return NULL;
  *x = twice ? inner->operands[0] : operands[0];
  if (twice) by *= inner->operands[1]->number;
  return isnormal((float)by) ? ir_float(writer->builder->module, (float)by) : NULL;
}

static IrExpr *emit(StepWriter *writer, IrOpcode code, NumberType element, const char *name,
                    IrExpr *const *operands, unsigned n)
{
  IrExpr *x, *by = one_factor(writer, code, element, operands, &x);
  if (by) return emit(writer, OP_MUL, element, name, (IrExpr *[]){x, by}, 2);
  IrOp *op = ir_emit_array(writer->builder, code, n, operands);
  bool is_float = number_class(element) == NUMBER_FLOAT;
  if ((code == OP_MIN || code == OP_MAX) && is_float) ir_attribute_set(op, ATTR_NAN, NULL);
  if (writer->fast && is_float && (code == OP_DIV || code == OP_SQRT || code == OP_RCP))
    ir_attribute_set(op, ATTR_FAST, NULL);
  return ir_value(writer->builder->module, ir_result(op, name, broadcast(operands, n, element)));
}

static IrExpr *constant(IrModule *module, NumberType type, double value)
{
  return number_class(type) == NUMBER_FLOAT ? ir_float(module, value) : ir_int(module, (int64_t)value);
}

static IrExpr *call(StepWriter *writer, const char *form, const char *name, NumberType element,
                    IrExpr *const *arguments, unsigned n);

/* Instructions round f32 to tf32 and to 8-bit floats, and nothing else. An f64 becomes the f32 that rounds as it does. */
static IrExpr *roundable(StepWriter *writer, IrExpr *value, NumberType type)
{
  bool short_only = type == NUMBER_TF32 || number_is_small_float(type);
  NumberType from = value->value->type.element;
  if (!short_only || (number_class(from) == NUMBER_FLOAT && from != NUMBER_F64)) return value;
  if (from == NUMBER_F64) value = call(writer, "to_odd", "odd", NUMBER_F64, &value, 1);
  return step_convert(writer, value, NUMBER_F32);
}

/* Instructions make 2^(bits - 1) or the least integer of a NaN where one of both types has 64 bits; it shall be 0 as elsewhere. */
static IrExpr *countable(StepWriter *writer, IrExpr *value, NumberType type)
{
  NumberType from = value->value->type.element;
  bool wide = number_bits(from) > number_bits(NUMBER_F32) || number_bits(type) > number_bits(NUMBER_S32);
  if (!wide || number_class(from) != NUMBER_FLOAT || number_class(type) == NUMBER_FLOAT) return value;
  IrExpr *operands[3] = {value, value};
  operands[0] = emit(writer, OP_EQ, NUMBER_BOOL, "number", operands, 2);
  operands[2] = constant(writer->builder->module, from, 0);
  return emit(writer, OP_SELECT, from, "counted", operands, 3);
}

static IrExpr *rounded_by_bytes(StepWriter *writer, IrExpr *value, NumberType type, bool saturate);

IrExpr *step_convert(StepWriter *writer, IrExpr *value, NumberType type)
{
  IrModule *module = writer->builder->module;
  if (!is_tile(value)) return value;
  NumberType from = value->value->type.element;
  if (from == type || (from == NUMBER_TF32 && type == NUMBER_F32)) return value;
  IrExpr *operands[3] = {value};
  if (type == NUMBER_BOOL) {
    operands[1] = constant(module, from, 0);
    return emit(writer, OP_NE, NUMBER_BOOL, "true", operands, 2);
  }
  if (from == NUMBER_BOOL) {
    NumberType plain = number_class(type) == NUMBER_FLOAT ? NUMBER_F32 : NUMBER_S32;
    operands[1] = constant(module, plain, 1);
    operands[2] = constant(module, plain, 0);
    return step_convert(writer, emit(writer, OP_SELECT, plain, "number", operands, 3), type);
  }
  if (writer->bytes && number_is_small_float(type)) return rounded_by_bytes(writer, value, type, false);
  operands[0] = countable(writer, roundable(writer, value, type), type);
  return emit(writer, OP_CAST, type, "as", operands, 1);
}

static IrExpr *unsupported(StepWriter *writer, const FusedStep *step)
{
  error_set(writer->error, ERROR_UNSUPPORTED, &step->node->mark, "operator-type", NULL,
            "%s in %s is not supported", operator_of(step->op)->name, number_name(step->compute));
  return NULL;
}

static const char *form_in(StepWriter *writer, const IrModule *library, const char *name, const char *suffix)
{
  char *form = arena_printf(writer->builder->module->arena, "%s_%s", name, suffix);
  return ir_function_find(library, form) ? form : NULL;
}

/* The function's fast form if fast mathematics are asked for and there is one; else the shortest form that is
 * good enough for the result's type, the hardware's where it is let. In 64 bits it has one form, or none: NULL. */
static const char *function_name(StepWriter *writer, const char *name)
{
  if (number_bits(writer->compute) > number_bits(NUMBER_F32))
    return step_wide_function(writer, name, writer->compute == NUMBER_F64 ? "_f64" : "_s64");
  const char *form = writer->fast ? form_in(writer, writer->library, name, "fast") : NULL;
  if (!form && writer->approximate && writer->precision <= STEP_BRIEF)
    form = form_in(writer, writer->narrow, name, "hardware");
  if (!form && writer->precision <= STEP_BRIEF) form = form_in(writer, writer->narrow, name, "brief");
  if (!form && writer->precision <= STEP_NARROW) form = form_in(writer, writer->narrow, name, "narrow");
  return form ? form : name;
}

/* form: the function; name: the value's. */
static IrExpr *call(StepWriter *writer, const char *form, const char *name, NumberType element,
                    IrExpr *const *arguments, unsigned n)
{
  IrModule *module = writer->builder->module;
  IrExpr **operands = arena_new_array(module->arena, IrExpr *, n + 1);
  operands[0] = ir_symbol(module, form);
  memcpy(operands + 1, arguments, n * sizeof *arguments);
  IrOp *op = ir_emit_array(writer->builder, OP_CALL, n + 1, operands);
  return ir_value(module, ir_result(op, name, broadcast(arguments, n, element)));
}

IrExpr *step_from_byte(StepWriter *writer, IrExpr *value, NumberType type)
{
  IrExpr *wide = step_convert(writer, value, NUMBER_S32);
  const char *form = type == NUMBER_E4M3 ? "from_e4m3" : "from_e5m2";
  return call(writer, form, form, NUMBER_F32, &wide, 1);
}

IrExpr *step_to_byte(StepWriter *writer, IrExpr *value, NumberType type, bool saturate)
{
  guint8 most;
  number_from_double(type, INFINITY, true, &most);
  double largest = saturate ? number_to_double(type, &most) : INFINITY;
  IrExpr *arguments[2] = {step_convert(writer, roundable(writer, value, type), NUMBER_F32),
                          ir_float(writer->builder->module, largest)};
  const char *form = type == NUMBER_E4M3 ? "to_e4m3" : "to_e5m2";
  IrExpr *wide = call(writer, form, form, NUMBER_S32, arguments, 2);
  return step_convert(writer, wide, NUMBER_U8);
}

/* Rounded to an 8-bit float, in f32. */
static IrExpr *rounded_by_bytes(StepWriter *writer, IrExpr *value, NumberType type, bool saturate)
{
  return step_from_byte(writer, step_to_byte(writer, value, type, saturate), type);
}

/* One application of an operation or function to n arguments. NULL: it has no form in that type. */
static IrExpr *apply(StepWriter *writer, const char *form, NumberType element, IrExpr *const *arguments,
                     unsigned n)
{
  IrOpcode code;
  if (form[0] != '.') {
    const char *name = function_name(writer, form);
    return name ? call(writer, name, form, element, arguments, n) : NULL;
  }
  bool known = ir_opcode_parse(form + 1, &code);
  g_assert(known);
  return emit(writer, code, element, form + 1, arguments, n);
}

static double attribute_number(const FusedStep *step, unsigned i)
{
  const OperatorAttribute *attribute = &operator_of(step->op)->attributes[i];
  return attribute->kind == ATTRIBUTE_INT ? (double)step->attributes[i].integer : step->attributes[i].number;
}

/* min(max(x, low), high); an absent bound does not bind. Opset 7's bounds are attributes, fusion made them
 * operands. */
static IrExpr *write_clip(StepWriter *writer, const FusedStep *step, IrExpr **operands)
{
  IrExpr *value = operands[0];
  for (unsigned i = 1; i < step->n_operands && i < 3; i++) {
    if (!operands[i]) continue;
    IrExpr *pair[2] = {value, operands[i]};
    value = emit(writer, i == 1 ? OP_MAX : OP_MIN, step->compute, "clipped", pair, 2);
  }
  return value;
}

static IrExpr *write_where(StepWriter *writer, const FusedStep *step, IrExpr **operands)
{
  if (step->compute != NUMBER_BOOL) return emit(writer, OP_SELECT, step->compute, "chosen", operands, 3);
  /* truth values: (c and x) or (not c and y) */
  IrExpr *yes = emit(writer, OP_AND, NUMBER_BOOL, "yes", (IrExpr *[]){operands[0], operands[1]}, 2);
  IrExpr *otherwise = emit(writer, OP_NOT, NUMBER_BOOL, "otherwise", operands, 1);
  IrExpr *no = emit(writer, OP_AND, NUMBER_BOOL, "no", (IrExpr *[]){otherwise, operands[2]}, 2);
  return emit(writer, OP_OR, NUMBER_BOOL, "chosen", (IrExpr *[]){yes, no}, 2);
}

/* 8-bit floats saturate unless the attribute says otherwise; the rest is the caller's. */
static IrExpr *write_cast(StepWriter *writer, const FusedStep *step, IrExpr *value)
{
  bool small = number_is_small_float(step->type);
  int index = operator_attribute_index(operator_of(ONNX_Cast), "saturate");
  bool saturate = !step->attributes || step->attributes[index].integer;
  if (small && writer->bytes && is_tile(value)) return rounded_by_bytes(writer, value, step->type, saturate);
  if (!small || !saturate || !is_tile(value)) return value;
  value = roundable(writer, value, step->type);
  value = emit(writer, OP_CAST, step->type, "as", &value, 1);
  ir_attribute_set(value->value->def, ATTR_SATURATE, NULL);
  return value;
}

static bool is_whole(const IrExpr *value)
{
  return is_tile(value) && number_class(value->value->type.element) != NUMBER_FLOAT;
}

/* Modulo 2^32, or modulo 2^64 where either is of 64 bits. NULL: a^b of an integer and a fraction would have to be as exact as
 * the truncation behind it. */
static IrExpr *write_integer_power(StepWriter *writer, const FusedStep *step, IrExpr **operands)
{
  const FusedOperand *exponent = &step->operands[1];
  bool known = exponent->kind == OPERAND_IMMEDIATE && exponent->immediate == floor(exponent->immediate);
  if (!known && number_class(exponent->type) == NUMBER_FLOAT) return NULL;
  for (unsigned i = 0; i < 2; i++)
    if (step_element(operands[i], step->compute) == NUMBER_S64) writer->compute = NUMBER_S64;
  IrExpr *wide[2];
  for (unsigned i = 0; i < 2; i++)
    wide[i] = step_convert(writer, operands[i], writer->compute);
  return apply(writer, "pow_integer", writer->compute, wide, 2);
}

static IrExpr *write_special(StepWriter *writer, const FusedStep *step, IrExpr **operands, bool *special)
{
  IrModule *module = writer->builder->module;
  *special = true;
  switch ((unsigned)step->op) {
  case ONNX_Cast: return write_cast(writer, step, operands[0]);
  case ONNX_BitCast: return emit(writer, OP_BITCAST, step->type, "bits", operands, 1);
  case ONNX_Identity: return operands[0];
  case ONNX_Clip: return write_clip(writer, step, operands);
  case ONNX_Where: return write_where(writer, step, operands);
  case ONNX_Mod: {
    bool truncated = step->attributes && step->attributes[0].integer;
    bool integer = number_class(step->compute) != NUMBER_FLOAT;
    return apply(writer,
                 integer ? (truncated ? "fmod_integer" : "mod_integer") : (truncated ? "fmod" : "mod"),
                 step->compute, operands, 2);
  }
  case ONNX_Gelu: {
    bool tanh = step->attributes && step->attributes[0].text && !strcmp(step->attributes[0].text, "tanh");
    return apply(writer, tanh ? "gelu_tanh" : "gelu", step->compute, operands, 1);
  }
  case ONNX_Swish:
    if (!step->attributes || step->attributes[0].number != 1) break;
    return apply(writer, "silu", step->compute, operands, 1);
  case ONNX_Pow:
    if (number_class(step->compute) != NUMBER_FLOAT) return write_integer_power(writer, step, operands);
    if (!is_whole(operands[1])) break;
    return apply(writer, operands[1]->value->type.element == NUMBER_S64 ? "pow_long" : "pow_whole",
                 step->compute, operands, 2);
  case ONNX_BitShift: {
    bool left = step->attributes && step->attributes[0].text && !strcmp(step->attributes[0].text, "LEFT");
    return apply(writer, left ? "shift_left" : "shift_right", step->compute, operands, 2);
  }
  case ONNX_Mean: {
    IrExpr *sum = operands[0];
    for (unsigned i = 1; i < step->n_operands; i++)
      sum = emit(writer, OP_ADD, step->compute, "sum", (IrExpr *[]){sum, operands[i]}, 2);
    return emit(writer, OP_DIV, step->compute, "mean", (IrExpr *[]){sum, ir_float(module, step->n_operands)},
                2);
  }
  case ONNX_Equal:
    if (step->compute != NUMBER_BOOL) break;
    operands[0] = emit(writer, OP_XOR, NUMBER_BOOL, "differ", operands, 2);
    return emit(writer, OP_NOT, NUMBER_BOOL, "equal", operands, 1);
  default: break;
  }
  *special = false;
  return NULL;
}

static const char *form_of(const FusedStep *step)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(forms); i++) {
    if (forms[i].id != step->op) continue;
    if (step->compute == NUMBER_BOOL) return forms[i].truth;
    return number_class(step->compute) == NUMBER_FLOAT ? forms[i].floats : forms[i].integers;
  }
  return NULL;
}

static bool gives_truth(const FusedStep *step)
{
  return step->type == NUMBER_BOOL;
}

/* Operators of any number of operands fold from the left; the others take their attributes as further
 * arguments. */
static IrExpr *write_form(StepWriter *writer, const FusedStep *step, IrExpr **operands)
{
  const char *form = form_of(step);
  if (!form) return NULL;
  const Operator *row = operator_of(step->op);
  NumberType element = gives_truth(step) ? NUMBER_BOOL : step->compute;
  if (row->max_inputs == G_MAXUINT) {
    IrExpr *value = operands[0];
    for (unsigned i = 1; i < step->n_operands; i++)
      value = apply(writer, form, element, (IrExpr *[]){value, operands[i]}, 2);
    return value;
  }
  IrExpr *arguments[OPERATOR_MAX_INPUTS + OPERATOR_MAX_ATTRIBUTES];
  unsigned n = 0;
  for (unsigned i = 0; i < step->n_operands; i++)
    arguments[n++] = operands[i];
  for (unsigned i = 0; form[0] != '.' && step->attributes && i < row->n_attributes; i++)
    arguments[n++] = ir_float(writer->builder->module, attribute_number(step, i));
  return apply(writer, form, element, arguments, n);
}

/* What operand i is turned into first. */
static NumberType operand_type(const FusedStep *step, IrExpr *const *operands, unsigned i)
{
  if (step->op == ONNX_Where && i == 0) return NUMBER_BOOL;
  if (step->op == ONNX_Pow && i == 1 &&
      is_whole(operands[i])) /* rounded to a float it may be another number */
    return operands[i]->value->type.element == NUMBER_S64 ? NUMBER_S64 : NUMBER_S32;
  return step->compute;
}

IrExpr *step_write(StepWriter *writer, const FusedStep *step, IrExpr **operands)
{
  IrModule *module = writer->builder->module;
  IrExpr **converted = arena_new_array(module->arena, IrExpr *, MAX(3, step->n_operands));
  for (unsigned i = 0; i < step->n_operands; i++) {
    if (operands[i]) converted[i] = step_convert(writer, operands[i], operand_type(step, operands, i));
  }
  writer->precision = MIN(step_precision(step->type), writer->least);
  writer->compute = step->compute;
  bool special;
  IrExpr *value = write_special(writer, step, converted, &special);
  if (!special) value = write_form(writer, step, converted);
  if (!value) return unsupported(writer, step);
  bool rounds = step->op == ONNX_Cast || number_class(step->type) == NUMBER_SIGNED ||
                number_class(step->type) == NUMBER_UNSIGNED || step->type == NUMBER_BOOL;
  bool rounded = writer->bytes && number_is_small_float(step->type);
  return rounds && !rounded ? step_convert(writer, value, step->type) : value;
}
