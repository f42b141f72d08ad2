/* Faults: collected once per kind and place, printed as text or JSON. */
#include "simulator/machine.h"
#include <stdarg.h>
#include <string.h>

static const char *const names[] = {
#define X(id, name) name,
    SIM_FAULTS(X)
#undef X
};

const char *sim_fault_name(SimFaultKind kind)
{
  return kind < SIM_FAULT_COUNT ? names[kind] : "unknown";
}

bool sim_options_checkers(SimOptions *options, const char *list, GError **error)
{
  options->checkers = 0;
  if (strcmp(list, "all") == 0) options->checkers = SIM_CHECK_ALL;
  if (strcmp(list, "all") == 0 || strcmp(list, "none") == 0) return true;
  const char *candidates[SIM_FAULT_COUNT + 3] = {"all", "none"};
  memcpy(candidates + 2, names, sizeof names);
  g_auto(GStrv) words = g_strsplit(list, ",", -1);
  for (unsigned i = 0; words[i]; i++) {
    const char *word = g_strstrip(words[i]);
    unsigned k = 0;
    while (k < SIM_FAULT_COUNT && strcmp(names[k], word))
      k++;
    if (k == SIM_FAULT_COUNT) {
      const char *near = nearest_name(word, candidates);
      g_autofree char *known = g_strjoinv(", ", (char **)candidates);
      g_autofree char *hint =
          near ? g_strdup_printf("did you mean '%s'?", near) : g_strdup_printf("known: %s", known);
      error_set(error, ERROR_USAGE, NULL, "unknown-checker", hint, "unknown checker '%s'", word);
      return false;
    }
    options->checkers |= 1u << k;
  }
  return true;
}

static bool always_on(SimFaultKind kind)
{
  return kind == SIM_FAULT_BOUNDS || kind == SIM_FAULT_DEADLOCK || kind == SIM_FAULT_TRAP ||
         kind == SIM_FAULT_LIMIT || kind == SIM_FAULT_ALIGNMENT || kind == SIM_FAULT_OPERAND;
}

/* cause: what the fault is counted under, NULL: the instruction */
static void record(Warp *w, const Inst *in, const Inst *cause, unsigned lane, SimFaultKind kind,
                   bool is_finding, uint64_t address, const FaultParty *other, const char *message)
{
  Run *run = w->block->cluster->run;
  if (!always_on(kind) && !(run->options->checkers >> kind & 1)) return;
  g_mutex_lock(&run->session->lock);
  g_autofree char *key = g_strdup_printf("%d %p", (int)kind * 4 + is_finding * 2 + (cause != NULL),
                                         cause ? (const void *)cause : (const void *)in);
  SimResult *r = run->session->result;
  unsigned known = GPOINTER_TO_UINT(g_hash_table_lookup(run->session->seen, key));
  if (known) {
    r->faults[known - 1].count++;
    g_mutex_unlock(&run->session->lock);
    return;
  }
  r->faults = g_renew(SimFault, r->faults, r->n_faults + 1);
  SimFault *f = &r->faults[r->n_faults++];
  *f = (SimFault){
      .kind = kind, .finding = is_finding, .message = g_strdup(message), .warp = w->id, .lane = lane};
  f->instruction = g_strdup(in->source->text);
  f->line = in->source->mark.line;
  f->column = in->source->mark.column;
  f->address = address;
  f->count = 1;
  f->file = g_strdup(run->kernel->module->source->name);
  f->launch = g_strdup(run->name);
  memcpy(f->block, w->block->id, sizeof f->block);
  if (other) {
    f->other_line = other->in ? other->in->source->mark.line : 0;
    f->other_warp = other->warp;
    f->other_file = g_strdup(other->run->kernel->module->source->name);
    f->other_launch = g_strdup(other->run->name);
    memcpy(f->other_block, other->block, sizeof f->other_block);
  }
  if (!is_finding) r->n_errors++;
  g_hash_table_insert(run->session->seen, g_steal_pointer(&key), GUINT_TO_POINTER(r->n_faults));
  g_mutex_unlock(&run->session->lock);
}

