/* clear: whole rows of a slot become 0, so where a swizzle puts the bytes of a row makes no difference. The threads of the role, of all
 * instances, store vectors side by side, panel by panel; what they have stored is seen by the engine and by products behind the barrier. */
#include "ir/facts.h"
#include "ir/lower/lower.h"
#include "ir/mechanism.h"

enum { VECTOR = 16, WORDS = 4 };

typedef struct {
  LowerShared shared;
  unsigned rows, row_bytes, panels; /* a row's bytes side by side, and so many runs of them */
  int64_t panel_bytes;              /* from one to the next */
} Rows;

static int64_t offset_of(const LowerShared *shared, unsigned row, unsigned column)
{
  unsigned at[LAYOUT_MAX_DIMS] = {row, column};
  return lower_shared_linear(shared, at);
}

static bool read_rows(Lower *lower, const IrOp *op, Rows *rows)
{
  *rows = (Rows){0};
  if (!lower_shared_operand(lower, op->operands[0], &rows->shared)) return false;
  const LowerShared *shared = &rows->shared;
  unsigned columns = shared->extent[1];
  int64_t start = offset_of(shared, 0, 0);
  if (number_is_packed(shared->element) || lower_shared_inner(shared) != 1) return false;
  rows->rows = shared->extent[0];
  rows->row_bytes = (unsigned)(rows->rows > 1 ? offset_of(shared, 1, 0) - start
                                              : (int64_t)number_bytes_of(shared->element, columns));
  unsigned across = MIN(columns, number_elements(shared->element, rows->row_bytes));
  rows->panels = (columns + across - 1) / across;
  rows->panel_bytes = rows->panels > 1 ? offset_of(shared, 0, across) - start : 0;
  bool even = rows->row_bytes % VECTOR == 0 && (start + shared->offset) % VECTOR == 0 &&
              offset_of(shared, rows->rows - 1, columns - 1) - start ==
                  (rows->panels - 1) * rows->panel_bytes + (int64_t)(rows->rows - 1) * rows->row_bytes +
                      (int64_t)number_bytes_of(shared->element, (columns - 1) % across);
  return even;
}

static void store_zeros(Lower *lower, const Rows *rows, IrExpr *first)
{
  unsigned each = rows->row_bytes / VECTOR, all = rows->rows * each,
           threads = lower->role->warps * WARP_LANES;
  IrExpr *begin = lower_mul(lower, NUMBER_S32, first, lower_int(lower, each)), *thread = lower->role->thread;
  if (lower->role->instances > 1) {
    IrExpr *size = lower_int(lower, (int64_t)lower->role->instance_warps * WARP_LANES);
    thread = lower_add(lower, NUMBER_S32, thread, lower_mul(lower, NUMBER_S32, lower->role->instance, size));
  }
  IrExpr *zero = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_B32), "zero", 1, lower_int(lower, 0));
  IrExpr *base = lower_add(lower, NUMBER_U32, rows->shared.base,
                           lower_mul(lower, NUMBER_S32, thread, lower_int(lower, VECTOR)));
  for (unsigned from = 0; from < all; from += threads) {
    IrExpr *vector = lower_add(lower, NUMBER_S32, thread, lower_int(lower, from));
    IrExpr *mine = lower_compare(lower, OP_GE, vector, begin);
    if (from + threads > all) /* behind the last one nothing is stored */
      mine = lower_and(lower, mine, lower_compare(lower, OP_LT, vector, lower_int(lower, all)));
    for (unsigned panel = 0; panel < rows->panels; panel++) {
      int64_t offset = rows->shared.offset + offset_of(&rows->shared, 0, 0) + panel * rows->panel_bytes +
                       (int64_t)from * VECTOR;
      IrExpr *operands[1 + WORDS] = {lower_address(lower, (LowerAddress){base, offset}), zero, zero, zero,
                                     zero};
      lower_when(lower_emit_array(lower, OP_STORE_SHARED, 1 + WORDS, operands), mine);
    }
  }
}

/* Does the engine fill slots of the kernel, or do products read them past the threads? */
static void find_engine(IrOp *op, void *data)
{
  *(bool *)data |= ir_is_grouped_product(op) || (op->code == OP_COPY && ir_is_engine_copy(op));
}

void lower_clear_rows(Lower *lower, const IrOp *op)
{
  Rows rows;
  bool engine = false;
  if (!read_rows(lower, op, &rows)) {
    lower_fail(lower, ERROR_UNSUPPORTED, "clear", "rows that lie side by side, in multiples of 16 bytes",
               "rows of '%s' cannot be cleared whole", ir_expr_text(lower->module, op->operands[0]));
    return;
  }
  IrExpr *there = ir_binary(lower->module, OPERATOR_LT, op->operands[1], ir_int(lower->module, rows.rows));
  IrExpr *some = lower_condition(lower, ir_binary(lower->module, OPERATOR_LAND, there, op->operands[2]));
  int64_t known;
  if (lower_is_int(some, &known) && !known) return;
  IrOp *branch = lower_emit(lower, OP_IF, 1, some);
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  ir_region_visit(lower->kernel->body, find_engine, &engine);
  store_zeros(lower, &rows, lower_s32(lower, op->operands[1]));
  if (engine) lower_emit(lower, OP_FENCE, 1, ir_name(lower->module, "async_shared"));
  lower_block_barrier(lower, op);
  lower_scope_close(lower);
}
