/* place_rows: tiles that are as wide as a row get constant extents.
 *
 * needs  TILE, instantiated
 * gives  constant extents in the `tiles` that have a `row`, and neither `row` nor `hold`: rows that stay in registers are as
 *        wide as the widest row, rounded up to whole vectors of its threads; rows that are read in passes become loops over
 *        chunks, one for each phase, the state of its reductions carried along. What lies beyond the row counts as the
 *        identity of what reduces it. Reductions of elements become those of states (ir/reducer.h)
 * breaks nothing; kernels without rows stay as they are, but for reducers that lift
 *
 * A phase ends at the reductions whose results later operations need. Extents need not be powers of two: a row of 5120 bf16
 * is five vectors of eight for each of 128 threads. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/passes/rows.h"
#include "ir/reducer.h"
#include "ir/resources.h"

/* ---- What a row is ---- */

static void find_tiles(IrOp *op, void *data)
{
  if (op->code == OP_TILES && ir_attribute(op, ATTR_ROW)) *(IrOp **)data = op;
}

static void find_lifted(IrOp *op, void *data)
{
  if (op->code == OP_REDUCE && ir_reduction_lifts(op)) *(bool *)data = true;
}

static void note_every(IrOp *op, void *data)
{
  GArray *every = data;
  int64_t n = ir_attribute_int(op, ATTR_EVERY, 1);
  if ((op->code == OP_REDUCE || op->code == OP_SPREAD) && n > 1) g_array_append_val(every, n);
}

/* A loop of its own walks the rows of a block whose sums of columns stay. */
static IrRegion *find_body(const IrOp *tiles)
{
  IrRegion *body = tiles->regions[0];
  unsigned loops = 0;
  for (const IrOp *op = tiles->regions[0]->first; op; op = op->next) {
    if (op->code != OP_FOR) continue;
    body = op->regions[0];
    loops++;
  }
  return loops == 1 ? body : tiles->regions[0];
}

static void open_row(Rows *rows)
{
  rows->body = find_body(rows->tiles);
  const IrDim *dim = rows->row->kind == EXPR_DIM ? ir_dim_find(rows->kernel, rows->row->name) : NULL;
  if (!dim) rows->width = rows->row->integer;
  if (dim && dim->maximum && dim->multiple == dim->maximum)
    rows->width = dim->maximum; /* a row is not empty */
  rows->columns = rows->width ? ir_int(rows->module, rows->width) : ir_dim(rows->module, rows->row->name);
  ir_region_visit(rows->tiles->regions[0], note_every, rows->every);
}

/* ---- How wide tiles are ---- */

typedef struct {
  const Rows *rows;
  bool of_elements; /* some load or store is of a row's elements; others are of one value of each row */
  unsigned vector;
  int64_t height, values; /* rows of a tile; of a tile of such values */
} Accesses;

static void note_access(IrOp *op, void *data)
{
  Accesses *accesses = data;
  const Rows *rows = accesses->rows;
  IrType tile = {0};
  int64_t every, height;
  if (op->code == OP_LOAD) tile = op->results[0]->type;
  if (op->code == OP_STORE) tile = ir_expr_type(rows->kernel, op->operands[1]);
  bool of_elements = rows_part(rows, &tile, &every), of_values = tile.kind == TYPE_TILE && !of_elements;
  if ((!of_elements && !of_values) || every != 1) return;
  if (tile.rank > 1 && ir_expr_is_int(tile.dims[tile.rank - 2], &height)) {
    int64_t *most = of_elements ? &accesses->height : &accesses->values;
    *most = MAX(*most, height);
  }
  if (!of_elements) return;
  accesses->of_elements = true;
  const IrExpr *access = op->operands[0], *base = ir_access_base(access);
  if (base->kind != EXPR_VALUE || base->value->type.kind != TYPE_TENSOR || access->kind != EXPR_INDEX) return;
  int64_t aligned = ir_attribute_int(op, ATTR_ALIGNED, 0);
  if (aligned > 1 && !ir_attribute(op, ATTR_LEAD))
    accesses->vector = MIN(accesses->vector, (unsigned)aligned);
  if (aligned) return;
  const IrType *tensor = &base->value->type;
  bool along = ir_contiguous_dim(tensor) == (int)tensor->rank - 1;
  unsigned widest = MECHANISM_SIZES_MOST;
  accesses->vector =
      MIN(accesses->vector, along ? ir_access_vector(rows->kernel, tensor, access->items + 1, widest) : 1);
}

