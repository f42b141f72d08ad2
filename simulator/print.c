/* Functions that a kernel calls and the driver provides: vprintf, __assertfail, malloc, free. */
#include "simulator/flow.h"
#include <string.h>

#define MAX_STRING  4096
#define MAX_PRINTED (1u << 20)

typedef struct Printed {
  uint64_t cluster;
  char *text;
} Printed;

/* Where the arguments of the call are in the thread's local memory. */
typedef struct DriverCall {
  uint64_t arguments[5], result;
  bool has_result;
} DriverCall;

/* A NUL-terminated string in generic memory; a lane that may not read it has been reported. */
static char *read_string(Warp *w, const Inst *in, unsigned lane, uint64_t address)
{
  GString *out = g_string_new(NULL);
  for (unsigned i = 0; i < MAX_STRING; i++) {
    Place p = memory_place(w, in, lane, SPACE_GENERIC, address + i, 1, ACCESS_READ);
    if (!p.at || !*p.at) break;
    g_string_append_c(out, (char)*p.at);
  }
  return g_string_free(out, FALSE);
}

static uint64_t local_u64(Warp *w, const Inst *in, unsigned lane, uint64_t offset)
{
  uint64_t v;
  uint64_t base = in->a[0] == OPERAND_NONE ? 0 : lane_u64(w, in->a[0], lane);
  memcpy(&v, w->local + lane * w->block->cluster->run->kernel->local_bytes + base + offset, 8);
  return v;
}

static void set_result(Warp *w, const Inst *in, unsigned lane, uint64_t value, unsigned bytes)
{
  const DriverCall *call = in->data;
  uint64_t base = in->a[0] == OPERAND_NONE ? 0 : lane_u64(w, in->a[0], lane);
  uint8_t *local = w->local + lane * w->block->cluster->run->kernel->local_bytes + base;
  if (call->has_result) memcpy(local + call->result, &value, bytes);
}

/* The next argument: arguments lie one behind the other, each aligned to its size. */
static bool next_argument(Warp *w, const Inst *in, unsigned lane, uint64_t *at, unsigned bytes,
                          uint64_t *value)
{
  *at = (*at + bytes - 1) / bytes * bytes;
  Place p = memory_place(w, in, lane, SPACE_GENERIC, *at, bytes, ACCESS_READ);
  *value = 0;
  if (!p.at) return false;
  memcpy(value, p.at, bytes);
  *at += bytes;
  return true;
}

