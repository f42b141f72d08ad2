/* Where tensors of the workspace lie: those whose lifetimes do not meet share memory.
 *
 * A tensor lives from the first launch that is given it to the last. Two may share memory if every launch of the one
 * ends before any launch of the other begins, on one stream or on several: if it stands before it in the order that
 * the launches' dependencies make. (A launch that starts early waits before it touches memory, and a kernel that has
 * ended tells that all before it have: ir/passes/overlap_launches.c.) What a launch of a repeat is given lives as long as all
 * launches of the repeat run. Tensors that must be zero between launches
 * share with none.
 *
 * Sizes depend on symbols, so places do. Two steps: numbers for sizes that are likely (packing greedily, the largest
 * first, each into the smallest gap between those it meets: Pisarchyk and Lee, "Efficient Memory Management for Deep
 * Neural Net Inference", 2020) tell which of two that meet lies below the other; then every tensor begins where the
 * highest of those below it ends, whatever the symbols are. So no sizes make two that meet overlap, and the likely
 * ones need no more than the numbers did. Where that would take many sums of sizes to say, some are replaced by one that is
 * nowhere below them. */
#include "plan/launch_set.h"
#include "plan/private.h"
#include "plan/range_index.h"
#include <limits.h>

#define WORKSPACE_ALIGN 256
#define LIKELY_EXTENT   4096 /* of a dimension that may be larger */
#define MOST_SUMS       6    /* in a place */

/* The largest of some sums of sizes. A place is kept so, never as a maximum of a maximum, and of few sums: what an expression takes
 * does not grow with the number of blocks. */
typedef struct {
  const Symbolic *of[MOST_SUMS + 1];
  unsigned n;
} Sums;

typedef struct {
  PlanTensor *tensor;
  const Symbolic *bytes; /* rounded up to WORKSPACE_ALIGN */
  int64_t size, at;      /* in numbers */
  GArray *users;         /* unsigned: launches that are given it; few, however many there are */
  unsigned first, last;  /* of these */
  LaunchSet before;      /* launches that end before each of its users begins */
  bool alone;            /* meets all */
  Sums begin;
} Block;

typedef struct {
  Plan *plan;
  LaunchSet *ancestors; /* of each launch */
  Block *blocks;
  unsigned n;
  SymbolicFacts facts;
} Placing;

/* ---- Sizes ---- */

/* Elements lie side by side, in whatever order of dimensions. */
static bool is_dense(Plan *plan, const PlanTensor *tensor)
{
  const Symbolic *stride = symbolic_constant(plan->arena, 1);
  unsigned taken = 0, all = (1u << tensor->rank) - 1;
  while (taken != all) {
    unsigned next = tensor->rank;
    for (unsigned i = tensor->rank; i-- > 0;)
      if (!(taken >> i & 1) &&
          (symbolic_equals(tensor->shape[i], 1) || symbolic_same(tensor->strides[i], stride))) {
        next = i;
        break;
      }
    if (next == tensor->rank) return false;
    taken |= 1u << next;
    stride = symbolic_mul(plan->arena, stride, tensor->shape[next]);
  }
  return true;
}

/* From a tensor's first element to behind its last one. */
static const Symbolic *span_bytes(Plan *plan, const PlanTensor *tensor)
{
  Arena *arena = plan->arena;
  const Symbolic *size = symbolic_constant(arena, (int64_t)number_bytes_of(tensor->type, 1)), *span = size;
  if (is_dense(plan, tensor) && !number_is_packed(tensor->type)) {
    for (unsigned i = 0; i < tensor->rank; i++)
      span = symbolic_mul(arena, span, tensor->shape[i]);
    return span;
  }
  span = symbolic_constant(arena, 1);
  for (unsigned i = 0; i < tensor->rank; i++) {
    const Symbolic *steps = symbolic_sub(arena, tensor->shape[i], symbolic_constant(arena, 1));
    span = symbolic_add(arena, span, symbolic_mul(arena, steps, tensor->strides[i]));
  }
  /* an extent of 0 leaves nothing */
  return symbolic_mul(arena, size, symbolic_binary(arena, SYMBOLIC_MAX, span, symbolic_constant(arena, 0)));
}

static int64_t likely_value(const PlanSymbol *symbol)
{
  int64_t value = MIN(symbol->max, MAX(symbol->min, LIKELY_EXTENT));
  return MAX(symbol->min, value - value % symbol->multiple);
}

