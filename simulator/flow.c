/* Flat code from functions: calls are inlined where that is possible (with registers of their own per call;
 * call.c has the others), branch targets resolved, and each branch told where its lanes meet again: at the
 * immediate post-dominator. */
#include "simulator/flow.h"
#include "simulator/definedness.h"
#include <string.h>

#define MAX_DEPTH 24
#define MAX_CODE  (4u << 20)

static Step run_branch(Warp *w, const Inst *in, uint32_t mask);
static Step run_exit(Warp *w, const Inst *in, uint32_t mask);

static Step run_trap(Warp *w, const Inst *in, uint32_t mask)
{
  fault(w, in, first_lane(mask), SIM_FAULT_TRAP, 0, "the kernel traps");
  return STEP_STOP;
}

/* Parameters of an inlined call: bytes of the thread's own memory. */
static Step run_copy_local(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    uint8_t *local = w->local + l * w->block->cluster->run->kernel->local_bytes;
    if (in->a[0] != OPERAND_NONE) local += lane_u64(w, in->a[0], l);
    memmove(local + in->more, local + in->immediate, in->target);
  }
  return STEP_NEXT;
}

void decode_branch(Decoder *d, int argument)
{
  take(d, "uni");
  const PtxOperand *o = operand_at(d, 0);
  if (o->kind != OPERAND_SYMBOL || o->symbol->kind != SYMBOL_LABEL) {
    decode_wrong(d, "a label is needed");
    return;
  }
  d->in->run = run_branch;
  d->in->flags = INST_BRANCH;
  d->in->target = d->frame->position[o->symbol->position]; /* moved once the whole function is laid out */
}

enum { EXIT_RETURN, EXIT_EXIT, EXIT_TRAP };

void decode_exit(Decoder *d, int argument)
{
  take(d, "uni");
  d->in->flags = INST_BRANCH;
  d->in->run = argument == EXIT_TRAP ? run_trap : run_exit;
}

static bool meets_at(const Warp *w, const Group *g, uint32_t pc)
{
  return g->join >= 0 && w->joins[g->join].pc == pc && w->joins[g->join].frame == g->frame;
}

/* brx.idx: the index picks one label of a list */
static Step run_branch_table(Warp *w, const Inst *in, uint32_t mask)
{
  Group *g = current_group(w);
  uint32_t own = g->mask & ~mask;
  int join = g->join;
  if (in->reconverge != NO_PC && !meets_at(w, g, in->reconverge))
    join = flow_join(w, in->reconverge, g->mask, join, g->frame);
  Group like = {.join = join, .frame = g->frame};
  unsigned n = 0;
  Group made[LANES];
  for_lanes(l, mask)
  {
    uint32_t index = lane_u32(w, in->a[0], l);
    if (index >= in->n_list) {
      fault(w, in, l, SIM_FAULT_OPERAND, 0, "index %u into a list of %u targets", index, in->n_list);
      return STEP_STOP;
    }
    unsigned k = 0;
    while (k < n && made[k].pc != in->list[index])
      k++;
    if (k == n) {
      made[n] = like;
      made[n++].pc = in->list[index];
    }
    made[k].mask |= 1u << l;
  }
  if (own) {
    g->mask = own;
    g->join = join;
    g->pc++;
  } else {
    *g = made[--n];
  }
  while (n)
    w->groups[w->n_groups++] = made[--n];
  return STEP_GONE;
}

void decode_branch_table(Decoder *d, int argument)
{
  Inst *in = d->in;
  take(d, "uni");
  const PtxOperand *o = operand_at(d, 1);
  if (o->kind != OPERAND_SYMBOL || !o->symbol->n_targets) {
    decode_wrong(d, "the label of a .branchtargets list is needed");
    return;
  }
  in->a[0] = source_at(d, 0, TYPE_U32);
  uint32_t *list = new_list(d, o->symbol->n_targets);
  for (unsigned i = 0; i < o->symbol->n_targets; i++) {
    if (o->symbol->targets[i]->kind != SYMBOL_LABEL)
      decode_wrong(d, "'%s' is no label", o->symbol->targets[i]->name);
    list[i] = o->symbol->targets[i]->position; /* moved once the whole function is laid out */
  }
  in->flags = INST_BRANCH;
  in->run = run_branch_table;
}

static Inst *append(Decoder *d)
{
  g_array_set_size(d->code, d->code->len + 1);
  return &g_array_index(d->code, Inst, d->code->len - 1);
}

