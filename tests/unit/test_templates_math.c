/* Accuracy of templates/math.ir and math_fast.ir: their text is interpreted with float arithmetic and held
 * against libm in double.
 *
 * Correctly rounded operations are the host's; the hardware's approximations (only the *_fast functions use
 * them) are modelled by libm's float functions, so for those the test checks the formula, not the hardware.
 * The bounds are those of docs/numerics.md. */
#include "ir/ir.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#define LANES 1024

typedef union Cell {
  float f;
  int32_t s;
  uint32_t u;
  int64_t l;
  uint64_t q;
} Cell;

typedef struct Frame {
  const IrModule *module;
  GHashTable *cells; /* IrValue* -> Cell[LANES] */
} Frame;

static void call_function(const IrModule *module, const IrFunction *function, Cell *const *arguments,
                          Cell *const *results);

/* ---- The interpreter ---- */

static Cell *cells_of(Frame *frame, const IrValue *value)
{
  Cell *cells = g_hash_table_lookup(frame->cells, value);
  if (cells == NULL) {
    cells = g_new0(Cell, LANES);
    g_hash_table_insert(frame->cells, (gpointer)value, cells);
  }
  return cells;
}

static NumberType type_of(const IrExpr *expr, NumberType otherwise)
{
  return expr->kind == EXPR_VALUE ? expr->value->type.element : otherwise;
}

/* An operand as lanes; constants are spread, in the given type. */
static const Cell *operand(Frame *frame, const IrExpr *expr, NumberType type, Cell *space)
{
  int64_t integer;
  if (expr->kind == EXPR_VALUE) return cells_of(frame, expr->value);
  Cell cell = {0};
  if (expr->kind == EXPR_FLOAT)
    cell.f = (float)expr->number;
  else if (ir_expr_is_int(expr, &integer) && type == NUMBER_F32)
    cell.f = (float)integer;
  else if (ir_expr_is_int(expr, &integer))
    cell.l = integer;
  else
    fail_msg("an operand that the interpreter does not know");
  if (type != NUMBER_F32 && number_bits(type) == 32) cell.q = cell.u;
  for (unsigned i = 0; i < LANES; i++)
    space[i] = cell;
  return space;
}

/* Of -0 and 0 the smaller is -0, as in PTX. */
static float min_f(float a, float b, bool nan)
{
  if (nan && (isnan(a) || isnan(b))) return NAN;
  if (a == b) return signbit(a) ? a : b;
  return fminf(a, b);
}

static Cell float_op(IrOpcode code, const Cell *x, const Cell *y, const Cell *z, bool nan)
{
  Cell r = {0};
  switch (code) {
  case OP_ADD: r.f = x->f + y->f; break;
  case OP_SUB: r.f = x->f - y->f; break;
  case OP_MUL: r.f = x->f * y->f; break;
  case OP_DIV: r.f = x->f / y->f; break;
  case OP_FMA: r.f = fmaf(x->f, y->f, z->f); break;
  case OP_MIN: r.f = min_f(x->f, y->f, nan); break;
  case OP_MAX: r.f = -min_f(-x->f, -y->f, nan); break;
  case OP_NEG: r.f = -x->f; break;
  case OP_ABS: r.f = fabsf(x->f); break;
  case OP_FLOOR: r.f = floorf(x->f); break;
  case OP_ROUND: r.f = nearbyintf(x->f); break;
  case OP_TRUNC: r.f = truncf(x->f); break;
  case OP_SQRT: r.f = sqrtf(x->f); break;
  case OP_RCP: r.f = 1.0f / x->f; break;
  case OP_EXP2: r.f = exp2f(x->f); break;
  case OP_LOG2: r.f = log2f(x->f); break;
  case OP_SIN: r.f = sinf(x->f); break;
  case OP_COS: r.f = cosf(x->f); break;
  case OP_TANH: r.f = tanhf(x->f); break;
  case OP_LT: r.u = x->f < y->f; break;
  case OP_LE: r.u = x->f <= y->f; break;
  case OP_GT: r.u = x->f > y->f; break;
  case OP_GE: r.u = x->f >= y->f; break;
  case OP_EQ: r.u = x->f == y->f; break;
  case OP_NE: r.u = x->f != y->f; break;
  default: fail_msg("%s of floats", ir_op_info(code)->name);
  }
  return r;
}