/* Of sizes beyond numbers nothing is known but that they are large. */
static int64_t likely_size(const Plan *plan, const Symbolic *bytes)
{
  g_autofree int64_t *symbols = g_new0(int64_t, plan->n_symbols + 1);
  for (unsigned i = 0; i < plan->n_symbols; i++)
    symbols[i] = likely_value(&plan->symbols[i]);
  const PlanBindings bindings = {symbols, NULL};
  int64_t value;
  return plan_evaluate(plan, bytes, &bindings, &value, NULL) ? CLAMP(value, 0, INT64_MAX >> 16)
                                                             : INT64_MAX >> 16;
}

/* ---- Lifetimes ---- */

/* Does every launch of the one end before any of the other begins? */
static bool stands_before(const Block *a, const Block *b)
{
  if (a->last < b->before.full) return true;
  if (a->last >= b->first) return false; /* who ends before a launch was queued before it */
  for (unsigned i = 0; i < a->users->len; i++)
    if (!launch_set_has(&b->before, g_array_index(a->users, unsigned, i))) return false;
  return true;
}

static void find_ancestors(Placing *p)
{
  const Plan *plan = p->plan;
  p->ancestors = g_new0(LaunchSet, plan->n_launches + 1);
  for (unsigned i = 0; i < plan->n_launches; i++)
    for (unsigned d = 0; d < plan->launches[i]->n_depends; d++) {
      unsigned on = plan->launches[i]->depends_on[d].launch;
      launch_set_unite(&p->ancestors[i], &p->ancestors[on]);
      launch_set_add(&p->ancestors[i], on);
    }
}

/* Launches that may run between two times that the launch does: all of its repeat. */
static void note_times(const Placing *p, Block *block, const PlanLaunch *launch)
{
  const PlanRepeat *repeat = plan_repeat_of(p->plan, launch->index);
  unsigned first = repeat ? repeat->first : launch->index, n = repeat ? repeat->n : 1;
  unsigned len = block->users->len;
  if (len && g_array_index(block->users, unsigned, len - 1) == first + n - 1)
    return; /* another variant's argument */
  for (unsigned i = first; i < first + n; i++) {
    g_array_append_val(block->users, i);
    launch_set_intersect(&block->before, &p->ancestors[i]);
    block->first = MIN(block->first, i);
    block->last = MAX(block->last, i);
  }
}

/* The launch begins: what ends before one of a block's users only cannot be counted on. */
static void note_user(const Placing *p, const unsigned *block_of, const PlanLaunch *launch)
{
  for (unsigned v = 0; v < launch->n_variants; v++)
    for (unsigned i = 0; i < launch->variants[v]->n_arguments; i++) {
      const PlanTensor *tensor = launch->variants[v]->arguments[i].tensor;
      if (!tensor || tensor->kind != PLAN_WORKSPACE) continue;
      Block *block = &p->blocks[block_of[tensor->index]];
      note_times(p, block, launch);
      block->alone = tensor->zero;
    }
}

/* May both hold something at one time? */
static bool meet(const Block *a, const Block *b)
{
  return a->alone || b->alone || (!stands_before(a, b) && !stands_before(b, a));
}

/* Blocks of which those that meet one are found without looking at all: they may still be running while the other's launches are,
 * which is a range of launches for each. */
typedef struct {
  RangeIndex ranges;
  GArray *alone; /* unsigned: who meets all */
  unsigned n;    /* 0 .. n - 1 of the blocks are in it */
} Meetings;

static void open_meetings(const Placing *p, Meetings *meetings)
{
  range_index_open(&meetings->ranges, p->plan->n_launches);
  meetings->alone = g_array_new(FALSE, FALSE, sizeof(unsigned));
  meetings->n = 0;
}

static void close_meetings(Meetings *meetings)
{
  range_index_close(&meetings->ranges);
  g_array_unref(meetings->alone);
}

/* The next block. */
static void add_meetings(const Placing *p, Meetings *meetings)
{
  const Block *block = &p->blocks[meetings->n];
  if (block->alone)
    g_array_append_val(meetings->alone, meetings->n);
  else
    range_index_add(&meetings->ranges, block->before.full, block->last, meetings->n);
  meetings->n++;
}

/* Those that meet the block; g_array_unref. */
static GArray *find_meetings(const Placing *p, const Meetings *meetings, const Block *block)
{
  GArray *found = g_array_new(FALSE, FALSE, sizeof(unsigned));
  if (block->alone) {
    for (unsigned i = 0; i < meetings->n; i++)
      g_array_append_val(found, i);
    return found;
  }
  range_index_find(&meetings->ranges, block->before.full, block->last, found);
  g_array_append_vals(found, meetings->alone->data, meetings->alone->len);
  unsigned kept = 0;
  for (unsigned i = 0; i < found->len; i++) {
    unsigned other = g_array_index(found, unsigned, i);
    if (meet(block, &p->blocks[other])) g_array_index(found, unsigned, kept++) = other;
  }
  g_array_set_size(found, kept);
  return found;
}