static int64_t round_up(int64_t x, int64_t unit)
{
  return (x + unit - 1) / unit * unit;
}

static int64_t common_multiple(int64_t a, int64_t b)
{
  int64_t x = a, y = b;
  while (y) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

static Accesses find_accesses(const Rows *rows)
{
  Accesses accesses = {.rows = rows, .vector = MECHANISM_SIZES_MOST, .height = 1, .values = 1};
  ir_region_visit(rows->tiles->regions[0], note_access, &accesses);
  return accesses;
}

static void find_lead(Rows *rows)
{
  Accesses accesses = find_accesses(rows);
  if (accesses.of_elements) rows_find_lead(rows, accesses.vector);
}

/* Columns that the threads of a row hold together, a vector each: lanes of a warp, then warps, as choose_layouts spreads
 * tiles. `wanted`: fewer lanes suffice where rows are short and many. */
static int64_t row_unit(const Rows *rows, int64_t wanted)
{
  Accesses accesses = find_accesses(rows);
  if (!accesses.of_elements) accesses.vector = 1;
  accesses.height = MAX(accesses.height, accesses.values); /* all rows may have the same elements */
  int64_t warps = ir_launch_threads(rows->kernel) / WARP_LANES, vector = accesses.vector, lanes = WARP_LANES;
  while (lanes > 1 && wanted <= lanes / 2 * vector && accesses.height % (2 * WARP_LANES / lanes) == 0)
    lanes /= 2;
  int64_t rows_of_warp = WARP_LANES / lanes, below = CLAMP(accesses.height / rows_of_warp, 1, MAX(warps, 1));
  while (warps % below || accesses.height % (rows_of_warp * below))
    below--;
  int64_t wide = lanes * vector; /* of a warp: blocks that become one are whole there */
  for (unsigned i = 0; i < rows->every->len; i++)
    wide = common_multiple(wide, g_array_index(rows->every, int64_t, i));
  return wide * MAX(warps / below, 1);
}

/* As many whole units as hold so many columns. */
static void choose_extent(Rows *rows, int64_t most, int64_t columns, int64_t blocks)
{
  rows->extent = round_up(columns, row_unit(rows, (most + blocks - 1) / blocks) * blocks);
}

/* ---- Rows in registers ---- */

static void collect(IrOp *op, void *data)
{
  g_ptr_array_add(data, op);
}

/* `blocks`: so many of a cluster share a row. */
static bool place_registers(Rows *rows, int64_t blocks)
{
  int64_t most = rows->width ? rows->width : ir_known_maximum(rows->kernel, rows->row);
  find_lead(rows);
  int64_t columns = rows->begin ? most + rows->lead - 1 : most;
  choose_extent(rows, columns, columns, blocks);
  if (!rows_write_reducers(rows, true)) return false;
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  ir_region_visit(rows->tiles->regions[0], collect, ops);
  bool beyond = rows->begin || rows->extent != rows->width;
  for (unsigned i = 0; i < ops->len && beyond; i++) {
    IrOp *op = ops->pdata[i];
    int64_t every;
    IrType type = op->n_operands ? ir_expr_type(rows->kernel, op->operands[0]) : (IrType){0};
    bool masked = op->code == OP_REDUCE && rows_part(rows, &type, &every);
    if (masked && !rows_mask(rows, op, NULL)) return false;
  }
  g_ptr_array_set_size(ops, 0);
  ir_region_visit(rows->tiles->regions[0], collect, ops);
  rows_set_extents(rows, ops);
  ir_remark(rows->context, "rows of %s%d elements stay in registers, as %d", rows->width ? "" : "at most ",
            (int)most, (int)rows->extent);
  return true;
}

/* ---- Rows that blocks of a cluster share ---- */

static bool place_cluster(Rows *rows)
{
  int64_t blocks = ir_attribute_int(rows->tiles, ATTR_SPLIT_K, 1);
  if (exchanging_blocks(rows->context->gpu) < 2) blocks = 1; /* one block has all of it */
  if (blocks == 1) ir_attribute_remove(rows->tiles, ATTR_SPLIT_K);
  if (rows->every->len && blocks > 1) {
    error_set(rows->error, ERROR_UNSUPPORTED, &rows->tiles->mark, "row", "`hold registers` or `hold passes`",
              "blocks of elements that become one (`every`) in rows that a cluster shares");
    return false;
  }
  if (!place_registers(rows, blocks)) return false;
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  ir_region_visit(rows->tiles->regions[0], collect, ops);
  for (unsigned i = 0; i < ops->len && blocks > 1; i++) {
    IrOp *op = ops->pdata[i];
    if (op->code != OP_REDUCE) continue;
    IrType type = ir_expr_type(rows->kernel, op->operands[0]);
    if (ir_tile_extent(&type, type.rank - 1) == rows->extent)
      ir_attribute_set(op, ATTR_SCOPE, ir_name(rows->module, "cluster"));
  }
  return true;
}

/* ---- Rows that arrive in shared memory ---- */

static bool place_shared(Rows *rows)
{
  int64_t slots = ir_attribute_int(rows->tiles, ATTR_SLOTS, 1);
  ir_attribute_remove(rows->tiles, ATTR_SLOTS);
  if (!place_cluster(rows)) return false;
  rows_share_exchanges(rows);
  return rows_place_ring(rows, slots);
}

/* ---- The pass ---- */

/* Functions that only reducers needed go: their tiles have extents of no kernel. */
static void keep_named(const IrExpr *expr, void *data)
{
  if (expr->kind == EXPR_SYMBOL || expr->kind == EXPR_NAME) g_hash_table_add(data, (gpointer)expr->name);
}

static void find_named(IrOp *op, void *data)
{
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH);
  if (with) ir_expr_visit(with, keep_named, data);
  if (op->code == OP_TILES) keep_named(op->operands[0], data);
}