/* 32-bit operands are extended as their type says; results are cut by the caller's view of the cell. */
static Cell integer_op(IrOpcode code, NumberType type, const Cell *x, const Cell *y)
{
  bool wide = number_bits(type) == 64, sign = number_class(type) == NUMBER_SIGNED;
  int64_t a = wide   ? x->l
              : sign ? (int64_t)x->s
                     : (int64_t)x->u,
          b = wide   ? y->l
              : sign ? (int64_t)y->s
                     : (int64_t)y->u;
  uint64_t ua = (uint64_t)a, ub = (uint64_t)b, width = number_bits(type);
  Cell r = {0};
  switch (code) {
  case OP_ADD: r.q = ua + ub; break;
  case OP_SUB: r.q = ua - ub; break;
  case OP_MUL: r.q = ua * ub; break;
  case OP_AND: r.q = ua & ub; break;
  case OP_OR: r.q = ua | ub; break;
  case OP_XOR: r.q = ua ^ ub; break;
  case OP_NOT: r.q = type == NUMBER_BOOL ? !ua : ~ua; break;
  case OP_NEG: r.q = 0 - ua; break;
  case OP_MAX: r.q = (sign ? a > b : ua > ub) ? ua : ub; break;
  case OP_SHL: r.q = y->u >= width ? 0 : ua << y->u; break;
  case OP_SHR: r.q = sign ? (uint64_t)(a >> MIN(y->u, 63)) : y->u >= width ? 0 : ua >> y->u; break;
  case OP_LT: r.q = sign ? a < b : ua < ub; break;
  case OP_GE: r.q = sign ? a >= b : ua >= ub; break;
  case OP_EQ: r.q = a == b; break;
  case OP_NE: r.q = a != b; break;
  default: fail_msg("%s of integers", ir_op_info(code)->name);
  }
  return r;
}

static Cell cast_cell(NumberType to, NumberType from, const Cell *x)
{
  Cell r = {0};
  bool sign = number_class(from) == NUMBER_SIGNED;
  int64_t integer = number_bits(from) == 64 ? x->l : sign ? (int64_t)x->s : (int64_t)x->u;
  if (to == NUMBER_F32)
    r.f = sign ? (float)integer : (float)(uint64_t)integer;
  else if (from != NUMBER_F32)
    r.l = integer;
  else
    r.l = isnan(x->f) ? 0 : (int64_t)fmin(fmax(truncf(x->f), INT32_MIN), INT32_MAX); /* the hardware clamps */
  return r;
}

static void run_call(Frame *frame, const IrOp *op)
{
  const IrFunction *callee = ir_function_find(frame->module, op->operands[0]->name);
  Cell *arguments[4], *results[4], space[4][LANES];
  assert_non_null(callee);
  for (unsigned i = 1; i < op->n_operands; i++) {
    NumberType type = callee->parameters[i - 1]->type.element;
    const Cell *cells = operand(frame, op->operands[i], type, space[i - 1]);
    if (cells != space[i - 1]) memcpy(space[i - 1], cells, sizeof space[i - 1]);
    arguments[i - 1] = space[i - 1];
  }
  for (unsigned i = 0; i < op->n_results; i++)
    results[i] = cells_of(frame, op->results[i]);
  call_function(frame->module, callee, arguments, results);
}

static void run_op(Frame *frame, const IrOp *op)
{
  static Cell space[3][LANES];
  const Cell *x[3] = {space[0], space[0], space[0]};
  NumberType to = op->results[0]->type.element, type = to;
  bool selects = op->code == OP_SELECT, nan = ir_attribute(op, ATTR_NAN) != NULL;
  if (op->code == OP_CAST || op->code == OP_BITCAST || (op->code >= OP_LT && op->code <= OP_NE))
    for (unsigned i = 0; i < op->n_operands; i++)
      if (op->operands[i]->kind == EXPR_VALUE) type = type_of(op->operands[i], type);
  for (unsigned i = 0; i < op->n_operands; i++)
    x[i] = operand(frame, op->operands[i], type, space[i]);
  Cell *out = cells_of(frame, op->results[0]);
  for (unsigned k = 0; k < LANES; k++) {
    Cell a = x[0][k], b = x[1][k], c = x[2][k], r;
    if (selects)
      r = a.u ? b : c;
    else if (op->code == OP_CAST)
      r = cast_cell(to, type, &a);
    else if (op->code == OP_BITCAST)
      r = a;
    else
      r = type == NUMBER_F32 ? float_op(op->code, &a, &b, &c, nan) : integer_op(op->code, type, &a, &b);
    out[k] = r;
  }
}