Inst *flow_append(Decoder *d, const PtxInstruction *source, Handler run)
{
  Inst *in = append(d);
  *in = (Inst){.source = source, .guard = OPERAND_NONE, .target = NO_PC, .reconverge = NO_PC, .run = run};
  for (unsigned i = 0; i < G_N_ELEMENTS(in->a); i++)
    in->a[i] = OPERAND_NONE;
  in->d[0] = in->d[1] = OPERAND_NONE;
  in->flags = INST_CUSTOM;
  return in;
}

static void inline_function(Decoder *d, Frame *f, unsigned depth);

/* A parameter in a register. */
static Step run_copy_register(Warp *w, const Inst *in, uint32_t mask)
{
  unsigned bytes = (unsigned)in->immediate;
  if (bytes == 1) {
    set_predicate(w, in->d[0], mask, predicate(w, in->a[0]));
  } else {
    for_lanes(l, mask) memcpy((uint8_t *)operand(w, in->d[0]) + (size_t)l * bytes,
                              (const uint8_t *)operand(w, in->a[0]) + (size_t)l * bytes, bytes);
  }
  for (unsigned i = 0; i < MAX(bytes / 4, 1); i++)
    set_undefined(w, in->d[0] + i, mask, undefined_lanes(w, in->a[0]));
  if (undefined_lanes(w, in->a[0]) & mask && bytes > 1 && bytes <= 8)
    for_lanes(l, mask) set_unknown(w, in->d[0], l, bytes, unknown_bits(w, in->a[0], l, bytes));
  return STEP_NEXT;
}

static void copy_register(Decoder *d, const PtxInstruction *call, const PtxOperand *actual, Frame *caller,
                          const PtxSymbol *formal, Frame *callee, bool back)
{
  Inst copy = *flow_append(d, call, run_copy_register);
  uint32_t index = d->code->len - 1;
  d->frame = caller;
  d->in = &copy;
  copy.immediate = formal->type == TYPE_PRED ? 1 : MAX((int)ptx_type_bytes(formal->type), 4);
  copy.a[0] = back ? frame_slot(callee, formal) : source(d, actual, formal->type);
  copy.d[0] = back ? destination(d, actual, formal->type) : frame_slot(callee, formal);
  g_array_index(d->code, Inst, index) = copy;
}

static void copy_parameter(Decoder *d, const PtxInstruction *call, const PtxOperand *actual, Frame *caller,
                           const PtxSymbol *formal, Frame *callee, bool back)
{
  if (formal->kind == SYMBOL_REGISTER) {
    copy_register(d, call, actual, caller, formal, callee, back);
    return;
  }
  if (actual->kind != OPERAND_SYMBOL || actual->symbol->kind != SYMBOL_VARIABLE ||
      actual->symbol->bytes != formal->bytes) {
    decode_wrong(d, "the arguments do not fit '%s'", callee->function->name);
    return;
  }
  Inst *in = flow_append(d, call, run_copy_local);
  uint64_t outer = caller->local + actual->symbol->offset, inner = callee->local + formal->offset;
  in->immediate = (int64_t)(back ? inner : outer);
  in->more = back ? outer : inner;
  in->target = (uint32_t)formal->bytes;
  if (frame_base(caller)) in->a[0] = frame_base(caller);
}

static uint32_t new_slots(Decoder *d, const uint8_t *bytes, unsigned n)
{
  uint32_t first = d->kernel->n_slots;
  d->kernel->n_slots += n;
  g_byte_array_append(d->slot_bytes, bytes, n);
  return first;
}

static Frame *new_frame(Decoder *d, const PtxFunction *function, Frame *caller, Routine *routine)
{
  Kernel *k = d->kernel;
  Frame *f = arena_new_object(k->arena, Frame);
  f->function = function;
  f->caller = caller;
  f->routine = routine;
  f->is_entry = function->is_entry;
  f->first_slot = new_slots(d, function->slot_bytes, function->n_slots);
  f->local = (routine->local_bytes + 15) / 16 * 16;
  routine->local_bytes = f->local + function->local_bytes;
  f->position = arena_new_array(k->arena, uint32_t, function->n_code + 1);
  f->returns = g_ptr_array_new();
  return f;
}

Routine *flow_routine(Decoder *d, const PtxFunction *function)
{
  for (unsigned i = 1; i < d->routines->len; i++) {
    Routine *known = d->routines->pdata[i];
    if (known->function == function) return known;
  }
  static const uint8_t wide[] = {8, 0, 8, 0};
  Routine *r = arena_new_object(d->kernel->arena, Routine);
  r->function = function;
  g_ptr_array_add(d->routines, r);
  r->base = d->routines->len > 1 ? new_slots(d, wide, 2) : 0;
  r->top = new_slots(d, wide, 2);
  return r;
}

