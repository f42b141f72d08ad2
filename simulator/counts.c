/* Bank conflicts and sectors: what the accesses of a warp cost the memory, instruction by instruction.
 *
 * Shared memory has banks that each deliver one word a wavefront. Lanes of 8 and 16 bytes go in 2 and 4
 * phases, so that a phase asks for no more than all banks hold; a matrix row is 16 bytes. Within a phase
 * lanes that ask for the same word are served together; the phase takes as many wavefronts as the fullest
 * bank has different words. Atomics on one word are taken one after the other. (NVIDIA CUDA C++ Programming
 * Guide, shared memory of compute capability 5 and above.)
 *
 * Global memory moves sectors: a warp's access takes as many as its bytes touch. (CUDA C++ Best Practices
 * Guide, coalesced access.) Bulk copies and wmma loads have no addresses of lanes and are not counted. */
#include "simulator/copy.h"
#include "simulator/observe.h"
#include <stdlib.h>
#include <string.h>

typedef enum { FORM_NONE, FORM_LANES, FORM_ATOMIC, FORM_MATRIX, FORM_COPY } Form;

/* The addresses of one execution. */
typedef struct Access {
  uint64_t address[LANES];
  unsigned bytes; /* of a lane */
  uint32_t mask;
} Access;

static Form form_of(const Inst *in)
{
  static const struct {
    const char *name;
    Form form;
  } forms[] = {{"ld", FORM_LANES},       {"ldu", FORM_LANES},  {"st", FORM_LANES},
               {"atom", FORM_ATOMIC},    {"red", FORM_ATOMIC}, {"ldmatrix", FORM_MATRIX},
               {"stmatrix", FORM_MATRIX}};
  const PtxInstruction *source = in->source;
  if (!source || !source->n_parts) return FORM_NONE;
  bool is_copy = source->n_parts > 2 && !strcmp(source->parts[0], "cp") && !strcmp(source->parts[1], "async");
  if (is_copy)
    return !strcmp(source->parts[2], "ca") || !strcmp(source->parts[2], "cg") ? FORM_COPY : FORM_NONE;
  if (source->n_parts > 1 && !strcmp(source->parts[1], "async")) return FORM_NONE;
  for (unsigned i = 0; i < G_N_ELEMENTS(forms); i++)
    if (!strcmp(source->parts[0], forms[i].name)) return forms[i].form;
  return FORM_NONE;
}

bool counts_apply(const Inst *in)
{
  Form form = form_of(in);
  bool elsewhere = in->space == SPACE_LOCAL || in->space == SPACE_PARAM || in->space == SPACE_CONST;
  return form == FORM_COPY || form == FORM_MATRIX || (form != FORM_NONE && !elsewhere);
}

/* --- shared memory --- */

/* Words a phase asks for in each bank; repeated ones count once, unless each is an operation of its own. */
static unsigned phase_wavefronts(const Gpu *gpu, const Access *a, uint32_t lanes, bool each)
{
  uint64_t words[LANES * 2];
  unsigned n = 0, most = 0, width = gpu->shared_bank_bytes;
  unsigned load[LANES * 2] = {0};
  for_lanes(l, lanes)
  {
    uint64_t first = a->address[l] / width, last = (a->address[l] + a->bytes - 1) / width;
    for (uint64_t word = first; word <= last && n < G_N_ELEMENTS(words); word++) {
      bool known = false;
      for (unsigned i = 0; i < n && !each; i++)
        known |= words[i] == word;
      if (known) continue;
      words[n++] = word;
      unsigned *bank = &load[word % gpu->shared_banks % G_N_ELEMENTS(load)];
      ++*bank;
      most = MAX(most, *bank);
    }
  }
  return most;
}