static void call_function(const IrModule *module, const IrFunction *function, Cell *const *arguments,
                          Cell *const *results)
{
  g_autoptr(GHashTable) cells = g_hash_table_new_full(NULL, NULL, NULL, g_free);
  g_autofree Cell *space = g_new(Cell, LANES);
  Frame frame = {module, cells};
  for (unsigned i = 0; i < function->n_parameters; i++)
    memcpy(cells_of(&frame, function->parameters[i]), arguments[i], sizeof(Cell) * LANES);
  for (const IrOp *op = function->body->first; op != NULL; op = op->next) {
    if (op->code == OP_CALL) {
      run_call(&frame, op);
    } else if (op->code == OP_RETURN) {
      for (unsigned i = 0; i < op->n_operands; i++)
        memcpy(results[i], operand(&frame, op->operands[i], NUMBER_F32, space), sizeof(Cell) * LANES);
    } else {
      run_op(&frame, op);
    }
  }
}

/* ---- References ---- */

static double ref_sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

static double ref_silu(double x)
{
  return x * ref_sigmoid(x);
}

static double ref_softplus(double x)
{
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double ref_mish(double x)
{
  return x * tanh(ref_softplus(x));
}

static double ref_normal_below(double x)
{
  return erfc(-x / sqrt(2)) / 2;
}

static double ref_gelu(double x)
{
  return x * ref_normal_below(x);
}

static double ref_gelu_tanh(double x)
{
  return x * ref_sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

typedef struct Case {
  const char *name;
  double (*one)(double);
  double (*two)(double, double);
  double low, high; /* range of the inputs sampled */
  double ulps;      /* bound, in units of the last place of the exact result as f32 */
  double absolute;  /* fast forms: bound on the error, absolute or relative, whichever is larger */
  double relative;  /* forms for few bits: bound on the relative error */
  double floor;     /* and an absolute one, the larger counts */
} Case;

#define LEAST_F32 0x1p-149
#define FLOOR     8e-9 /* an eighth of the distance between subnormal f16 */

static const Case cases[] = {
    {"exp", exp, NULL, -110, 95, 1.1, 0},
    {"exp_negative", exp, NULL, -87, 0, 1.0, 0},
    {"expm1", expm1, NULL, -110, 95, 1.5, 0},
    {"log", log, NULL, 0, 3.4e38, 1.0, 0},
    {"log1p", log1p, NULL, -1, 3.4e38, 1.5, 0},
    {"sin", sin, NULL, -1e5, 1e5, 1.7, 0},
    {"sin", sin, NULL, -3.4e38, 3.4e38, 2.5, 0},
    {"cos", cos, NULL, -1e5, 1e5, 1.7, 0},
    {"cos", cos, NULL, -3.4e38, 3.4e38, 2.5, 0},
    {"tan", tan, NULL, -1e5, 1e5, 3.2, 0},
    {"tan", tan, NULL, -3.4e38, 3.4e38, 4.0, 0},
    {"asin", asin, NULL, -1, 1, 1.9, 0},
    {"acos", acos, NULL, -1, 1, 1.7, 0},
    {"atan", atan, NULL, -3.4e38, 3.4e38, 1.6, 0},
    {"sinh", sinh, NULL, -95, 95, 2.2, 0},
    {"cosh", cosh, NULL, -95, 95, 2.0, 0},
    {"tanh", tanh, NULL, -30, 30, 1.5, 0},
    {"asinh", asinh, NULL, -3.4e38, 3.4e38, 2.5, 0},
    {"acosh", acosh, NULL, 1, 3.4e38, 2.5, 0},
    {"atanh", atanh, NULL, -1, 1, 2.8, 0},
    {"erf", erf, NULL, -6, 6, 1.2, 0},
    {"normal_below", ref_normal_below, NULL, -13, 13, 5.5, 0},
    {"gelu", ref_gelu, NULL, -12.5, 100, 7.0, 0},
    {"gelu_tanh", ref_gelu_tanh, NULL, -8, 100, 64.0, 0},
    {"sigmoid", ref_sigmoid, NULL, -87, 100, 2.2, 0},
    {"silu", ref_silu, NULL, -87, 100, 2.7, 0},
    {"softplus", ref_softplus, NULL, -87, 100, 2.6, 0},
    {"mish", ref_mish, NULL, -80, 100, 3.6, 0},
    {"pow", NULL, pow, 1e-30, 1e30, 3.0, 0},
    {"fmod", NULL, fmod, 1e-10, 1e10, 0.0, 0},
    {"exp_negative_narrow", exp, NULL, -87, 0, 0, 0, 0x1p-15, 0},
    {"exp_negative_brief", exp, NULL, -87, 0, 0, 0, 0x1p-12, 0},
    {"sigmoid_narrow", ref_sigmoid, NULL, -87, 100, 0, 0, 0x1p-14, 0},
    {"sigmoid_brief", ref_sigmoid, NULL, -87, 100, 0, 0, 0x1p-11, 0},
    {"silu_narrow", ref_silu, NULL, -87, 100, 0, 0, 0x1p-14, 0},
    {"silu_brief", ref_silu, NULL, -87, 100, 0, 0, 0x1p-11, 0},
    {"tanh_narrow", tanh, NULL, -30, 30, 0, 0, 0x1p-14, 0},
    {"tanh_brief", tanh, NULL, -30, 30, 0, 0, 0x1p-11, 0},
    {"erf_narrow", erf, NULL, -6, 6, 0, 0, 0x1p-14, 0},
    {"gelu_narrow", ref_gelu, NULL, -100, 100, 0, 0, 0x1.2p-14, FLOOR},
    {"gelu_tanh_narrow", ref_gelu_tanh, NULL, -100, 100, 0, 0, 0x1.2p-14, FLOOR},
    {"exp_fast", exp, NULL, -80, 88, 0, 1e-5},
    {"log_fast", log, NULL, 1e-37, 3e38, 0, 1e-5},
    {"sin_fast", sin, NULL, -100, 100, 0, 1e-5},
    {"cos_fast", cos, NULL, -100, 100, 0, 1e-5},
    {"tanh_fast", tanh, NULL, -30, 30, 0, 1e-6},
    {"sigmoid_fast", ref_sigmoid, NULL, -80, 80, 0, 1e-6},
    {"silu_fast", ref_silu, NULL, -80, 80, 0, 1e-5},
    {"softplus_fast", ref_softplus, NULL, -80, 80, 0, 1e-6},
    {"gelu_tanh_fast", ref_gelu_tanh, NULL, -80, 80, 0, 1e-5},
    {"pow_fast", NULL, pow, 1e-3, 1e3, 0, 1e-4},
};

/* ---- Measuring ---- */

static double ulp_of(double exact)
{
  int exponent;
  frexp(exact, &exponent);
  return ldexp(1, MAX(exponent - 24, -149));
}

/* How far off a result is; infinity if it is of the wrong kind. */
static double error_of(const Case *c, double exact, float got)
{
  if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : INFINITY;
  if (fabs(exact) >= 0x1.ffffffp127)
    return isinf(got) && (got > 0) == (exact > 0) ? 0 : fabsf(got) == 0x1.fffffep127f;
  if (isinf(got)) return fabs(exact) > 0x1.fffffp127 ? 1 : INFINITY;
  if (c->relative > 0)
    return fabs((double)got - exact) / MAX(fabs(exact), MAX(c->floor, LEAST_F32) / c->relative);
  if (c->ulps > 0 || c->absolute == 0) return fabs((double)got - exact) / ulp_of(exact);
  return fabs((double)got - exact) / MAX(fabs(exact), 1);
}

static double bound_of(const Case *c)
{
  return c->absolute > 0 ? c->absolute : c->relative > 0 ? c->relative : c->ulps;
}

static uint64_t next_random(uint64_t *state)
{
  *state += 0x9E3779B97F4A7C15u;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Half of the inputs evenly over the range, half evenly over the exponents. */
static float sample(uint64_t *state, const Case *c)
{
  for (;;) {
    uint64_t bits = next_random(state);
    double even = c->low + (c->high - c->low) * ((double)(bits >> 11) * 0x1p-53);
    uint32_t pattern = (uint32_t)bits;
    float any;
    memcpy(&any, &pattern, sizeof any);
    float x = bits >> 63 ? (float)even : any;
    if (x >= c->low && x <= c->high) return x;
  }
}

static bool measure(const IrModule *module, const Case *c)
{
  const IrFunction *function = ir_function_find(module, c->name);
  static Cell a[LANES], b[LANES], y[LANES];
  Cell *const arguments[] = {a, b}, *const results[] = {y};
  uint64_t state = 12345;
  double worst = 0;
  float worst_a = 0, worst_b = 0, worst_y = 0;
  if (function == NULL) fail_msg("there is no function %s", c->name);
  for (unsigned round = 0; round < 64; round++) {
    for (unsigned i = 0; i < LANES; i++) {
      a[i].q = b[i].q = 0;
      a[i].f = sample(&state, c);
      b[i].f = sample(&state, c);
      if (strcmp(c->name, "pow") == 0)
        b[i].f = (float)(((double)(next_random(&state) >> 11) * 0x1p-52 - 1) * 90 / fabs(log(a[i].f)));
      if (strcmp(c->name, "pow_fast") == 0) b[i].f = fmodf(b[i].f, 4);
    }
    call_function(module, function, arguments, results);
    for (unsigned i = 0; i < LANES; i++) {
      double exact = c->one != NULL ? c->one(a[i].f) : c->two(a[i].f, b[i].f);
      double error = error_of(c, exact, y[i].f);
      if (error <= worst) continue;
      worst = error;
      worst_a = a[i].f, worst_b = b[i].f, worst_y = y[i].f;
    }
  }
  double bound = bound_of(c);
  print_message("%-15s %8.3g of %g %s   at %.9g %.9g -> %.9g\n", c->name, worst, bound,
                c->absolute > 0 || c->relative > 0 ? "" : "ulp", worst_a, worst_b, worst_y);
  return worst <= bound;
}

static IrModule *load_library(const char *name)
{
  g_autoptr(GError) error = NULL;
  const char *root = g_getenv("ADLGEN_SOURCE_ROOT");
  g_autofree char *path = g_build_filename(root != NULL ? root : ".", "templates", name, NULL);
  g_autoptr(Source) source = source_load(path, &error);
  IrModule *module = source != NULL ? ir_read(source, &error) : NULL;
  if (module == NULL) fail_msg("%s", error->message);
  return module;
}

/* Both libraries as one. */
static IrModule *load(void)
{
  IrModule *module = load_library("math.ir");
  g_autoptr(IrModule) narrow = load_library("math_narrow.ir");
  for (unsigned i = 0; i < narrow->n_functions; i++)
    ir_function_copy(module, narrow->functions[i]);
  g_autoptr(IrModule) fast = load_library("math_fast.ir");
  for (unsigned i = 0; i < fast->n_functions; i++)
    ir_function_copy(module, fast->functions[i]);
  return module;
}

static void test_accuracy(void **state)
{
  g_autoptr(IrModule) module = load();
  unsigned wrong = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++)
    wrong += !measure(module, &cases[i]);
  assert_int_equal(wrong, 0);
}

static bool same(double expected, float got)
{
  if (isnan(expected)) return isnan(got);
  return (float)expected == got && !signbit(expected) == !signbit(got);
}

/* Zeros with their signs, infinities, NaN, the ends of the domain. */
static void test_special_values(void **state)
{
  static const float points[] = {0.0f,  -0.0f, INFINITY, -INFINITY, NAN,       1.0f,
                                 -1.0f, 2.0f,  -2.0f,    0x1p-149f, -0x1p-149f};
  g_autoptr(IrModule) module = load();
  static Cell a[LANES], b[LANES], y[LANES];
  Cell *const arguments[] = {a, b}, *const results[] = {y};
  for (unsigned c = 0; c < G_N_ELEMENTS(cases); c++) {
    unsigned n = G_N_ELEMENTS(points), total = cases[c].two != NULL ? n * n : n;
    if (cases[c].absolute > 0) continue; /* approximations */
    for (unsigned i = 0; i < LANES; i++) {
      a[i].f = points[i % total % n];
      b[i].f = points[i % total / n];
    }
    call_function(module, ir_function_find(module, cases[c].name), arguments, results);
    for (unsigned i = 0; i < total; i++) {
      double exact = cases[c].one != NULL ? cases[c].one(a[i].f) : cases[c].two(a[i].f, b[i].f);
      if (cases[c].high == 0 && a[i].f > 0) continue; /* e^x of negative numbers */
      if (isinf(a[i].f) && isnan(exact) && cases[c].relative > 0 && y[i].f == 0) continue; /* the limit */
      bool exactly = isnan(exact) || isinf(exact) || exact == 0 || fabs(exact) == 1;
      if (exactly ? same(exact, y[i].f) : error_of(&cases[c], exact, y[i].f) <= bound_of(&cases[c])) continue;
      fail_msg("%s(%g, %g) = %g, not %g", cases[c].name, a[i].f, b[i].f, y[i].f, exact);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_accuracy), cmocka_unit_test(test_special_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