static bool too_large(const Decoder *d, unsigned depth)
{
  return depth > MAX_DEPTH || d->code->len > MAX_CODE;
}

static void inline_call(Decoder *d, Frame *f, const PtxInstruction *call, const PtxFunction *function,
                        const PtxOperand *results, const PtxOperand *arguments, unsigned depth)
{
  unsigned n = arguments ? arguments->n : 0, m = results ? results->n : 0;
  if (n != function->n_parameters || m != function->n_results) {
    decode_wrong(d, "the arguments do not fit '%s'", function->name);
    return;
  }
  Frame *inner = new_frame(d, function, f, f->routine);
  for (unsigned p = 0; p < n; p++)
    copy_parameter(d, call, &arguments->items[p], f, function->parameters[p], inner, false);
  inline_function(d, inner, depth + 1);
  d->source = call;
  d->frame = f;
  for (unsigned p = 0; p < m; p++)
    copy_parameter(d, call, &results->items[p], f, function->results[p], inner, true);
}

static void decode_call(Decoder *d, Frame *f, const PtxInstruction *call, unsigned depth)
{
  d->source = call;
  d->failed = false;
  unsigned i = 0;
  const PtxOperand *results = NULL, *arguments = NULL;
  if (i < call->n_operands && call->operands[i].kind == OPERAND_LIST) results = &call->operands[i++];
  const PtxOperand *callee = i < call->n_operands ? &call->operands[i++] : NULL;
  if (i < call->n_operands && call->operands[i].kind == OPERAND_LIST) arguments = &call->operands[i++];
  bool direct = callee && callee->kind == OPERAND_SYMBOL && callee->symbol->kind == SYMBOL_FUNCTION;
  if (!direct && !(callee && callee->kind == OPERAND_REGISTER)) {
    decode_wrong(d, "a function or a register with its address is needed");
    return;
  }
  const PtxFunction *function = direct ? callee->symbol->function : NULL;
  uint32_t skip = NO_PC;
  if (call->guard) {
    skip = d->code->len;
    Inst *in = flow_append(d, call, run_branch);
    in->flags |= INST_BRANCH;
    in->guard = frame_slot(f, call->guard);
    in->guard_negated = !call->guard_negated;
  }
  if (!function || (function->has_body && (call_needs_stack(d, function) || too_large(d, depth))))
    call_decode(d, call, function, results, arguments, callee);
  else if (function->has_body)
    inline_call(d, f, call, function, results, arguments, depth);
  else if (!print_call(d, call, function, results, arguments))
    decode_fail(d, "function '%s' has no body", function->name);
  if (skip != NO_PC) g_array_index(d->code, Inst, skip).target = d->code->len;
}

static void inline_function(Decoder *d, Frame *f, unsigned depth)
{
  const PtxFunction *function = f->function;
  g_autoptr(GArray) branches = g_array_new(FALSE, FALSE, sizeof(uint32_t));
  f->start = d->code->len;
  for (unsigned i = 0; i < function->n_code; i++) {
    const PtxInstruction *source = &function->code[i];
    f->position[i] = d->code->len;
    d->frame = f;
    if (strcmp(source->parts[0], "call") == 0) {
      decode_call(d, f, source, depth);
      continue;
    }
    uint32_t index = d->code->len;
    if (!f->is_entry && strcmp(source->parts[0], "ret") == 0) {
      Inst *in = flow_append(d, source, run_branch);
      in->flags |= INST_BRANCH;
      if (source->guard) in->guard = frame_slot(f, source->guard);
      in->guard_negated = source->guard_negated;
      g_ptr_array_add(f->returns, GUINT_TO_POINTER(index));
      continue;
    }
    append(d);
    Inst in;
    decode_instruction(d, source, &in);
    if (in.run == run_branch) in.target = source->operands[0].symbol->position;
    if (in.run == run_branch || in.run == run_branch_table) g_array_append_val(branches, index);
    g_array_index(d->code, Inst, index) = in;
  }
  f->position[function->n_code] = d->code->len;
  for (unsigned i = 0; i < branches->len; i++) {
    Inst *in = &g_array_index(d->code, Inst, g_array_index(branches, uint32_t, i));
    if (in->run == run_branch) in->target = f->position[in->target];
    for (unsigned k = 0; k < in->n_list && in->run == run_branch_table; k++)
      in->list[k] = f->position[in->list[k]];
  }
  for (unsigned i = 0; i < f->returns->len; i++)
    g_array_index(d->code, Inst, GPOINTER_TO_UINT(f->returns->pdata[i])).target = d->code->len;
  g_ptr_array_free(f->returns, TRUE);
}

