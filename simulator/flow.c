/* Flat code from functions: calls are inlined (so there is one control-flow graph per kernel, with registers
 * of its own per call), branch targets resolved, and each branch told where its lanes meet again: at the
 * immediate post-dominator. */
#include "simulator/flow.h"
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

static Step run_nothing(Warp *w, const Inst *in, uint32_t mask)
{
  return STEP_NEXT;
}

/* Parameters of an inlined call: bytes of the thread's own memory. */
static Step run_copy_local(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    uint8_t *local = w->local + l * w->block->cluster->run->kernel->local_bytes;
    memmove(local + in->more, local + in->immediate, in->target);
  }
  return STEP_NEXT;
}

void decode_branch(Decoder *d, int argument)
{
  take(d, "uni");
  const PtxOperand *o = operand_at(d, 0);
  if (o->kind != OPERAND_SYMBOL || o->symbol->kind != SYMBOL_LABEL) {
    decode_fail(d, "a label is needed");
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

static Inst *append(Decoder *d)
{
  g_array_set_size(d->code, d->code->len + 1);
  return &g_array_index(d->code, Inst, d->code->len - 1);
}

static Inst *append_internal(Decoder *d, const PtxInstruction *source, Handler run)
{
  Inst *in = append(d);
  *in = (Inst){.source = source, .guard = OPERAND_NONE, .target = NO_PC, .reconverge = NO_PC, .run = run};
  in->flags = INST_CUSTOM;
  return in;
}

static void inline_function(Decoder *d, Frame *f, unsigned depth);

static void copy_parameter(Decoder *d, const PtxInstruction *call, const PtxOperand *actual, Frame *caller,
                           const PtxSymbol *formal, Frame *callee, bool back)
{
  if (actual->kind != OPERAND_SYMBOL || actual->symbol->kind != SYMBOL_VARIABLE ||
      actual->symbol->bytes != formal->bytes) {
    decode_fail(d, "the arguments do not fit '%s'", callee->function->name);
    return;
  }
  Inst *in = append_internal(d, call, run_copy_local);
  uint64_t outer = caller->local + actual->symbol->offset, inner = callee->local + formal->offset;
  in->immediate = (int64_t)(back ? inner : outer);
  in->more = back ? outer : inner;
  in->target = (uint32_t)formal->bytes;
}

static Frame *new_frame(Decoder *d, const PtxFunction *function, Frame *caller)
{
  Kernel *k = d->kernel;
  Frame *f = arena_new_object(k->arena, Frame);
  f->function = function;
  f->caller = caller;
  f->is_entry = function->is_entry;
  f->first_slot = k->n_slots;
  k->n_slots += function->n_slots;
  f->local = (k->local_bytes + 15) / 16 * 16;
  k->local_bytes = f->local + function->local_bytes;
  f->shared = k->module->shared_bytes ? (k->module->shared_bytes + 127) / 128 * 128 : 0;
  f->position = arena_new_array(k->arena, uint32_t, function->n_code + 1);
  f->returns = g_ptr_array_new();
  return f;
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
  if (!callee || callee->kind != OPERAND_SYMBOL || callee->symbol->kind != SYMBOL_FUNCTION) {
    decode_fail(d, "only direct calls are supported");
    return;
  }
  const PtxFunction *function = callee->symbol->function;
  uint32_t skip = NO_PC;
  if (call->guard) {
    skip = d->code->len;
    Inst *in = append_internal(d, call, run_branch);
    in->flags |= INST_BRANCH;
    in->guard = frame_slot(f, call->guard);
    in->guard_negated = !call->guard_negated;
  }
  if (!function->has_body) {
    if (strcmp(function->name, "vprintf") == 0)
      append_internal(d, call, run_nothing); /* text for a person: no effect on memory */
    else if (strcmp(function->name, "__assertfail") == 0)
      append_internal(d, call, run_trap)->flags |= INST_BRANCH;
    else
      decode_fail(d, "function '%s' has no body", function->name);
  } else if (depth > MAX_DEPTH || d->code->len > MAX_CODE) {
    decode_fail(d, "calls are nested too deeply or recursive");
  } else {
    unsigned n = arguments ? arguments->n : 0, m = results ? results->n : 0;
    if (n != function->n_parameters || m != function->n_results) {
      decode_fail(d, "the arguments do not fit '%s'", function->name);
      return;
    }
    Frame *inner = new_frame(d, function, f);
    for (unsigned p = 0; p < n; p++)
      copy_parameter(d, call, &arguments->items[p], f, function->parameters[p], inner, false);
    inline_function(d, inner, depth + 1);
    d->source = call;
    for (unsigned p = 0; p < m; p++)
      copy_parameter(d, call, &results->items[p], f, function->results[p], inner, true);
  }
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
    if (depth && strcmp(source->parts[0], "ret") == 0) {
      Inst *in = append_internal(d, source, run_branch);
      in->flags |= INST_BRANCH;
      if (source->guard) in->guard = frame_slot(f, source->guard);
      in->guard_negated = source->guard_negated;
      g_ptr_array_add(f->returns, GUINT_TO_POINTER(index));
      continue;
    }
    append(d);
    Inst in;
    decode_instruction(d, source, &in);
    if (in.run == run_branch) {
      in.target = source->operands[0].symbol->position;
      g_array_append_val(branches, index);
    }
    g_array_index(d->code, Inst, index) = in;
  }
  f->position[function->n_code] = d->code->len;
  for (unsigned i = 0; i < branches->len; i++) {
    Inst *in = &g_array_index(d->code, Inst, g_array_index(branches, uint32_t, i));
    in->target = f->position[in->target];
  }
  for (unsigned i = 0; i < f->returns->len; i++)
    g_array_index(d->code, Inst, GPOINTER_TO_UINT(f->returns->pdata[i])).target = d->code->len;
  g_ptr_array_free(f->returns, TRUE);
}

void flow_decode(Decoder *d)
{
  static const char *const parts[] = {"ret", NULL};
  d->kernel->n_slots = 4; /* slots 0..3 take what goes to the sink operand */
  Frame *f = new_frame(d, d->function, NULL);
  inline_function(d, f, 0);
  PtxInstruction *end = arena_new_object(d->kernel->arena, PtxInstruction);
  *end = (PtxInstruction){.mark = d->function->mark, .text = "ret", .n_parts = 1};
  end->parts = (const char **)parts;
  Inst *in = append_internal(d, end, run_exit);
  in->flags |= INST_BRANCH;
}

/* --- immediate post-dominators (Cooper, Harvey, Kennedy: a simple, fast dominance algorithm) --- */

typedef struct Node {
  uint32_t first, last;
  int next[2];
  unsigned n_next;
  int order, ipdom; /* order: post-order number of the reversed graph, -1: never reaches the exit */
} Node;

static bool ends_lane(const Inst *in)
{
  return in->run == run_exit || in->run == run_trap;
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

static unsigned build_nodes(Kernel *k, Node *nodes, int *node_of)
{
  g_autofree bool *leader = g_new0(bool, k->n_code + 1);
  leader[0] = true;
  for (uint32_t i = 0; i < k->n_code; i++)
    if (k->code[i].flags & INST_BRANCH) {
      leader[i + 1] = true;
      if (k->code[i].run == run_branch) leader[k->code[i].target] = true;
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
    if (falls) nodes[i].next[nodes[i].n_next++] = node_of[nodes[i].last + 1];
    if (last->run == run_branch) nodes[i].next[nodes[i].n_next++] = node_of[last->target];
  }
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

void flow_reconverge(Kernel *k)
{
  if (!k->n_code) return;
  g_autofree Node *nodes = g_new0(Node, k->n_code);
  g_autofree int *node_of = g_new(int, k->n_code);
  unsigned n = build_nodes(k, nodes, node_of);
  /* The last exit is the root. Early exits are no paths: lanes that leave there vanish, the others still
   * meet. */
  int root = -1;
  for (unsigned i = 0; i < n; i++)
    if (k->code[nodes[i].last].run == run_exit && k->code[nodes[i].last].guard == OPERAND_NONE &&
        (nodes[i].last + 1 < k->n_code || root < 0))
      root = (int)i;
  if (root < 0) return;
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
  for (unsigned i = 0; i < n; i++) {
    Inst *last = &k->code[nodes[i].last];
    if (last->run != run_branch || last->guard == OPERAND_NONE || nodes[i].ipdom < 0) continue;
    uint32_t pc = nodes[nodes[i].ipdom].first;
    /* lanes that go straight to the end leave at once instead of waiting there for the others */
    if (!ends_lane(&k->code[pc])) last->reconverge = pc;
  }
}

/* --- execution --- */

static int new_join(Warp *w, uint32_t pc, uint32_t expected, int parent)
{
  unsigned i = 0;
  while (i < w->n_joins && w->joins[i].used)
    i++;
  if (i == w->n_joins) {
    w->n_joins = w->n_joins ? w->n_joins * 2 : 8;
    w->joins = g_renew(Join, w->joins, w->n_joins);
    memset(w->joins + i, 0, (w->n_joins - i) * sizeof(Join));
  }
  w->joins[i] = (Join){.pc = pc, .expected = expected, .parent = parent, .used = true};
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
  if (in->reconverge != NO_PC && !(join >= 0 && w->joins[join].pc == in->reconverge))
    join = new_join(w, in->reconverge, g->mask, join);
  g->mask &= ~mask;
  g->join = join;
  g->pc++;
  w->groups[w->n_groups++] = (Group){.mask = mask, .pc = in->target, .join = join};
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