/* ---- Numbers ---- */

static int by_size(const void *a, const void *b)
{
  const Block *x = a, *y = b;
  if (x->size != y->size) return x->size < y->size ? 1 : -1;
  return x->tensor->index < y->tensor->index ? -1 : 1;
}

static int by_place(const void *a, const void *b)
{
  const Block *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->tensor->index < y->tensor->index ? -1 : 1;
}

static int by_place_of(const void *a, const void *b, void *data)
{
  const Placing *p = data;
  return by_place(&p->blocks[*(const unsigned *)a], &p->blocks[*(const unsigned *)b]);
}

/* The smallest gap between those that the block meets, by place. */
static int64_t find_gap(Placing *p, const Meetings *placed, const Block *block)
{
  int64_t end = 0, best = -1, least = INT64_MAX;
  g_autoptr(GArray) met = find_meetings(p, placed, block);
  g_array_sort_with_data(met, by_place_of, p);
  for (unsigned i = 0; i < met->len; i++) {
    const Block *other = &p->blocks[g_array_index(met, unsigned, i)];
    int64_t gap = other->at - end;
    if (gap >= block->size && gap < least) {
      least = gap;
      best = end;
    }
    end = MAX(end, other->at + other->size);
  }
  return best >= 0 ? best : end;
}

static void place_numbers(Placing *p)
{
  Meetings placed;
  open_meetings(p, &placed);
  qsort(p->blocks, p->n, sizeof *p->blocks, by_size);
  for (unsigned i = 0; i < p->n; i++) {
    p->blocks[i].at = find_gap(p, &placed, &p->blocks[i]);
    add_meetings(p, &placed);
  }
  close_meetings(&placed);
  qsort(p->blocks, p->n, sizeof *p->blocks, by_place);
}

/* ---- Expressions ---- */

static bool is_above(const Placing *p, const Symbolic *a, const Symbolic *b)
{
  int64_t least, most;
  symbolic_range(symbolic_sub(p->plan->arena, a, b), &p->facts, &least, &most);
  return least >= 0;
}

static void drop_sum(Sums *sums, unsigned i)
{
  sums->of[i] = sums->of[--sums->n];
}

static bool may_be_negative(const Symbolic *factor, void *data)
{
  int64_t least, most;
  symbolic_range(factor, data, &least, &most);
  return least < 0;
}

/* Replaces two by one that is nowhere below them: the two of which that costs least where sizes are likely. Neither is negative, so
 * their own sum would do. */
static void merge_sums(Placing *p, Sums *sums)
{
  unsigned from[2] = {0, 1};
  const Symbolic *best = NULL;
  for (unsigned i = 0; i < sums->n; i++)
    for (unsigned j = i + 1; j < sums->n; j++) {
      const Symbolic *above =
          symbolic_above(p->plan->arena, sums->of[i], sums->of[j], may_be_negative, &p->facts);
      if (!above || (best && likely_size(p->plan, above) >= likely_size(p->plan, best))) continue;
      best = above;
      from[0] = i;
      from[1] = j;
    }
  if (!best) best = symbolic_add(p->plan->arena, sums->of[0], sums->of[1]);
  drop_sum(sums, from[1]);
  drop_sum(sums, from[0]);
  sums->of[sums->n++] = best;
}

/* Only sums that may be the largest stay. */
static void add_sum(Placing *p, Sums *sums, const Symbolic *sum)
{
  for (unsigned i = 0; i < sums->n; i++)
    if (is_above(p, sums->of[i], sum)) return;
  for (unsigned i = sums->n; i-- > 0;)
    if (is_above(p, sum, sums->of[i])) drop_sum(sums, i);
  sums->of[sums->n++] = sum;
  if (sums->n > MOST_SUMS) merge_sums(p, sums);
}

/* The largest, in one order however they were found. */
static const Symbolic *largest(const Placing *p, const Sums *sums)
{
  const Symbolic *end = sums->of[0];
  for (unsigned i = 1; i < sums->n; i++)
    end = symbolic_binary(p->plan->arena, SYMBOLIC_MAX, end, sums->of[i]);
  return end;
}

