/* Rewrite read_narrow: values of 16-bit floats are computed with in f32, so who reads a Cast of them to f32 may read them
 * as they are. What several nodes read stays one tensor, of half the bytes, and a Cast that nobody reads any more goes.
 *
 *   w = Cast(x, f32)   s = Mul(w, w)   y = Div(w, n)        becomes        s = Mul(x, x)   y = Div(x, n) */
#include "generator/fusion/private.h"

static bool is_widening(const GraphNode *node)
{
  if (node->op->id != ONNX_Cast || node->outputs[0]->type != NUMBER_F32) return false;
  NumberType from = node->inputs[0]->type;
  return number_class(from) == NUMBER_FLOAT && number_bits(from) < number_bits(NUMBER_F32) &&
         !number_is_small_float(from);
}

/* Its arithmetic is in f32 whichever of the two it reads. */
static bool may_read(const GraphNode *node)
{
  bool steps = node->op->class_ == OPERATOR_ELEMENTWISE && node->op->shape_rule != SHAPE_RULE_QUANTIZE;
  return steps || node->op->class_ == OPERATOR_ROW;
}

/* Nobody needs the Cast any more if all its readers, which come later, go past it. */
static bool is_needed(Fuser *fuser, const GraphTensor *wide)
{
  const GPtrArray *readers = fuser_later_readers(fuser, wide);
  for (unsigned i = 0; readers && i < readers->len; i++)
    if (!may_read(readers->pdata[i])) return true;
  return wide->is_output;
}

void fusion_read_narrow(Fuser *fuser)
{
  const GPtrArray *live = fuser->live;
  for (unsigned i = 0; i < live->len; i++) {
    const GraphNode *cast = live->pdata[i];
    if (!is_widening(cast) || is_needed(fuser, cast->outputs[0])) continue;
    fuser_replace_input(fuser, cast->outputs[0], cast->inputs[0]);
    fuser_note(fuser, "who reads `%s` reads `%s`, of which it has the values", cast->outputs[0]->name,
               cast->inputs[0]->name);
  }
  fuser_forget_readers(fuser);
}