void flow_decode(Decoder *d)
{
  static const char *const parts[] = {"ret", NULL};
  static const uint8_t sink[4] = {4, 4, 4, 4};
  new_slots(d, sink, 4); /* slots 0..3 take what goes to the sink operand */
  PtxInstruction *end = arena_new_object(d->kernel->arena, PtxInstruction);
  *end = (PtxInstruction){.mark = d->function->mark, .text = "ret", .n_parts = 1};
  end->parts = (const char **)parts;
  flow_routine(d, d->function);
  for (unsigned i = 0; i < d->routines->len; i++) { /* grows as calls are met */
    Routine *r = d->routines->pdata[i];
    r->start = d->code->len;
    r->first_slot = d->kernel->n_slots;
    r->frame = new_frame(d, r->function, NULL, r);
    inline_function(d, r->frame, 0);
    r->n_slots = d->kernel->n_slots - r->first_slot;
    if (i)
      call_return(d, end);
    else
      flow_append(d, end, run_exit)->flags |= INST_BRANCH;
    r->end = d->code->len;
  }
}

/* --- immediate post-dominators (Cooper, Harvey, Kennedy: a simple, fast dominance algorithm) --- */

typedef struct Node {
  uint32_t first, last;
  const int *next;
  unsigned n_next;
  int order, ipdom; /* order: post-order number of the reversed graph, -1: never reaches the exit */
} Node;

static bool ends_lane(const Inst *in)
{
  return in->run == run_exit || in->run == run_trap || call_is_return(in);
}

static int intersect(const Node *n, int a, int b)
{
  while (a != b) {
    while (n[a].order < n[b].order)
      a = n[a].ipdom;
    while (n[b].order < n[a].order)
      b = n[b].ipdom;
  }
  return a;
}

static unsigned targets_of(const Inst *in, const uint32_t **targets)
{
  *targets = in->run == run_branch_table ? in->list : &in->target;
  return in->run == run_branch_table ? in->n_list : in->run == run_branch;
}

/* edges: room for the successors of all nodes */
static unsigned build_nodes(Kernel *k, Node *nodes, int *node_of, GArray *edges)
{
  g_autofree bool *leader = g_new0(bool, k->n_code + 1);
  const uint32_t *targets;
  leader[0] = true;
  for (uint32_t i = 0; i < k->n_code; i++)
    if (k->code[i].flags & INST_BRANCH) {
      leader[i + 1] = true;
      unsigned n = targets_of(&k->code[i], &targets);
      for (unsigned t = 0; t < n; t++)
        leader[targets[t]] = true;
    }
  unsigned n = 0;
  for (uint32_t i = 0; i < k->n_code; i++) {
    if (leader[i]) nodes[n++] = (Node){.first = i, .order = -1, .ipdom = -1};
    nodes[n - 1].last = i;
    node_of[i] = (int)n - 1;
  }
  for (unsigned i = 0; i < n; i++) {
    const Inst *last = &k->code[nodes[i].last];
    bool falls = nodes[i].last + 1 < k->n_code;
    if (last->flags & INST_BRANCH && last->guard == OPERAND_NONE) falls = false;
    unsigned many = targets_of(last, &targets), start = edges->len;
    if (falls) g_array_append_val(edges, node_of[nodes[i].last + 1]);
    for (unsigned t = 0; t < many; t++)
      g_array_append_val(edges, node_of[targets[t]]);
    nodes[i].n_next = edges->len - start;
  }
  unsigned at = 0;
  for (unsigned i = 0; i < n; at += nodes[i++].n_next)
    nodes[i].next = nodes[i].n_next ? &g_array_index(edges, int, at) : NULL;
  return n;
}

/* Numbers the nodes that reach the exit, in post-order of the reversed graph, without recursion. */
static unsigned number_nodes(Node *nodes, unsigned n, int root, int *order)
{
  g_autofree unsigned *start = g_new0(unsigned, n + 2);
  for (unsigned i = 0; i < n; i++)
    for (unsigned s = 0; s < nodes[i].n_next; s++)
      start[nodes[i].next[s] + 1]++;
  for (unsigned i = 0; i < n; i++)
    start[i + 1] += start[i];
  g_autofree unsigned *fill = g_memdup2(start, (n + 1) * sizeof(unsigned));
  g_autofree int *previous = g_new(int, start[n] + 1);
  for (unsigned i = 0; i < n; i++)
    for (unsigned s = 0; s < nodes[i].n_next; s++)
      previous[fill[nodes[i].next[s]]++] = (int)i;
  g_autofree int *stack = g_new(int, n + 1);
  g_autofree unsigned *at = g_memdup2(start, (n + 1) * sizeof(unsigned));
  g_autofree bool *seen = g_new0(bool, n);
  unsigned top = 0, count = 0;
  stack[top++] = root;
  seen[root] = true;
  while (top) {
    int v = stack[top - 1];
    if (at[v] < start[v + 1]) {
      int p = previous[at[v]++];
      if (!seen[p]) {
        seen[p] = true;
        stack[top++] = p;
      }
    } else {
      nodes[v].order = (int)count;
      order[count++] = v;
      top--;
    }
  }
  return count;
}