/* Bytes that nobody has written, and the first of them. */
static uint64_t count_unwritten(const Buffer *b, uint64_t *first)
{
  uint64_t n = 0;
  for (uint64_t i = 0; i < b->bytes; i += 64) {
    uint64_t all = b->bytes - i >= 64 ? ~0ull : (1ull << (b->bytes - i)) - 1,
             missing = ~b->defined[i / 64] & all;
    if (missing && !n) *first = i + (uint64_t)__builtin_ctzll(missing);
    n += (uint64_t)__builtin_popcountll(missing);
  }
  return n;
}

void report_outputs(const Run *run)
{
  Session *s = run->session;
  for (unsigned i = 0; i < s->n_buffers; i++) {
    const Buffer *b = &s->buffers[i];
    uint64_t first = 0, n = 0;
    bool wanted = b->written == SIM_WRITTEN_WHOLE || (b->written == SIM_WRITTEN_UNSAID && b->output);
    if (wanted && b->defined) n = count_unwritten(b, &first);
    g_autofree char *key = g_strdup_printf("output %u", i);
    if (!n || !(s->options->checkers >> SIM_FAULT_UNDEFINED & 1) || !g_hash_table_add(s->seen, g_strdup(key)))
      continue;
    SimResult *r = s->result;
    /* the launch may be one of several that write the tensor */
    bool is_finding = b->written == SIM_WRITTEN_UNSAID && !s->options->strict;
    r->n_errors += !is_finding;
    r->faults = g_renew(SimFault, r->faults, r->n_faults + 1);
    const PtxInstruction *end = run->kernel->code[run->kernel->n_code - 1].source;
    r->faults[r->n_faults++] = (SimFault){
        .kind = SIM_FAULT_UNDEFINED,
        .finding = is_finding,
        .message = g_strdup_printf(
            "%llu of %llu bytes of output '%s' are never written, the first is byte %llu",
            (unsigned long long)n, (unsigned long long)b->bytes, b->name, (unsigned long long)first),
        .instruction = g_strdup(end->text),
        .line = end->mark.line,
        .column = end->mark.column,
        .address = b->address + first,
        .file = g_strdup(run->kernel->module->source->name),
        .launch = g_strdup(run->name),
        .count = 1};
  }
}

#define FORMATTED(call)                                                                                      \
  va_list list;                                                                                              \
  va_start(list, format);                                                                                    \
  g_autofree char *text = g_strdup_vprintf(format, list);                                                    \
  va_end(list);                                                                                              \
  call

void fault(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, uint64_t address, const char *format,
           ...)
{
  FORMATTED(record(w, in, NULL, lane, kind, false, address, NULL, text));
}

void finding(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, uint64_t address, const char *format,
             ...)
{
  FORMATTED(record(w, in, NULL, lane, kind, true, address, NULL, text));
}

void fault_other(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, uint64_t address,
                 const Inst *other, const Warp *other_warp, const char *format, ...)
{
  FaultParty party = {.run = w->block->cluster->run, .in = other};
  if (other_warp) {
    party.warp = other_warp->id;
    memcpy(party.block, other_warp->block->id, sizeof party.block);
  }
  FORMATTED(record(w, in, NULL, lane, kind, false, address, &party, text));
}

void fault_cause(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, const Inst *cause,
                 const char *format, ...)
{
  FaultParty party = {.run = w->block->cluster->run, .in = cause, .warp = w->id};
  memcpy(party.block, w->block->id, sizeof party.block);
  FORMATTED(record(w, in, cause, lane, kind, false, 0, &party, text));
}

void fault_party(Warp *w, const Inst *in, unsigned lane, SimFaultKind kind, bool is_finding, uint64_t address,
                 const FaultParty *other, const char *format, ...)
{
  FORMATTED(record(w, in, NULL, lane, kind, is_finding, address, other, text));
}

void sim_result_clear(SimResult *result)
{
  for (unsigned i = 0; i < result->n_faults; i++) {
    g_free(result->faults[i].message);
    g_free(result->faults[i].instruction);
    g_free(result->faults[i].file);
    g_free(result->faults[i].launch);
    g_free(result->faults[i].other_file);
    g_free(result->faults[i].other_launch);
  }
  for (unsigned i = 0; i < result->n_counts; i++)
    g_free(result->counts[i].instruction);
  g_free(result->counts);
  g_free(result->of_steps);
  json_decref(result->stops);
  json_decref(result->breaks);
  g_free(result->faults);
  g_free(result->printed);
  *result = (SimResult){0};
}

