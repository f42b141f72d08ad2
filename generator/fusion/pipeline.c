/* The list of rewrites and the one door that runs every rewrite.
 *
 *   NODES   merge_equal  open_rows  slice_gathers  expand_zero_points  split_wide  take_scales  sum_products  stack_products  repeat_constants
 *           read_functions  read_forms  read_rotation  read_narrow  part_rows  halve_rows  group_heads  part_products  make_views
 *   READS   drop_unread  fuse_attention  space_rows  copy_operands  align_operands
 *   PLACED  open_attention  join_producers  open_group  take_prologue  close_branches
 *   GROUPS  break_circles  pair_products  reduce_products  join_rows  sum_rows  join_siblings  stack_programs  join_copies  read_through
 *           join_appends  join_facts  divide_programs  walk_times
 *
 * A new rewrite is a file that opens with what it does, and a row here. */
#include "generator/fusion/private.h"
#include <string.h>

#define MAX_STEPS_DEFAULT 64
/* Operations an element: a thread has 8 to 16 elements, hence some thousand instructions, which the assembler needs a
 * tenth of a second for. A pass over memory costs an element as much as some 50 operations; what a kernel of so
 * many gains by taking in another one's is lost in the noise. */
#define MAX_WORK 512
/* Tensors that are read or written: a thread holds 8 registers of each at once, of 255. */
#define MAX_TENSORS 24