static void forget_parts(Rows *rows)
{
  IrModule *module = rows->module;
  g_autoptr(GHashTable) named = g_hash_table_new(g_str_hash, g_str_equal);
  ir_region_visit(rows->kernel->body, find_named, named);
  unsigned kept = 0;
  for (unsigned i = 0; i < module->n_functions; i++) {
    IrFunction *function = module->functions[i];
    if (function->is_kernel || g_hash_table_contains(named, function->name))
      module->functions[kept++] = function;
  }
  module->n_functions = kept;
}

static bool place(Rows *rows)
{
  rows->row = ir_attribute_value(rows->tiles, ATTR_ROW);
  open_row(rows);
  if (rows->body != rows->tiles->regions[0]) rows_join_products(rows);
  const IrExpr *hold = ir_attribute_value(rows->tiles, ATTR_HOLD);
  const char *form = hold ? hold->name : "registers";
  bool placed = false, slots = ir_attribute(rows->tiles, ATTR_SLOTS) != NULL; /* in shared memory */
  if (g_str_equal(form, "registers")) {
    placed = place_registers(rows, 1);
  } else if (g_str_equal(form, "cluster")) {
    placed = place_cluster(rows);
  } else if (slots) {
    placed = place_shared(rows);
  } else if (g_str_equal(form, "passes")) {
    find_lead(rows);
    choose_extent(rows, ir_attribute_int(rows->tiles, ATTR_CHUNK, 1), 1, 1); /* a piece */
    placed = rows_place_passes(rows);
  }
  if (placed && !slots) rows_share_exchanges(rows);
  ir_attribute_remove(rows->tiles, ATTR_ROW);
  ir_attribute_remove(rows->tiles, ATTR_HOLD);
  ir_attribute_remove(rows->tiles, ATTR_CHUNK);
  return placed;
}

bool pass_place_rows(IrModule *module, const IrPassContext *context, GError **error)
{
  g_autoptr(GArray) every = g_array_new(false, false, sizeof(int64_t));
  g_autoptr(GHashTable) inside = g_hash_table_new(NULL, NULL);
  Rows rows = {.context = context,
               .module = module,
               .kernel = ir_kernel(module),
               .inside = inside,
               .every = every,
               .error = error};
  if (!rows.kernel) return true;
  bool lifts = false;
  ir_region_visit(rows.kernel->body, find_tiles, &rows.tiles);
  ir_region_visit(rows.kernel->body, find_lifted, &lifts);
  if (rows.tiles ? !place(&rows) : !rows_write_reducers(&rows, false)) return false;
  if (rows.tiles || lifts) forget_parts(&rows);
  return true;
}
