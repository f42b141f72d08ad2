/* Elementwise operators: tables of scalar functions, applied under broadcasting. */
#include "reference/private.h"
#include <math.h>
#include <string.h>

/* ---- floats of one argument; a and b are the attributes that the row names ---- */

typedef struct {
  const char *op;
  double (*apply)(double x, double a, double b);
  const char *a, *b; /* attributes; NULL: none */
} UnaryRow;

#define UNARY(name, expression)                                                                              \
  static double unary_##name(double x, double a, double b)                                                   \
  {                                                                                                          \
    return expression;                                                                                       \
  }

static double sigmoid(double x)
{
  return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double softplus(double x)
{
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* As max and min, but NaN goes through. */
static double larger(double x, double y)
{
  return isnan(x) || isnan(y) ? NAN : fmax(x, y);
}

static double smaller(double x, double y)
{
  return isnan(x) || isnan(y) ? NAN : fmin(x, y);
}

UNARY(neg, -x)
UNARY(abs, fabs(x))
UNARY(sign, isnan(x) ? x : (x > 0) - (x < 0))
UNARY(reciprocal, 1 / x)
UNARY(sqrt, sqrt(x))
UNARY(exp, exp(x))
UNARY(log, log(x))
UNARY(floor, floor(x))
UNARY(ceil, ceil(x))
UNARY(round, nearbyint(x))
UNARY(sin, sin(x))
UNARY(cos, cos(x))
UNARY(tan, tan(x))
UNARY(asin, asin(x))
UNARY(acos, acos(x))
UNARY(atan, atan(x))
UNARY(sinh, sinh(x))
UNARY(cosh, cosh(x))
UNARY(tanh, tanh(x))
UNARY(asinh, asinh(x))
UNARY(acosh, acosh(x))
UNARY(atanh, atanh(x))
UNARY(erf, erf(x))
UNARY(identity, x)
UNARY(relu, larger(x, 0))
UNARY(leaky_relu, x < 0 ? a * x : x)
UNARY(thresholded_relu, x > a ? x : 0)
UNARY(elu, x < 0 ? a * expm1(x) : x)
UNARY(selu, b *(x <= 0 ? a * expm1(x) : x))
UNARY(celu, larger(0, x) + smaller(0, a *expm1(x / a)))
UNARY(sigmoid, sigmoid(x))
UNARY(hard_sigmoid, larger(0, smaller(1, a *x + b)))
UNARY(hard_swish, x *larger(0, smaller(1, x / 6 + 0.5)))
UNARY(swish, x *sigmoid(a *x))
UNARY(mish, x *tanh(softplus(x)))
UNARY(softplus, softplus(x))
UNARY(softsign, x / (1 + fabs(x)))
/* 1 + erf(y) is erfc(-y), and 1 + tanh(y) is 2 / (1 + e^-2y): neither leaves its tail to what cancels. */
UNARY(gelu, 0.5 * x * erfc(-x * M_SQRT1_2))
UNARY(gelu_tanh, x / (1 + exp(-2 * sqrt(M_2_PI) * (x + 0.044715 * x * x * x))))
UNARY(shrink, x<-b ? x + a : x> b ? x - a : isnan(x) ? x : 0)
UNARY(clip, isnan(x) ? x : fmin(fmax(x, a), b))

static const UnaryRow unary_rows[] = {
    {"Neg", unary_neg, NULL, NULL},
    {"Abs", unary_abs, NULL, NULL},
    {"Sign", unary_sign, NULL, NULL},
    {"Reciprocal", unary_reciprocal, NULL, NULL},
    {"Sqrt", unary_sqrt, NULL, NULL},
    {"Exp", unary_exp, NULL, NULL},
    {"Log", unary_log, NULL, NULL},
    {"Floor", unary_floor, NULL, NULL},
    {"Ceil", unary_ceil, NULL, NULL},
    {"Round", unary_round, NULL, NULL},
    {"Sin", unary_sin, NULL, NULL},
    {"Cos", unary_cos, NULL, NULL},
    {"Tan", unary_tan, NULL, NULL},
    {"Asin", unary_asin, NULL, NULL},
    {"Acos", unary_acos, NULL, NULL},
    {"Atan", unary_atan, NULL, NULL},
    {"Sinh", unary_sinh, NULL, NULL},
    {"Cosh", unary_cosh, NULL, NULL},
    {"Tanh", unary_tanh, NULL, NULL},
    {"Asinh", unary_asinh, NULL, NULL},
    {"Acosh", unary_acosh, NULL, NULL},
    {"Atanh", unary_atanh, NULL, NULL},
    {"Erf", unary_erf, NULL, NULL},
    {"Identity", unary_identity, NULL, NULL},
    {"Relu", unary_relu, NULL, NULL},
    {"LeakyRelu", unary_leaky_relu, "alpha", NULL},
    {"ThresholdedRelu", unary_thresholded_relu, "alpha", NULL},
    {"Elu", unary_elu, "alpha", NULL},
    {"Selu", unary_selu, "alpha", "gamma"},
    {"Celu", unary_celu, "alpha", NULL},
    {"Sigmoid", unary_sigmoid, NULL, NULL},
    {"HardSigmoid", unary_hard_sigmoid, "alpha", "beta"},
    {"HardSwish", unary_hard_swish, NULL, NULL},
    {"Swish", unary_swish, "alpha", NULL},
    {"Mish", unary_mish, NULL, NULL},
    {"Softplus", unary_softplus, NULL, NULL},
    {"Softsign", unary_softsign, NULL, NULL},
    {"Gelu", unary_gelu, NULL, NULL},
    {"Shrink", unary_shrink, "bias", "lambd"},
};

/* ---- several arguments, folded from the left where there are more than two ---- */

static double add_float(double x, double y)
{
  return x + y;
}

static double sub_float(double x, double y)
{
  return x - y;
}

static double mul_float(double x, double y)
{
  return x * y;
}

static double div_float(double x, double y)
{
  return x / y;
}

static double prelu_float(double x, double y)
{
  return x < 0 ? x * y : x;
}

/* Integers wrap modulo 2^64; the caller wraps to the type. */
static int64_t add_integer(int64_t x, int64_t y)
{
  return (int64_t)((uint64_t)x + (uint64_t)y);
}

static int64_t sub_integer(int64_t x, int64_t y)
{
  return (int64_t)((uint64_t)x - (uint64_t)y);
}

static int64_t mul_integer(int64_t x, int64_t y)
{
  return (int64_t)((uint64_t)x * (uint64_t)y);
}

static int64_t div_integer(int64_t x, int64_t y)
{
  return y == 0 ? 0 : y == -1 ? sub_integer(0, x) : x / y;
}

static int64_t pow_integer(int64_t x, int64_t y)
{
  uint64_t result = 1, factor = (uint64_t)x;
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  for (; y; y >>= 1, factor *= factor)
    if (y & 1) result *= factor;
  return (int64_t)result;
}

/* Remainder with the dividend's sign. */
static int64_t fmod_integer(int64_t x, int64_t y)
{
  return y == 0 || y == -1 ? 0 : x % y;
}

/* Remainder with the divisor's sign. */
static int64_t mod_integer(int64_t x, int64_t y)
{
  int64_t rest = fmod_integer(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static int64_t min_integer(int64_t x, int64_t y)
{
  return MIN(x, y);
}

static int64_t max_integer(int64_t x, int64_t y)
{
  return MAX(x, y);
}

static int64_t prelu_integer(int64_t x, int64_t y)
{
  return x < 0 ? mul_integer(x, y) : x;
}

static int64_t and_integer(int64_t x, int64_t y)
{
  return x & y;
}

static int64_t or_integer(int64_t x, int64_t y)
{
  return x | y;
}

static int64_t xor_integer(int64_t x, int64_t y)
{
  return x ^ y;
}

static int64_t left_integer(int64_t x, int64_t y)
{
  return y < 0 || y >= 64 ? 0 : (int64_t)((uint64_t)x << y);
}

static int64_t right_integer(int64_t x, int64_t y)
{
  return y < 0 || y >= 64 ? (x < 0 ? -1 : 0) : x >> y; /* values are wider than their types */
}

/* With the divisor's sign. */
static double mod_float(double x, double y)
{
  double rest = fmod(x, y);
  if (rest == 0) return copysign(0, y);
  return rest * y < 0 ? rest + y : rest;
}

typedef double (*FloatFold)(double, double);
typedef int64_t (*IntegerFold)(int64_t, int64_t);

static const struct {
  const char *op;
  FloatFold floats;     /* NULL: not for floats */
  IntegerFold integers; /* NULL: not for integers */
} fold_rows[] = {
    {"Add", add_float, add_integer},
    {"Sub", sub_float, sub_integer},
    {"Mul", mul_float, mul_integer},
    {"Div", div_float, div_integer},
    {"Pow", pow, pow_integer},
    {"Mod", fmod, mod_integer},
    {"Min", smaller, min_integer},
    {"Max", larger, max_integer},
    {"Sum", add_float, NULL},
    {"Mean", add_float, NULL},
    {"PRelu", prelu_float, prelu_integer},
    {"And", NULL, and_integer},
    {"Or", NULL, or_integer},
    {"Xor", NULL, xor_integer},
    {"BitwiseAnd", NULL, and_integer},
    {"BitwiseOr", NULL, or_integer},
    {"BitwiseXor", NULL, xor_integer},
    {"BitShift", NULL, left_integer},
};

static void find_fold(const ReferenceCall *call, FloatFold *floats, IntegerFold *integers)
{
  *floats = NULL;
  *integers = NULL;
  for (unsigned i = 0; i < G_N_ELEMENTS(fold_rows); i++)
    if (!strcmp(fold_rows[i].op, call->op)) {
      *floats = fold_rows[i].floats;
      *integers = fold_rows[i].integers;
    }
  bool is_mod = !strcmp(call->op, "Mod"), truncated = is_mod && reference_integer(call, "fmod");
  if (truncated) *integers = fmod_integer;
  if (is_mod && !truncated) *floats = mod_float;
  if (!strcmp(call->op, "BitShift") && strcmp(reference_attribute(call, "direction")->text, "LEFT"))
    *integers = right_integer;
}

static int64_t unary_integer(const ReferenceCall *call, int64_t x, bool *known)
{
  const char *op = call->op;
  *known = true;
  if (!strcmp(op, "Neg")) return (int64_t)(0 - (uint64_t)x);
  if (!strcmp(op, "Abs")) return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
  if (!strcmp(op, "Sign")) return (x > 0) - (x < 0);
  if (!strcmp(op, "Relu")) return MAX(x, 0);
  if (!strcmp(op, "Identity")) return x;
  if (!strcmp(op, "Not")) return !x;
  if (!strcmp(op, "BitwiseNot")) return ~x;
  if (!strcmp(op, "Shrink")) {
    double bias = reference_number(call, "bias"), lambd = reference_number(call, "lambd");
    return (int64_t)((double)x < -lambd ? (double)x + bias : (double)x > lambd ? (double)x - bias : 0);
  }
  *known = false;
  return 0;
}

/* -1, 0, 1, or 2 if one is NaN. */
static int order_of(const Value *a, size_t i, const Value *b, size_t j)
{
  if (a->floats) {
    double x = a->floats[i], y = b->floats[j];
    return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
  }
  return (a->integers[i] > b->integers[j]) - (a->integers[i] < b->integers[j]);
}

/* The orders that make a comparison true. */
static const struct {
  const char *op;
  bool less, equal, greater;
} compare_rows[] = {
    {"Equal", false, true, false},         {"Less", true, false, false},
    {"LessOrEqual", true, true, false},    {"Greater", false, false, true},
    {"GreaterOrEqual", false, true, true},
};

static int find_compare(const char *op)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(compare_rows); i++)
    if (!strcmp(compare_rows[i].op, op)) return (int)i;
  return -1;
}

static bool holds(int row, int order)
{
  if (order == 2) return false;
  return order < 0 ? compare_rows[row].less : order > 0 ? compare_rows[row].greater : compare_rows[row].equal;
}

/* ---- Cast ---- */

/* Out of range saturates, NaN becomes 0: as the hardware converts. */
static int64_t integer_from(double x, NumberType type)
{
  unsigned bits = number_bits(type);
  bool is_signed = number_class(type) == NUMBER_SIGNED;
  double high = ldexp(1, (int)bits - is_signed), low = is_signed ? -high : 0;
  if (isnan(x)) return 0;
  x = trunc(x);
  if (x >= high) return bits == 64 ? INT64_MAX : (int64_t)high - 1;
  return x < low ? (int64_t)low : (int64_t)x;
}

static void cast_element(const ReferenceCall *call, const Value *from, size_t i, Value *to, size_t j)
{
  uint8_t memory[8];
  if (to->floats) {
    double x = from->floats ? from->floats[i] : (double)from->integers[i];
    number_from_double(to->type, x, reference_integer(call, "saturate") != 0, memory);
    to->floats[j] = number_to_double(to->type, memory);
  } else if (to->type == NUMBER_BOOL) {
    to->integers[j] = from->floats ? from->floats[i] != 0 : from->integers[i] != 0;
  } else {
    to->integers[j] =
        from->floats ? integer_from(from->floats[i], to->type) : reference_wrap(to->type, from->integers[i]);
  }
}

/* ---- applying: one function an element, chosen once ---- */

typedef struct Kernel Kernel;
struct Kernel {
  const ReferenceCall *call;
  /* Element j of the result from elements at[i] of the inputs. */
  void (*apply)(const Kernel *kernel, const size_t *at, Value *out, size_t j);
  const UnaryRow *unary; /* floats of one argument */
  double a, b;           /* its attributes */
  FloatFold floats;
  IntegerFold integers;
  int compare;
  bool mean;
};

static double load_number(const Value *value, size_t i)
{
  return value->floats ? value->floats[i] : (double)value->integers[i];
}

static void apply_clip(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  const ReferenceCall *call = kernel->call;
  const Value *x = call->inputs[0];
  const Value *low = call->n_inputs > 1 ? call->inputs[1] : NULL;
  const Value *high = call->n_inputs > 2 ? call->inputs[2] : NULL;
  if (x->floats) {
    double value = x->floats[at[0]];
    if (low && value < low->floats[0]) value = low->floats[0];
    if (high && value > high->floats[0]) value = high->floats[0];
    out->floats[j] = value;
  } else {
    int64_t value = x->integers[at[0]];
    if (low) value = MAX(value, low->integers[0]);
    if (high) value = MIN(value, high->integers[0]);
    out->integers[j] = value;
  }
}

static void apply_where(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  const Value *const *inputs = kernel->call->inputs;
  unsigned chosen = inputs[0]->integers[at[0]] ? 1 : 2;
  if (out->floats)
    out->floats[j] = inputs[chosen]->floats[at[chosen]];
  else
    out->integers[j] = inputs[chosen]->integers[at[chosen]];
}

static void apply_cast(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  cast_element(kernel->call, kernel->call->inputs[0], at[0], out, j);
}

static void apply_bit_cast(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  const Value *from = kernel->call->inputs[0];
  float x = from->floats ? (float)from->floats[at[0]] : 0;
  int32_t bits = from->floats ? 0 : (int32_t)from->integers[at[0]];
  if (from->floats) memcpy(&bits, &x, sizeof bits);
  if (!from->floats) memcpy(&x, &bits, sizeof x);
  if (out->floats)
    out->floats[j] = x;
  else
    out->integers[j] = bits;
}

/* Word 0 of a block of random words: an index, the key and the block's stream. */
static void apply_philox(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  const Value *const *inputs = kernel->call->inputs;
  uint32_t words[4];
  philox((uint64_t)inputs[1]->integers[at[1]], (uint32_t)inputs[2]->integers[at[2]],
         (uint64_t)inputs[0]->integers[at[0]], words);
  out->integers[j] = words[0];
}

static void apply_is_nan(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  out->integers[j] = isnan(kernel->call->inputs[0]->floats[at[0]]);
}

static void apply_is_inf(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  double x = kernel->call->inputs[0]->floats[at[0]];
  out->integers[j] =
      isinf(x) && reference_integer(kernel->call, x > 0 ? "detect_positive" : "detect_negative");
}

static void apply_compare(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  const Value *const *inputs = kernel->call->inputs;
  out->integers[j] = holds(kernel->compare, order_of(inputs[0], at[0], inputs[1], at[1]));
}

static void apply_unary_float(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  out->floats[j] = kernel->unary->apply(kernel->call->inputs[0]->floats[at[0]], kernel->a, kernel->b);
}

static void apply_unary_integer(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  bool known;
  out->integers[j] = reference_wrap(
      out->type, unary_integer(kernel->call, kernel->call->inputs[0]->integers[at[0]], &known));
}

/* The exponent's last bit gives the sign; beyond 2^53 a double does not have it. */
static double power_of_integer(double x, int64_t n)
{
  double magnitude = pow(fabs(x), (double)n);
  return signbit(x) && (n & 1) ? -magnitude : magnitude;
}

static void apply_fold_floats(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  const ReferenceCall *call = kernel->call;
  double x = load_number(call->inputs[0], at[0]);
  for (unsigned i = 1; i < call->n_inputs; i++) {
    const Value *y = call->inputs[i];
    bool whole = kernel->floats == pow && !y->floats;
    x = whole ? power_of_integer(x, y->integers[at[i]]) : kernel->floats(x, load_number(y, at[i]));
  }
  out->floats[j] = kernel->mean ? x / call->n_inputs : x;
}

static void apply_fold_integers(const Kernel *kernel, const size_t *at, Value *out, size_t j)
{
  const ReferenceCall *call = kernel->call;
  int64_t x = call->inputs[0]->integers[at[0]];
  for (unsigned i = 1; i < call->n_inputs; i++) {
    const Value *input = call->inputs[i];
    /* Pow may take a floating-point exponent. */
    x = input->floats ? integer_from(pow((double)x, input->floats[at[i]]), out->type)
                      : kernel->integers(x, input->integers[at[i]]);
  }
  out->integers[j] = reference_wrap(out->type, x);
}

static const UnaryRow *find_unary(const ReferenceCall *call)
{
  static const UnaryRow gelu_tanh = {"Gelu", unary_gelu_tanh, NULL, NULL};
  static const UnaryRow clip = {"Clip", unary_clip, "min", "max"};
  if (!strcmp(call->op, "Gelu") && !strcmp(reference_attribute(call, "approximate")->text, "tanh"))
    return &gelu_tanh;
  if (!strcmp(call->op, "Clip") && reference_attribute(call, "min")) return &clip;
  for (unsigned i = 0; i < G_N_ELEMENTS(unary_rows); i++)
    if (!strcmp(unary_rows[i].op, call->op)) return &unary_rows[i];
  return NULL;
}

static Kernel choose_kernel(const ReferenceCall *call, const Value *out)
{
  static const struct {
    const char *op;
    void (*apply)(const Kernel *, const size_t *, Value *, size_t);
  } special[] = {{"Where", apply_where},      {"Philox", apply_philox}, {"Cast", apply_cast},
                 {"BitCast", apply_bit_cast}, {"IsNaN", apply_is_nan},  {"IsInf", apply_is_inf}};
  Kernel kernel = {.call = call, .mean = !strcmp(call->op, "Mean"), .compare = find_compare(call->op)};
  for (unsigned i = 0; i < G_N_ELEMENTS(special); i++)
    if (!strcmp(special[i].op, call->op)) kernel.apply = special[i].apply;
  if (kernel.compare >= 0) kernel.apply = apply_compare;
  if (kernel.apply) return kernel;
  find_fold(call, &kernel.floats, &kernel.integers);
  if (value_is_float(out)) kernel.unary = find_unary(call);
  if (kernel.unary && kernel.unary->a) kernel.a = reference_number(call, kernel.unary->a);
  if (kernel.unary && kernel.unary->b) kernel.b = reference_number(call, kernel.unary->b);
  if (kernel.unary)
    kernel.apply = apply_unary_float;
  else if (!strcmp(call->op, "Clip"))
    kernel.apply = apply_clip;
  else if (out->floats)
    kernel.apply = apply_fold_floats;
  else
    kernel.apply = kernel.integers ? apply_fold_integers : apply_unary_integer;
  return kernel;
}

bool reference_is_elementwise(const char *op)
{
  static const char *const others[] = {"Where", "Philox", "Cast",       "Clip",   "IsNaN",
                                       "IsInf", "Not",    "BitwiseNot", "BitCast"};
  for (unsigned i = 0; i < G_N_ELEMENTS(unary_rows); i++)
    if (!strcmp(unary_rows[i].op, op)) return true;
  for (unsigned i = 0; i < G_N_ELEMENTS(fold_rows); i++)
    if (!strcmp(fold_rows[i].op, op)) return true;
  for (unsigned i = 0; i < G_N_ELEMENTS(others); i++)
    if (!strcmp(others[i], op)) return true;
  return find_compare(op) >= 0;
}

/* Shape of the result: all inputs broadcast against each other. */
static bool result_shape(const ReferenceCall *call, unsigned *rank, int64_t *shape)
{
  *rank = 0;
  for (unsigned i = 0; i < call->n_inputs; i++)
    if (call->inputs[i]) *rank = MAX(*rank, call->inputs[i]->rank);
  for (unsigned d = 1; d <= *rank; d++) {
    int64_t extent = 1;
    for (unsigned i = 0; i < call->n_inputs; i++) {
      const Value *input = call->inputs[i];
      if (!input || d > input->rank || input->shape[input->rank - d] == 1) continue;
      if (extent != 1 && extent != input->shape[input->rank - d]) return false;
      extent = input->shape[input->rank - d];
    }
    shape[*rank - d] = extent;
  }
  return true;
}

typedef struct {
  unsigned rank;
  const int64_t *shape;
  int64_t (*strides)[TENSOR_MAX_RANK]; /* of each input */
  unsigned n;
  size_t *at; /* element of each input */
  int64_t index[TENSOR_MAX_RANK];
} Walk;

static void step(Walk *walk)
{
  for (unsigned d = walk->rank; d-- > 0;) {
    for (unsigned i = 0; i < walk->n; i++)
      walk->at[i] += (size_t)walk->strides[i][d];
    if (++walk->index[d] < walk->shape[d]) return;
    for (unsigned i = 0; i < walk->n; i++)
      walk->at[i] -= (size_t)(walk->strides[i][d] * walk->shape[d]);
    walk->index[d] = 0;
  }
}

Value *reference_elementwise(const ReferenceCall *call, bool *known, GError **error)
{
  int64_t shape[TENSOR_MAX_RANK];
  unsigned rank;
  *known = reference_is_elementwise(call->op);
  if (!*known) return NULL;
  if (!result_shape(call, &rank, shape)) {
    reference_refuse(error, call, "the shapes do not broadcast");
    return NULL;
  }
  Value *out = value_new(call->result, rank, shape, error);
  if (!out) return NULL;
  g_autofree int64_t(*strides)[TENSOR_MAX_RANK] = g_malloc0_n(call->n_inputs, sizeof *strides);
  g_autofree size_t *at = g_new0(size_t, call->n_inputs);
  for (unsigned i = 0; i < call->n_inputs; i++)
    if (call->inputs[i]) reference_strides(call->inputs[i], rank, shape, strides[i]);
  Kernel kernel = choose_kernel(call, out);
  Walk walk = {.rank = rank, .shape = shape, .strides = strides, .n = call->n_inputs, .at = at};
  for (size_t j = 0; j < out->n; j++) {
    kernel.apply(&kernel, at, out, j);
    step(&walk);
  }
  return out;
}