/* In this order. Name, stage before, stage after, may be skipped, what runs or visits, what it does. */
static const FusionRewrite rewrites[] = {
    {"merge_equal", FUSION_NODES, FUSION_NODES, true, fusion_merge_equal, NULL,
     "nodes that compute the same of the same tensors are one"},
    {"open_rows", FUSION_NODES, FUSION_NODES, true, fusion_open_rows, NULL,
     "a product between Reshapes that merge rows and part them again has all of their dimensions"},
    {"slice_gathers", FUSION_NODES, FUSION_NODES, true, fusion_slice_gathers, NULL,
     "what is gathered by indices that are known and evenly spaced is read where it lies"},
    {"late_gathers", FUSION_NODES, FUSION_NODES, true, fusion_late_gathers, NULL,
     "what is computed of tokens' rows that Permute spreads is computed before they are, where that leaves "
     "less"},
    {"expand_zero_points", FUSION_NODES, FUSION_NODES, false, fusion_expand_zero_points, NULL,
     "products of integers with zero points become a product, sums and steps"},
    {"split_wide", FUSION_NODES, FUSION_NODES, false, fusion_split_wide, NULL,
     "operators of more tensors than a thread has registers for become several"},
    {"take_scales", FUSION_NODES, FUSION_NODES, true, fusion_take_scales, NULL,
     "products of dequantised operands take what was quantised, and scale the result"},
    {"sum_products", FUSION_NODES, FUSION_NODES, true, fusion_sum_products, NULL,
     "a sum over a product's batches is the product's own"},
    {"stack_products", FUSION_NODES, FUSION_NODES, true, fusion_stack_products, NULL,
     "products of one tensor with several constants become one with the constants side by side"},
    {"repeat_constants", FUSION_NODES, FUSION_NODES, true, fusion_repeat_constants, NULL,
     "what is computed of constants alone and repeats is computed by who reads it"},
    {"read_functions", FUSION_NODES, FUSION_NODES, true, fusion_read_functions, NULL,
     "squares, cubes and Gelu as exporters write them are functions of few operations"},
    {"read_forms", FUSION_NODES, FUSION_NODES, true, fusion_read_forms, NULL,
     "softmax, scales and masks of attention in the forms that exporters write are its own"},
    {"read_rotation", FUSION_NODES, FUSION_NODES, true, fusion_read_rotation, NULL,
     "halves of heads that are turned by their positions are read once"},
    {"read_narrow", FUSION_NODES, FUSION_NODES, true, fusion_read_narrow, NULL,
     "who reads 16-bit floats widened to f32 reads them as they are"},
    {"part_rows", FUSION_NODES, FUSION_NODES, true, fusion_part_rows, NULL,
     "rows that are then seen in parts are computed in parts"},
    {"halve_rows", FUSION_NODES, FUSION_NODES, true, fusion_halve_rows, NULL,
     "rows whose halves go different ways are computed in halves"},
    {"group_heads", FUSION_NODES, FUSION_NODES, true, fusion_group_heads, NULL,
     "keys and values that repeat for a group of heads are read once for it"},
    {"part_products", FUSION_NODES, FUSION_READS, true, NULL, fusion_part_products,
     "a product whose parts meet again becomes several, with parts of its weights"},
    {"make_views", FUSION_NODES, FUSION_READS, false, NULL, fusion_make_views,
     "operators that only move or repeat elements are read and written where the tensor lies"},
    {"drop_unread", FUSION_READS, FUSION_READS, false, fusion_drop_unread, NULL,
     "what no node reads any more is not computed"},
    {"fuse_attention", FUSION_READS, FUSION_READS, true, fusion_fuse_attention, NULL,
     "products of a softmax of another product's result are one kernel"},
    {"space_rows", FUSION_READS, FUSION_PLACED, false, NULL, fusion_space_rows,
     "operands and results of row operators whose rows are not evenly spaced are copied"},
    {"copy_operands", FUSION_READS, FUSION_PLACED, false, NULL, fusion_copy_operands,
     "operands of products that no kernel reads where they lie are copied"},
    {"align_operands", FUSION_READS, FUSION_PLACED, true, NULL, fusion_align_operands,
     "operands whose rows start anywhere are padded or copied where that pays"},
    {"open_attention", FUSION_PLACED, FUSION_GROUPS, false, NULL, fusion_open_attention,
     "its nodes are in one group"},
    {"join_producers", FUSION_PLACED, FUSION_GROUPS, true, NULL, fusion_join_producers,
     "an elementwise node joins the kernel that computes what it reads"},
    {"open_group", FUSION_PLACED, FUSION_GROUPS, false, NULL, fusion_open_group,
     "a node that joined none has a kernel of its own"},
    {"take_prologue", FUSION_PLACED, FUSION_GROUPS, true, NULL, fusion_take_prologue,
     "a row operator's kernel computes its operand"},
    {"close_branches", FUSION_PLACED, FUSION_GROUPS, true, NULL, fusion_close_branches,
     "what several nodes read stays in the kernel where they meet again"},
    {"break_circles", FUSION_GROUPS, FUSION_GROUPS, false, fusion_break_circles, NULL,
     "kernels that would wait for each other are taken apart"},
    {"pair_products", FUSION_GROUPS, FUSION_GROUPS, true, fusion_pair_products, NULL,
     "products of one operand whose results meet share a kernel"},
    {"reduce_products", FUSION_GROUPS, FUSION_GROUPS, true, fusion_reduce_products, NULL,
     "a product's kernel reduces parts of its result for a row operator"},
    {"join_rows", FUSION_GROUPS, FUSION_GROUPS, true, fusion_join_rows, NULL,
     "operators of the same rows, and what is computed of these, share a kernel"},
    {"sum_rows", FUSION_GROUPS, FUSION_GROUPS, true, fusion_sum_rows, NULL,
     "sums of columns are kept where the rows are computed"},
    {"join_siblings", FUSION_GROUPS, FUSION_GROUPS, true, fusion_join_siblings, NULL,
     "elementwise kernels of one shape that read the same tensors become one"},
    {"stack_programs", FUSION_GROUPS, FUSION_GROUPS, true, fusion_stack_programs, NULL,
     "elementwise kernels that compute the same of parts side by side become one"},
    {"join_copies", FUSION_GROUPS, FUSION_GROUPS, true, fusion_join_copies, NULL,
     "parts of a tensor that are copied go with parts that are computed"},
    {"read_through", FUSION_GROUPS, FUSION_GROUPS, true, fusion_read_through, NULL,
     "rows that are looked up, and what is counted, for one other kernel, that computes itself"},
    {"join_appends", FUSION_GROUPS, FUSION_GROUPS, true, fusion_join_appends, NULL,
     "new rows go into a cache where they are computed"},
    {"join_facts", FUSION_GROUPS, FUSION_GROUPS, true, fusion_join_facts, NULL,
     "small kernels that compute integers of the same lists become one"},
    {"divide_programs", FUSION_GROUPS, FUSION_GROUPS, true, fusion_divide_programs, NULL,
     "a kernel of few blocks becomes several kernels, where these take less together"},
    {"walk_times", FUSION_GROUPS, FUSION_GROUPS, true, fusion_walk_times, NULL,
     "the one kernel of a loop's body does all times of the loop, where its family can"},
};