static int from_above(const void *a, const void *b)
{
  unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

static void add_end(Placing *p, Sums *end, const Block *below)
{
  for (unsigned i = 0; i < below->begin.n; i++)
    add_sum(p, end, symbolic_add(p->plan->arena, below->begin.of[i], below->bytes));
}

static Sums no_sums(const Placing *p)
{
  return (Sums){{symbolic_constant(p->plan->arena, 0)}, 1};
}

/* Where the highest of the blocks below ends that the block meets. One that meets another between itself and the block ends below that
 * one's end. */
static Sums end_below(Placing *p, const Meetings *placed, const Block *block)
{
  Sums end = no_sums(p);
  g_autoptr(GPtrArray) counted = g_ptr_array_new();
  g_autoptr(GArray) met = find_meetings(p, placed, block);
  g_array_sort(met, from_above);
  for (unsigned i = 0; i < met->len; i++) {
    Block *below = &p->blocks[g_array_index(met, unsigned, i)];
    bool covered = false;
    for (unsigned j = 0; j < counted->len && !covered; j++)
      covered = meet(counted->pdata[j], below);
    if (covered) continue;
    g_ptr_array_add(counted, below);
    add_end(p, &end, below);
  }
  return end;
}

/* Where the highest of all ends. */
static Sums end_of_all(Placing *p, const Meetings *placed)
{
  Sums end = no_sums(p);
  g_autofree bool *counted = g_new0(bool, p->n + 1);
  for (unsigned i = p->n; i-- > 0;) {
    g_autoptr(GArray) met = find_meetings(p, placed, &p->blocks[i]);
    bool covered = false;
    for (unsigned j = 0; j < met->len && !covered; j++)
      covered = counted[g_array_index(met, unsigned, j)];
    counted[i] = !covered;
    if (!covered) add_end(p, &end, &p->blocks[i]);
  }
  return end;
}

/* Blocks are sorted by place: who lies below comes before. */
static void place_expressions(Placing *p)
{
  Meetings placed;
  open_meetings(p, &placed);
  for (unsigned i = 0; i < p->n; i++) {
    Block *block = &p->blocks[i];
    block->begin = end_below(p, &placed, block);
    block->tensor->offset = largest(p, &block->begin);
    block->tensor->align = MAX(block->tensor->align, WORKSPACE_ALIGN);
    add_meetings(p, &placed);
  }
  const Sums end = end_of_all(p, &placed);
  close_meetings(&placed);
  p->plan->workspace_bytes = largest(p, &end);
}

/* A tensor that no launch is given meets all: nothing is known of it. */
static void open_blocks(Placing *p)
{
  Plan *plan = p->plan;
  Arena *arena = plan->arena;
  const Symbolic *align = symbolic_constant(arena, WORKSPACE_ALIGN);
  g_autofree unsigned *block_of = g_new0(unsigned, plan->n_tensors + 1);
  for (unsigned i = 0; i < plan->n_tensors; i++) {
    PlanTensor *tensor = plan->tensors[i];
    if (tensor->kind != PLAN_WORKSPACE) continue;
    block_of[i] = p->n;
    Block *block = &p->blocks[p->n++];
    *block = (Block){.tensor = tensor,
                     .alone = true,
                     .users = g_array_new(FALSE, FALSE, sizeof(unsigned)),
                     .first = UINT_MAX,
                     .before = {.full = plan->n_launches}};
    block->bytes = symbolic_mul(arena, align, symbolic_ceil_div(arena, span_bytes(plan, tensor), align));
    block->size = likely_size(plan, block->bytes);
  }
  for (unsigned i = 0; i < plan->n_launches; i++)
    note_user(p, block_of, plan->launches[i]);
}

void plan_place_workspace(Plan *plan)
{
  g_autofree SymbolicFact *facts = g_new0(SymbolicFact, plan->n_symbols + 1);
  for (unsigned i = 0; i < plan->n_symbols; i++) {
    const PlanSymbol *symbol = &plan->symbols[i];
    facts[i] = (SymbolicFact){symbol->name, false, symbol->min, symbol->max, symbol->multiple};
  }
  g_autofree Block *blocks = g_new0(Block, plan->n_tensors + 1);
  Placing p = {.plan = plan, .blocks = blocks, .facts = {facts, plan->n_symbols}};
  find_ancestors(&p);
  open_blocks(&p);
  place_numbers(&p);
  place_expressions(&p);
  for (unsigned i = 0; i < plan->n_launches; i++)
    launch_set_clear(&p.ancestors[i]);
  g_free(p.ancestors);
  for (unsigned i = 0; i < p.n; i++) {
    g_array_unref(blocks[i].users);
    launch_set_clear(&blocks[i].before);
  }
}