/* The last unguarded way out of the routine. Early exits are no paths: lanes that leave there vanish, the
 * others still meet. */
static int find_root(const Kernel *k, const Routine *r, const Node *nodes, const int *node_of)
{
  int root = -1;
  for (int i = node_of[r->start]; i <= node_of[r->end - 1]; i++) {
    const Inst *last = &k->code[nodes[i].last];
    bool leaves = last->run == run_exit || call_is_return(last);
    if (leaves && last->guard == OPERAND_NONE && (nodes[i].last + 1 < r->end || root < 0)) root = i;
    if (call_is_return(last)) root = i; /* a routine has one, at its end */
  }
  return root;
}

static void find_dominators(Node *nodes, unsigned n, int root)
{
  g_autofree int *order = g_new(int, n);
  unsigned count = number_nodes(nodes, n, root, order);
  nodes[root].ipdom = root;
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = (int)count - 2; i >= 0; i--) {
      Node *v = &nodes[order[i]];
      int found = -1;
      for (unsigned s = 0; s < v->n_next; s++) {
        int next = v->next[s];
        if (nodes[next].order < 0 || nodes[next].ipdom < 0) continue;
        found = found < 0 ? next : intersect(nodes, found, next);
      }
      if (found >= 0 && v->ipdom != found) {
        v->ipdom = found;
        changed = true;
      }
    }
  }
}

void flow_reconverge(Kernel *k)
{
  if (!k->n_code) return;
  g_autofree Node *nodes = g_new0(Node, k->n_code);
  g_autofree int *node_of = g_new(int, k->n_code);
  g_autoptr(GArray) edges = g_array_new(FALSE, FALSE, sizeof(int));
  unsigned n = build_nodes(k, nodes, node_of, edges);
  for (unsigned i = 0; i < k->n_routines; i++) {
    int root = find_root(k, k->routines[i], nodes, node_of);
    if (root >= 0) find_dominators(nodes, n, root);
  }
  for (unsigned i = 0; i < n; i++) {
    Inst *last = &k->code[nodes[i].last];
    bool splits = (last->run == run_branch && last->guard != OPERAND_NONE) || last->run == run_branch_table;
    if (!splits || nodes[i].ipdom < 0) continue;
    uint32_t pc = nodes[nodes[i].ipdom].first;
    /* lanes that go straight to the end leave at once instead of waiting there for the others */
    if (!ends_lane(&k->code[pc])) last->reconverge = pc;
  }
}

/* --- execution --- */

int flow_join(Warp *w, uint32_t pc, uint32_t expected, int parent, Activation *frame)
{
  unsigned i = 0;
  while (i < w->n_joins && w->joins[i].used)
    i++;
  if (i == w->n_joins) {
    w->n_joins = w->n_joins ? w->n_joins * 2 : 8;
    w->joins = g_renew(Join, w->joins, w->n_joins);
    memset(w->joins + i, 0, (w->n_joins - i) * sizeof(Join));
  }
  w->joins[i] = (Join){.pc = pc, .expected = expected, .parent = parent, .frame = frame, .used = true};
  return (int)i;
}

static Step run_branch(Warp *w, const Inst *in, uint32_t mask)
{
  Group *g = current_group(w);
  if (mask == g->mask) {
    g->pc = in->target;
    return STEP_JUMP;
  }
  int join = g->join;
  if (in->reconverge != NO_PC && !meets_at(w, g, in->reconverge))
    join = flow_join(w, in->reconverge, g->mask, join, g->frame);
  g->mask &= ~mask;
  g->join = join;
  g->pc++;
  w->groups[w->n_groups++] = (Group){.mask = mask, .pc = in->target, .frame = g->frame, .join = join};
  return STEP_GONE;
}

static Step run_exit(Warp *w, const Inst *in, uint32_t mask)
{
  Group *g = current_group(w);
  w->live &= ~mask;
  w->exited |= mask;
  g->mask &= ~mask;
  g->pc++;
  if (!g->mask) *g = w->groups[--w->n_groups];
  barrier_thread_exit(w, mask);
  return STEP_GONE;
}