#define REWRITE_COUNT G_N_ELEMENTS(rewrites)

const FusionRewrite *fusion_rewrites(unsigned *n)
{
  *n = REWRITE_COUNT;
  return rewrites;
}

bool fusion_has_rewrite(const char *name)
{
  bool found = false;
  for (unsigned i = 0; i < REWRITE_COUNT; i++)
    found |= !strcmp(rewrites[i].name, name);
  return found;
}

bool fusion_open_group(Fuser *fuser, unsigned place)
{
  if (!fuser->group_of[place]) fuser_open_group(fuser, fuser->nodes->pdata[place]);
  return false;
}

static bool is_skipped(const Fuser *fuser, const FusionRewrite *rewrite)
{
  const FusionOptions *options = fuser->options;
  if (!rewrite->optional || !options) return rewrite->optional && fuser->alone;
  return fuser->alone || options->none || (options->skip && g_strv_contains(options->skip, rewrite->name));
}

/* ---- node by node ---- */

/* true: another node stands at the place. */
static bool visit(Fuser *fuser, const FusionRewrite *first, unsigned n, unsigned place)
{
  bool replaced = false;
  for (unsigned i = 0; i < n && !replaced; i++) {
    fuser->rewrite = &first[i];
    if (!is_skipped(fuser, &first[i])) replaced = first[i].visit(fuser, place);
  }
  fuser->rewrite = NULL;
  return replaced;
}

static void visit_views(Fuser *fuser, const FusionRewrite *first, unsigned n)
{
  for (unsigned place = 0; place < fuser->live->len;)
    place += !visit(fuser, first, n, place);
  fuser_forget_readers(fuser);
}

/* A node goes to fuser->nodes behind the copies that it needs. */
static void visit_operands(Fuser *fuser, const FusionRewrite *first, unsigned n)
{
  for (unsigned place = 0; place < fuser->live->len; place++) {
    GraphNode *node = fuser->live->pdata[place];
    if (!fuser_is_chained(fuser, node)) visit(fuser, first, n, place);
    node->index = fuser->nodes->len;
    g_ptr_array_add(fuser->nodes, node);
  }
}

static void visit_groups(Fuser *fuser, const FusionRewrite *first, unsigned n)
{
  unsigned all = fuser->nodes->len;
  fuser_index(fuser);
  fuser->group_of = arena_new_array(fuser->arena, Group *, all + 1);
  fuser->joined_by = arena_new_array(fuser->arena, const char *, all + 1);
  fuser->inside = arena_new_array(fuser->arena, bool, all + 1);
  fuser->tainted = arena_new_array(fuser->arena, bool, all + 1);
  for (unsigned place = 0; place < all; place++) {
    const GraphNode *node = fuser->nodes->pdata[place];
    const Group *chain = g_hash_table_lookup(fuser->chains, node);
    bool waits = chain && chain->anchor != node; /* its group opens with its last node */
    if (!fuser->group_of[place] && !waits) visit(fuser, first, n, place); /* else it has joined with others */
  }
}

/* ---- the door ---- */