static void count_shared(AccessCount *count, const Gpu *gpu, const Access *a, bool each)
{
  unsigned at_once = MIN(gpu->shared_banks * gpu->shared_bank_bytes / MAX(a->bytes, 1), LANES);
  uint64_t wavefronts = 0, least = 0;
  for (unsigned first = 0; at_once && first < LANES; first += at_once) {
    uint32_t lanes = a->mask & (at_once >= LANES ? FULL : ((1u << at_once) - 1) << first);
    if (!lanes) continue;
    wavefronts += phase_wavefronts(gpu, a, lanes, each);
    least++;
  }
  __atomic_fetch_add(&count->wavefronts, wavefronts, __ATOMIC_RELAXED);
  __atomic_fetch_add(&count->least_wavefronts, least, __ATOMIC_RELAXED);
}

/* --- global memory --- */

static int compare_addresses(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void count_global(AccessCount *count, const Gpu *gpu, const Access *a)
{
  uint64_t starts[LANES], sectors = 0, bytes = 0, covered = 0, next_sector = 0;
  unsigned n = 0;
  for_lanes(l, a->mask) starts[n++] = a->address[l];
  qsort(starts, n, sizeof *starts, compare_addresses);
  for (unsigned i = 0; i < n; i++) {
    uint64_t end = starts[i] + a->bytes, from = MAX(starts[i], covered);
    if (end > from) bytes += end - from;
    covered = MAX(covered, end);
    uint64_t first = MAX(starts[i] / gpu->global_sector, next_sector), last = (end - 1) / gpu->global_sector;
    if (last + 1 > first) sectors += last + 1 - first;
    next_sector = MAX(next_sector, last + 1);
  }
  uint64_t least = (bytes + gpu->global_sector - 1) / gpu->global_sector;
  __atomic_fetch_add(&count->sectors, sectors, __ATOMIC_RELAXED);
  __atomic_fetch_add(&count->least_sectors, least, __ATOMIC_RELAXED);
}

/* --- one execution --- */

static uint64_t address_of(const Warp *w, const Inst *in, unsigned lane)
{
  return in->wide ? lane_u64(w, in->a[0], lane) + (uint64_t)in->immediate
                  : (uint32_t)(lane_u32(w, in->a[0], lane) + (uint32_t)in->immediate);
}

static void see_copy(AccessCount *count, const Gpu *gpu, Warp *w, const Inst *in, uint32_t mask)
{
  Access to = {.bytes = in->bytes, .mask = mask}, from = to;
  unsigned longest = 0;
  for_lanes(l, mask)
  {
    uint32_t shared;
    unsigned bytes;
    copy_addresses(w, in, l, &shared, &from.address[l], &bytes);
    to.address[l] = shared;
    if (!bytes) from.mask &= ~(1u << l);
    longest = MAX(longest, bytes);
  }
  count_shared(count, gpu, &to, false);
  from.bytes = longest;
  if (from.mask) count_global(count, gpu, &from);
}

/* Rows of 16 bytes: eight lanes give the rows of one matrix. */
static void see_matrix(AccessCount *count, const Gpu *gpu, Warp *w, const Inst *in)
{
  unsigned lanes = 8u * in->n_list;
  Access a = {.bytes = 16, .mask = lanes >= LANES ? FULL : (1u << lanes) - 1};
  for_lanes(l, a.mask) a.address[l] = address_of(w, in, l);
  count_shared(count, gpu, &a, false);
}

static void see_lanes(AccessCount *count, const Gpu *gpu, Warp *w, const Inst *in, uint32_t mask, bool each)
{
  unsigned n = each ? MAX(in->vector, 1) : in->n_list;
  Access shared = {.bytes = in->bytes * n}, global = shared;
  bool generic = in->space == SPACE_GENERIC;
  for_lanes(l, mask)
  {
    uint64_t address = address_of(w, in, l);
    bool is_shared = in->space == SPACE_SHARED || in->space == SPACE_CLUSTER ||
                     (generic && address >> 32 == WINDOW_SHARED >> 32);
    bool is_global = in->space == SPACE_GLOBAL || (generic && address < WINDOW_CONST);
    if (is_shared) {
      shared.address[l] = address;
      shared.mask |= 1u << l;
    } else if (is_global) {
      global.address[l] = address;
      global.mask |= 1u << l;
    }
  }
  if (shared.mask) count_shared(count, gpu, &shared, each);
  if (global.mask) count_global(count, gpu, &global);
}

void counts_see(AccessCount *count, Warp *w, const Inst *in, uint32_t mask)
{
  const Gpu *gpu = w->block->cluster->run->gpu;
  __atomic_fetch_add(&count->executions, 1, __ATOMIC_RELAXED);
  switch (form_of(in)) {
  case FORM_COPY: see_copy(count, gpu, w, in, mask); break;
  case FORM_MATRIX: see_matrix(count, gpu, w, in); break;
  case FORM_ATOMIC: see_lanes(count, gpu, w, in, mask, true); break;
  default: see_lanes(count, gpu, w, in, mask, false); break;
  }
}

/* --- the result --- */

static double per(uint64_t sum, uint64_t n)
{
  return n ? (double)sum / (double)n : 0;
}

static void add_finding(SimResult *result, const char *file, SimFaultKind kind, const SimCount *c,
                        const char *message)
{
  result->faults = g_renew(SimFault, result->faults, result->n_faults + 1);
  result->faults[result->n_faults++] = (SimFault){.kind = kind,
                                                  .finding = true,
                                                  .file = g_strdup(file),
                                                  .message = g_strdup(message),
                                                  .instruction = g_strdup(c->instruction),
                                                  .line = c->line,
                                                  .column = c->column,
                                                  .count = c->executions};
}

static void find(SimResult *result, const char *file, const SimCount *c)
{
  if (c->wavefronts > c->least_wavefronts) {
    g_autofree char *text =
        g_strdup_printf("%.2f wavefronts of shared memory an execution; %.2f without conflicts",
                        per(c->wavefronts, c->executions), per(c->least_wavefronts, c->executions));
    add_finding(result, file, SIM_FAULT_BANK, c, text);
  }
  if (c->sectors > c->least_sectors) {
    g_autofree char *text =
        g_strdup_printf("%.2f sectors of global memory an execution; its bytes would fit in %.2f",
                        per(c->sectors, c->executions), per(c->least_sectors, c->executions));
    add_finding(result, file, SIM_FAULT_SECTOR, c, text);
  }
}

static void add(SimCount *sum, const SimCount *c)
{
  sum->executions += c->executions;
  sum->wavefronts += c->wavefronts;
  sum->least_wavefronts += c->least_wavefronts;
  sum->sectors += c->sectors;
  sum->least_sectors += c->least_sectors;
}

/* Copies of one line of a function that was inlined several times are one. */
static void merge(SimResult *result, const Inst *in, const AccessCount *a)
{
  const Mark *mark = &in->source->mark;
  SimCount *c = NULL;
  for (unsigned i = 0; i < result->n_counts && !c; i++)
    if (result->counts[i].line == mark->line && result->counts[i].column == mark->column)
      c = &result->counts[i];
  if (!c) {
    result->counts = g_renew(SimCount, result->counts, result->n_counts + 1);
    c = &result->counts[result->n_counts++];
    *c = (SimCount){.instruction = g_strdup(in->source->text), .line = mark->line, .column = mark->column};
  }
  const SimCount sum = {.executions = a->executions,
                        .wavefronts = a->wavefronts,
                        .least_wavefronts = a->least_wavefronts,
                        .sectors = a->sectors,
                        .least_sectors = a->least_sectors};
  add(c, &sum);
}

static int compare_counts(const void *a, const void *b)
{
  const SimCount *x = a, *y = b;
  return x->line != y->line ? (x->line < y->line ? -1 : 1) : x->column < y->column ? -1 : 1;
}

void counts_result(const Run *run, SimResult *result)
{
  for (uint32_t i = 0; i < run->kernel->n_code; i++) {
    const AccessCount *a = run->observed[i].access;
    if (a && (a->wavefronts || a->sectors)) merge(result, &run->kernel->code[i], a);
  }
  if (result->n_counts) qsort(result->counts, result->n_counts, sizeof(SimCount), compare_counts);
  for (unsigned i = 0; i < result->n_counts; i++)
    find(result, run->kernel->module->source->name, &result->counts[i]);
}

/* Instructions in a row that do the same are one line of the table: an unrolled epilogue has hundreds. */
static bool is_alike(const SimCount *a, const SimCount *b)
{
  return !strcmp(a->instruction, b->instruction) &&
         per(a->wavefronts, a->executions) == per(b->wavefronts, b->executions) &&
         per(a->least_wavefronts, a->executions) == per(b->least_wavefronts, b->executions) &&
         per(a->sectors, a->executions) == per(b->sectors, b->executions) &&
         per(a->least_sectors, a->executions) == per(b->least_sectors, b->executions);
}

static void print_pair(GString *out, uint64_t sum, uint64_t least, uint64_t n)
{
  if (least)
    g_string_append_printf(out, "%12.2f%8.2f", per(sum, n), per(least, n));
  else
    g_string_append_printf(out, "%12s%8s", "-", "-");
}

static void print_group(GString *out, const SimCount *first, const SimCount *last, const SimCount *sum,
                        int width)
{
  g_autofree char *lines =
      first == last ? g_strdup_printf("%u", first->line) : g_strdup_printf("%u-%u", first->line, last->line);
  g_string_append_printf(out, "%11s  %-*s%12" G_GUINT64_FORMAT, lines, width, first->instruction,
                         sum->executions);
  print_pair(out, sum->wavefronts, sum->least_wavefronts, sum->executions);
  print_pair(out, sum->sectors, sum->least_sectors, sum->executions);
  if (sum->wavefronts > sum->least_wavefronts)
    g_string_append_printf(out, "  %s", sim_fault_name(SIM_FAULT_BANK));
  if (sum->sectors > sum->least_sectors)
    g_string_append_printf(out, "  %s", sim_fault_name(SIM_FAULT_SECTOR));
  g_string_append_c(out, '\n');
}

char *sim_counts_to_text(const SimResult *result)
{
  GString *out = g_string_new(NULL);
  size_t width = strlen("instruction");
  for (unsigned i = 0; i < result->n_counts; i++)
    width = MAX(width, strlen(result->counts[i].instruction));
  g_string_append_printf(out, "%11s  %-*s%12s%12s%8s%12s%8s\n", "line", (int)width, "instruction",
                         "executions", "wavefronts", "least", "sectors", "least");
  SimCount all = {0};
  for (unsigned i = 0; i < result->n_counts;) {
    unsigned first = i;
    SimCount sum = {0};
    while (i < result->n_counts && is_alike(&result->counts[first], &result->counts[i]))
      add(&sum, &result->counts[i++]);
    print_group(out, &result->counts[first], &result->counts[i - 1], &sum, (int)width);
    add(&all, &sum);
  }
  g_string_append_printf(out,
                         "in all: %" G_GUINT64_FORMAT " wavefronts, least %" G_GUINT64_FORMAT
                         "; %" G_GUINT64_FORMAT " sectors, least %" G_GUINT64_FORMAT "\n",
                         all.wavefronts, all.least_wavefronts, all.sectors, all.least_sectors);
  return g_string_free(out, FALSE);
}

json_t *sim_counts_to_json(const SimResult *result)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < result->n_counts; i++) {
    const SimCount *c = &result->counts[i];
    json_array_append_new(list,
                          json_pack("{s:i, s:i, s:s, s:I, s:I, s:I, s:I, s:I}", "line", (int)c->line,
                                    "column", (int)c->column, "instruction", c->instruction, "executions",
                                    (json_int_t)c->executions, "wavefronts", (json_int_t)c->wavefronts,
                                    "least_wavefronts", (json_int_t)c->least_wavefronts, "sectors",
                                    (json_int_t)c->sectors, "least_sectors", (json_int_t)c->least_sectors));
  }
  return list;
}