/* One conversion, "%-8.3f"; spec ends behind its letter. false: not one that can be printed. */
static bool print_one(Warp *w, const Inst *in, unsigned lane, const char *spec, size_t n, uint64_t *at,
                      GString *out)
{
  GString *clean = g_string_new("%");
  g_autofree char *owned = NULL;
  unsigned longs = 0;
  bool ok = true;
  uint64_t v = 0;
  for (size_t i = 1; i + 1 < n && ok; i++) {
    if (spec[i] == 'l') longs++;
    if (spec[i] == 'j' || spec[i] == 'z' || spec[i] == 't') longs = 1;
    if (spec[i] == '*') {
      ok = next_argument(w, in, lane, at, 4, &v);
      g_string_append_printf(clean, "%d", CLAMP((int)v, -999, 999));
    } else if (!g_ascii_isalpha(spec[i]) && clean->len < 24) {
      g_string_append_c(clean, spec[i]);
    }
  }
  char letter = spec[n - 1];
  if (ok && letter == 's') {
    ok = next_argument(w, in, lane, at, 8, &v);
    owned = ok && v ? read_string(w, in, lane, v) : g_strdup("(null)");
    g_string_append_c(clean, 's');
  } else if (ok && strchr("diouxXcp", letter)) {
    unsigned bytes = longs || letter == 'p' ? 8 : 4;
    ok = next_argument(w, in, lane, at, bytes, &v);
    if (bytes == 4 && strchr("di", letter)) v = (uint64_t)(int64_t)(int32_t)v;
    g_string_append(clean, letter == 'c' ? "" : "l");
    g_string_append_c(clean, letter == 'p' ? 'x' : letter);
  } else if (ok && strchr("feEgGaAF", letter)) {
    ok = next_argument(w, in, lane, at, 8, &v);
    g_string_append_c(clean, letter);
  } else {
    ok = false;
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  if (ok && letter == 's')
    g_string_append_printf(out, clean->str, owned);
  else if (ok && strchr("feEgGaAF", letter))
    g_string_append_printf(out, clean->str, bits_double(v));
  else if (ok && letter == 'c')
    g_string_append_printf(out, clean->str, (int)(v & 0x7f));
  else if (ok)
    g_string_append_printf(out, clean->str, (unsigned long)v);
#pragma GCC diagnostic pop
  g_string_free(clean, TRUE);
  return ok;
}

static unsigned print_text(Warp *w, const Inst *in, unsigned lane, const char *format, uint64_t at,
                           GString *out)
{
  unsigned count = 0;
  for (const char *p = format; *p;) {
    size_t plain = strcspn(p, "%");
    g_string_append_len(out, p, (gssize)plain);
    p += plain;
    if (!*p) break;
    size_t n = 1 + strspn(p + 1, "-+ #0123456789.*hljztL");
    if (!p[n]) break;
    n++;
    if (p[n - 1] == '%')
      g_string_append_c(out, '%');
    else if (print_one(w, in, lane, p, n, &at, out))
      count++;
    else
      g_string_append_len(out, p, (gssize)n);
    p += n;
  }
  return count;
}

static Step run_print(Warp *w, const Inst *in, uint32_t mask)
{
  const DriverCall *call = in->data;
  Cluster *c = w->block->cluster;
  for_lanes(l, mask)
  {
    g_autofree char *format = read_string(w, in, l, local_u64(w, in, l, call->arguments[0]));
    g_autoptr(GString) out = g_string_new(NULL);
    unsigned n = print_text(w, in, l, format, local_u64(w, in, l, call->arguments[1]), out);
    set_result(w, in, l, n, 4);
    if (c->run->schedule) continue; /* every schedule prints the same, or it is a race */
    if (!c->printed) c->printed = g_string_new(NULL);
    if (c->printed->len < MAX_PRINTED) g_string_append(c->printed, out->str);
  }
  return STEP_NEXT;
}

static Step run_assertion(Warp *w, const Inst *in, uint32_t mask)
{
  const DriverCall *call = in->data;
  unsigned l = first_lane(mask);
  g_autofree char *message = read_string(w, in, l, local_u64(w, in, l, call->arguments[0]));
  g_autofree char *file = read_string(w, in, l, local_u64(w, in, l, call->arguments[1]));
  g_autofree char *function = read_string(w, in, l, local_u64(w, in, l, call->arguments[3]));
  fault(w, in, l, SIM_FAULT_TRAP, 0, "assertion '%s' failed (%s:%u, %s)", message, file,
        (uint32_t)local_u64(w, in, l, call->arguments[2]), function);
  return STEP_STOP;
}

static Buffer *heap(Run *run)
{
  return &run->variables[run->n_variables - 1];
}

/* A heap that only grows: free is checked, but gives nothing back. */
static Step run_malloc(Warp *w, const Inst *in, uint32_t mask)
{
  const DriverCall *call = in->data;
  Run *run = w->block->cluster->run;
  Buffer *b = heap(run);
  for_lanes(l, mask)
  {
    uint64_t bytes = local_u64(w, in, l, call->arguments[0]), result = 0;
    g_mutex_lock(&run->session->lock);
    if (bytes <= b->bytes - run->session->heap_used) {
      result = b->address + run->session->heap_used;
      run->session->heap_used = MIN((run->session->heap_used + MAX(bytes, 1) + 15) / 16 * 16, b->bytes);
    }
    g_mutex_unlock(&run->session->lock);
    set_result(w, in, l, result, 8);
  }
  return STEP_NEXT;
}

static Step run_free(Warp *w, const Inst *in, uint32_t mask)
{
  const DriverCall *call = in->data;
  const Buffer *b = heap(w->block->cluster->run);
  for_lanes(l, mask)
  {
    uint64_t p = local_u64(w, in, l, call->arguments[0]);
    if (p && (p < b->address || p - b->address >= b->bytes || p % 16))
      fault(w, in, l, SIM_FAULT_OPERAND, p, "free of 0x%llx, which malloc has not given",
            (unsigned long long)p);
  }
  return STEP_NEXT;
}

bool print_call(Decoder *d, const PtxInstruction *call, const PtxFunction *function,
                const PtxOperand *results, const PtxOperand *arguments)
{
  static const struct {
    const char *name;
    unsigned arguments;
    Handler run;
  } known[] = {{"vprintf", 2, run_print},
               {"__assertfail", 5, run_assertion},
               {"malloc", 1, run_malloc},
               {"free", 1, run_free}};
  unsigned i = 0, n = arguments ? arguments->n : 0;
  while (i < G_N_ELEMENTS(known) && strcmp(known[i].name, function->name))
    i++;
  if (i == G_N_ELEMENTS(known)) return false;
  DriverCall *data = arena_new_object(d->kernel->arena, DriverCall);
  Inst *in = flow_append(d, call, known[i].run);
  in->data = data;
  if (frame_base(d->frame)) in->a[0] = frame_base(d->frame);
  if (known[i].run == run_malloc || known[i].run == run_free) d->kernel->allocates = true;
  if (known[i].run == run_assertion) in->flags |= INST_BRANCH;
  if (n != known[i].arguments) {
    decode_wrong(d, "%s takes %u arguments, not %u", function->name, known[i].arguments, n);
    return true;
  }
  for (unsigned k = 0; k < n + (results && results->n == 1); k++) {
    const PtxOperand *o = k < n ? &arguments->items[k] : &results->items[0];
    if (o->kind != OPERAND_SYMBOL || o->symbol->kind != SYMBOL_VARIABLE || o->symbol->space != SPACE_PARAM ||
        o->symbol->bytes < 4) {
      decode_fail(d, "an argument of %s must be a .param variable", function->name);
      return true;
    }
    *(k < n ? &data->arguments[k] : &data->result) = frame_local(d->frame) + o->symbol->offset;
  }
  data->has_result = results && results->n == 1;
  return true;
}

/* --- what was printed: block by block, however many threads ran them --- */

void print_finish_cluster(Cluster *c)
{
  if (!c->printed) return;
  Printed p = {c->index, g_string_free(c->printed, FALSE)};
  g_mutex_lock(&c->run->session->lock);
  if (!c->run->printed) c->run->printed = g_array_new(FALSE, FALSE, sizeof(Printed));
  g_array_append_val(c->run->printed, p);
  g_mutex_unlock(&c->run->session->lock);
}

static int by_cluster(const void *a, const void *b)
{
  uint64_t x = ((const Printed *)a)->cluster, y = ((const Printed *)b)->cluster;
  return (x > y) - (x < y);
}

void print_finish_run(Run *run)
{
  if (!run->printed) return;
  g_array_sort(run->printed, by_cluster);
  SimResult *result = run->session->result;
  GString *all = g_string_new(result->printed);
  g_clear_pointer(&result->printed, g_free);
  for (unsigned i = 0; i < run->printed->len; i++) {
    Printed *p = &g_array_index(run->printed, Printed, i);
    if (all->len < MAX_PRINTED) g_string_append(all, p->text);
    g_free(p->text);
  }
  g_array_free(run->printed, TRUE);
  result->printed = g_string_free(all, FALSE);
}