static void (*const walks[])(Fuser *fuser, const FusionRewrite *first, unsigned n) = {
    [FUSION_NODES] = visit_views, [FUSION_READS] = visit_operands, [FUSION_PLACED] = visit_groups};

/* Rewrites from this one on that visit the same nodes; 1: it runs alone. */
static unsigned count_together(const FusionRewrite *first)
{
  unsigned n = 1;
  while (first->visit && first + n < rewrites + REWRITE_COUNT && first[n].visit &&
         first[n].needs == first->needs)
    n++;
  return n;
}

static void report(const Fuser *fuser, const FusionRewrite *first, unsigned n)
{
  if (!fuser->options || !fuser->options->report) return;
  g_autofree char *text = fuser_dump(fuser, first->gives);
  for (unsigned i = 0; i < n; i++)
    if (!is_skipped(fuser, &first[i]))
      fuser->options->report((unsigned)(first - rewrites) + i, text, fuser->options->report_data);
}

static void run_rewrites(Fuser *fuser)
{
  FusionStage stage = FUSION_NODES;
  unsigned n;
  for (const FusionRewrite *next = rewrites; next < rewrites + REWRITE_COUNT; next += n) {
    n = count_together(next);
    g_assert(next->needs == stage);
    if (next->visit)
      walks[stage](fuser, next, n);
    else if (!is_skipped(fuser, next)) {
      fuser->rewrite = next;
      next->run(fuser);
      fuser->rewrite = NULL;
    }
    report(fuser, next, n);
    stage = next->gives;
  }
}

static bool check_skips(const FusionOptions *options, GError **error)
{
  for (const char *const *name = options ? options->skip : NULL; name && *name; name++)
    for (unsigned i = 0; i < REWRITE_COUNT; i++)
      if (!strcmp(rewrites[i].name, *name) && !rewrites[i].optional) {
        error_set(error, ERROR_INPUT, NULL, "skip", NULL, "pass %s cannot be skipped: kernels need it",
                  *name);
        return false;
      }
  return true;
}

static void fuser_close(Fuser *fuser)
{
  fuser_unindex(fuser);
  for (unsigned i = 0; i < fuser->groups->len; i++)
    g_ptr_array_unref(((Group *)fuser->groups->pdata[i])->nodes);
  g_hash_table_unref(fuser->chains);
  g_ptr_array_unref(fuser->live);
  g_ptr_array_unref(fuser->nodes);
  g_ptr_array_unref(fuser->tensors);
  g_ptr_array_unref(fuser->groups);
  g_ptr_array_unref(fuser->stacks);
  g_ptr_array_unref(fuser->notes);
}

Fusion *fusion_build(const Graph *graph, const FusionOptions *options, GError **error)
{
  GError *local = NULL;
  if (!check_skips(options, error)) return NULL;
  Fusion *fusion = g_new0(Fusion, 1);
  fusion->arena = arena_new();
  fusion->graph = graph;
  Fuser fuser = {.arena = fusion->arena,
                 .graph = graph,
                 .live = g_ptr_array_new(),
                 .nodes = g_ptr_array_new(),
                 .tensors = g_ptr_array_new(),
                 .groups = g_ptr_array_new(),
                 .stacks = g_ptr_array_new(),
                 .notes = g_ptr_array_new(),
                 .chains = g_hash_table_new(NULL, NULL),
                 .options = options,
                 .max_steps = options && options->max_steps ? options->max_steps : MAX_STEPS_DEFAULT,
                 .max_tensors = MAX_TENSORS,
                 .max_work = MAX_WORK};
  bool ok = fuser_open(&fuser, &local);
  if (ok) run_rewrites(&fuser);
  ok = ok && fuser_finish(&fuser, fusion, &local);
  fusion->walks = fuser.walks;
  fuser_close(&fuser);
  if (ok) return fusion;
  g_propagate_error(error, local);
  fusion_free(fusion);
  return NULL;
}

void fusion_free(Fusion *fusion)
{
  if (!fusion) return;
  arena_free(fusion->arena);
  g_free(fusion);
}
