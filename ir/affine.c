#include "ir/affine.h"
#include "ir/facts.h"

static bool add_term(Affine *sum, const IrExpr *unknown, int64_t factor)
{
  for (unsigned i = 0; i < sum->n; i++) {
    if (!ir_expr_equal(sum->terms[i].unknown, unknown)) continue;
    if (__builtin_add_overflow(sum->terms[i].factor, factor, &sum->terms[i].factor)) return false;
    if (!sum->terms[i].factor) sum->terms[i] = sum->terms[--sum->n];
    return true;
  }
  if (!factor) return true;
  if (sum->n == AFFINE_TERMS) return false;
  sum->terms[sum->n].unknown = unknown;
  sum->terms[sum->n++].factor = factor;
  return true;
}

bool affine_add(Affine *sum, const Affine *other, int64_t factor)
{
  int64_t product;
  if (__builtin_mul_overflow(other->constant, factor, &product) ||
      __builtin_add_overflow(sum->constant, product, &sum->constant))
    return false;
  for (unsigned i = 0; i < other->n; i++)
    if (__builtin_mul_overflow(other->terms[i].factor, factor, &product) ||
        !add_term(sum, other->terms[i].unknown, product))
      return false;
  return true;
}

static bool of_binary(const IrExpr *expr, AffineKnown known, void *data, Affine *form)
{
  Affine a, b;
  if (expr->operator_ != OPERATOR_ADD && expr->operator_ != OPERATOR_SUB && expr->operator_ != OPERATOR_MUL)
    return false;
  if (!affine_of(expr->items[0], known, data, &a) || !affine_of(expr->items[1], known, data, &b))
    return false;
  *form = (Affine){0};
  if (expr->operator_ != OPERATOR_MUL)
    return affine_add(form, &a, 1) && affine_add(form, &b, expr->operator_ == OPERATOR_ADD ? 1 : -1);
  if (a.n && b.n) return false;
  return a.n ? affine_add(form, &a, b.constant) : affine_add(form, &b, a.constant);
}

bool affine_of(const IrExpr *expr, AffineKnown known, void *data, Affine *form)
{
  *form = (Affine){0};
  switch (expr->kind) {
  case EXPR_INT: form->constant = expr->integer; return true;
  case EXPR_UNARY: {
    Affine inner;
    return expr->operator_ == OPERATOR_NEG && affine_of(expr->items[0], known, data, &inner) &&
           affine_add(form, &inner, -1);
  }
  case EXPR_BINARY:
    if (of_binary(expr, known, data, form)) return true;
    break;
  case EXPR_VALUE: {
    const IrOp *def = expr->value->variable ? NULL : expr->value->def;
    bool sum = def && def->code == OP_LET && def->operands[0]->kind == EXPR_BINARY;
    if (sum && of_binary(def->operands[0], known, data, form)) return true;
    break;
  }
  default: break;
  }
  *form = (Affine){0};
  return known(expr, data) && add_term(form, expr, 1);
}

int64_t affine_take(Affine *form, const IrValue *value)
{
  for (unsigned i = 0; i < form->n; i++) {
    if (form->terms[i].unknown->kind != EXPR_VALUE || form->terms[i].unknown->value != value) continue;
    int64_t factor = form->terms[i].factor;
    form->terms[i] = form->terms[--form->n];
    return factor;
  }
  return 0;
}

bool affine_is_non_negative(const Affine *form)
{
  for (unsigned i = 0; i < form->n; i++)
    if (form->terms[i].factor < 0 || !ir_is_non_negative(form->terms[i].unknown)) return false;
  return form->constant >= 0;
}

bool affine_is_multiple(const Affine *form, int64_t of)
{
  for (unsigned i = 0; i < form->n; i++)
    if (form->terms[i].factor % of) return false;
  return form->constant % of == 0;
}

IrExpr *affine_expr(IrModule *module, const Affine *form, int64_t divided_by)
{
  IrExpr *sum = NULL;
  for (unsigned i = 0; i < form->n; i++) {
    int64_t factor = form->terms[i].factor / divided_by;
    bool less = sum && factor < 0;
    IrExpr *term = ir_binary(module, OPERATOR_MUL, (IrExpr *)form->terms[i].unknown,
                             ir_int(module, less ? -factor : factor));
    sum = sum ? ir_binary(module, less ? OPERATOR_SUB : OPERATOR_ADD, sum, term) : term;
  }
  int64_t constant = form->constant / divided_by;
  if (!sum) return ir_int(module, constant);
  if (constant < 0) return ir_binary(module, OPERATOR_SUB, sum, ir_int(module, -constant));
  return ir_binary(module, OPERATOR_ADD, sum, ir_int(module, constant));
}