/* Sums over all warps, which the table of sim_counts_to_text() shows. */
static bool is_count(SimFaultKind kind)
{
  return kind == SIM_FAULT_BANK || kind == SIM_FAULT_SECTOR;
}

static void print_other(GString *out, const SimFault *f)
{
  g_string_append(out, "; other party: ");
  if (g_strcmp0(f->launch, f->other_launch))
    g_string_append_printf(out, "launch '%s', %s ", f->other_launch, f->other_file);
  g_string_append_printf(out, "line %u, block (%u,%u,%u), warp %u", f->other_line, f->other_block[0],
                         f->other_block[1], f->other_block[2], f->other_warp);
}

char *sim_result_to_text(const SimResult *result, const SimModule *module)
{
  GString *out = g_string_new(result->printed);
  if (out->len && out->str[out->len - 1] != '\n') g_string_append_c(out, '\n');
  for (unsigned i = 0; i < result->n_faults; i++) {
    const SimFault *f = &result->faults[i];
    if (is_count(f->kind)) continue;
    g_string_append_printf(out, "%s:%u:%u: %s: %s: %s\n", f->file, f->line, f->column,
                           f->finding ? "finding" : "fault", sim_fault_name(f->kind), f->message);
    g_string_append_printf(out, "  %s, ", f->instruction);
    if (f->launch) g_string_append_printf(out, "launch '%s', ", f->launch);
    g_string_append_printf(out, "block (%u,%u,%u), warp %u, lane %u", f->block[0], f->block[1], f->block[2],
                           f->warp, f->lane);
    if (f->other_line) print_other(out, f);
    if (f->count > 1) g_string_append_printf(out, "; %llu times", (unsigned long long)f->count);
    g_string_append_c(out, '\n');
  }
  return g_string_free(out, FALSE);
}

static json_t *triple(const unsigned v[3])
{
  return json_pack("[i,i,i]", (int)v[0], (int)v[1], (int)v[2]);
}

json_t *sim_result_to_json(const SimResult *result, const SimModule *module)
{
  json_t *faults = json_array();
  for (unsigned i = 0; i < result->n_faults; i++) {
    const SimFault *f = &result->faults[i];
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:i, s:i, s:I, s:I}", "kind",
                          sim_fault_name(f->kind), "severity", f->finding ? "finding" : "error", "message",
                          f->message, "instruction", f->instruction, "file", f->file, "line", (int)f->line,
                          "column", (int)f->column, "block", triple(f->block), "warp", (int)f->warp, "lane",
                          (int)f->lane, "address", (json_int_t)f->address, "count", (json_int_t)f->count);
    if (f->launch) json_object_set_new(o, "launch", json_string(f->launch));
    if (f->other_line) {
      json_t *other = json_pack("{s:i, s:o, s:i}", "line", (int)f->other_line, "block",
                                triple(f->other_block), "warp", (int)f->other_warp);
      json_object_set_new(o, "other", other);
      if (f->other_launch) json_object_set_new(other, "launch", json_string(f->other_launch));
      if (g_strcmp0(f->file, f->other_file)) json_object_set_new(other, "file", json_string(f->other_file));
    }
    json_array_append_new(faults, o);
  }
  json_t *out = json_pack("{s:i, s:o, s:I, s:f}", "version", 1, "faults", faults, "instructions",
                          (json_int_t)result->instructions, "seconds", result->seconds);
  if (result->breaks) {
    json_object_set(out, "breaks", result->breaks);
    json_object_set(out, "stops", result->stops);
  }
  if (result->counts) json_object_set_new(out, "counts", sim_counts_to_json(result));
  if (result->printed) {
    g_autofree char *valid = g_utf8_make_valid(result->printed, -1);
    json_object_set_new(out, "printed", json_string(valid));
  }
  return out;
}
