/* Who may touch a tile: every place keeps the accesses that later ones must be ordered after. */
#include "ir/protocol/protocol.h"

Region region_of(Machine *m, Agent *agent, const Reference *reference, unsigned block)
{
  const Tile *tile = reference->tile;
  Region region = {.tile = tile, .block = block};
  int64_t slot = evaluate_uniform(m, agent, reference->slot, 0);
  if (slot < 0 || slot >= tile->slots) slot = 0;
  region.slot = (unsigned)slot;
  region.place = block * m->program->n_places + tile->first + region.slot;
  for (unsigned d = 0; d < PROTOCOL_MAX_RANK; d++) {
    region.high[d] = tile->extent[d];
    if (!reference->high[d]) continue;
    /* a part that differs between the agent's threads: from its first thread's to its last one's */
    bool known = true;
    unsigned first = agent->warp_low * 32 + agent->lane_low;
    const Scalar *begin = reference->low[d], *end = reference->high[d];
    int64_t low = begin->kind == SCALAR_INT ? begin->number : evaluate(m, agent, begin, first, &known);
    int64_t high =
        end->kind == SCALAR_INT ? end->number : evaluate(m, agent, end, first + agent->threads - 1, &known);
    if (!known || low < 0 || high > region.high[d] || low >= high) continue;
    region.low[d] = (int32_t)low;
    region.high[d] = (int32_t)high;
  }
  return region;
}

static int64_t region_elements(const Region *region)
{
  int64_t elements = 1;
  for (unsigned d = 0; d < PROTOCOL_MAX_RANK; d++)
    elements *= region->high[d] - region->low[d];
  return elements;
}

int64_t region_bytes(const Region *region)
{
  return (int64_t)number_bytes_of(region->tile->type->element, (uint64_t)region_elements(region));
}

static bool overlaps(const Record *record, const Region *region)
{
  for (unsigned d = 0; d < PROTOCOL_MAX_RANK; d++)
    if (record->low[d] >= region->high[d] || region->low[d] >= record->high[d]) return false;
  return true;
}

static bool covers(const Region *region, const Record *record)
{
  for (unsigned d = 0; d < PROTOCOL_MAX_RANK; d++)
    if (record->low[d] < region->low[d] || record->high[d] > region->high[d]) return false;
  return true;
}

static int64_t common_elements(const Record *record, const Region *region)
{
  int64_t elements = 1;
  for (unsigned d = 0; d < PROTOCOL_MAX_RANK; d++)
    elements *= MAX(0, MIN(record->high[d], region->high[d]) - MAX(record->low[d], region->low[d]));
  return elements;
}

/* Two agents of one role or instance, or any two of a block outside of roles: they run the same ops, each for
 * its own threads. */
static bool siblings(const Agent *agent, const Agent *other)
{
  return agent->block == other->block && (agent->home_low == other->home_low || agent->role < 0);
}

static bool ordered(const Machine *m, const Agent *agent, const Step *step, const Record *record)
{
  if (record->agent < m->n_agents) {
    const Agent *other = &m->agents[record->agent];
    bool together = other != agent && siblings(agent, other);
    /* one op of all threads of a role, each its own elements */
    if (together && record->step == step->index && record->round == agent->rounds[step->index]) return true;
    /* a warpgroup's product is one operation: whoever of its warps waited for it knows that it has read */
    if (together && record->how == HOW_PRODUCT && agent->home_threads <= 128 &&
        agent->completed[1] >= record->group)
      return true;
  }
  return !record->pending && agent->clock[record->component] >= record->tick;
}

static const char *part(const Machine *m, const Agent *agent, const Agent *other)
{
  if (agent == other || !siblings(agent, other)) return "";
  return other->index < agent->index ? ", its first warp" : ", its other warps";
}

static void note_other(Machine *m, const Agent *agent, const Record *record)
{
  const Agent *other = &m->agents[record->agent];
  g_autofree char *name = agent_name(m, other);
  fault_note(m, record->step, "%s%s, iteration %u", name, part(m, agent, other), record->round);
}

static void report_write(Machine *m, const Agent *agent, const Step *step, const Region *region,
                         const Record *record)
{
  const Agent *other = &m->agents[record->agent];
  g_autofree char *mine = agent_name(m, agent), *name = agent_name(m, other);
  unsigned round = agent->rounds[step->index];
  const char *with = record->how == HOW_PRODUCT ? "a product"
                     : record->how == HOW_STORE ? "a tensor store"
                                                : "it";
  const char *hint;
  if (record->kind == ACCESS_READ && record->pending)
    hint = record->how == HOW_PRODUCT
               ? "wait for the product (wait_group products) before the slot is released"
               : "wait for the store (wait_group stores ... read) before the tile is written again";
  else
    hint = record->kind == ACCESS_READ ? "the writer must wait until the reader has said that it is done"
                                       : "the earlier content must have landed and been given back first";
  if (record->kind == ACCESS_READ)
    machine_fault(m, agent, step, "overwrite", hint,
                  "%s overwrites %s[%u] of block %u in iteration %u while %s of %s%s may still read it", mine,
                  region->tile->name, region->slot, region->block, round, with, name, part(m, agent, other));
  else
    machine_fault(
        m, agent, step, "overwrite", hint,
        "%s overwrites %s[%u] of block %u in iteration %u before what %s%s wrote there has been taken", mine,
        region->tile->name, region->slot, region->block, round, name, part(m, agent, other));
  note_other(m, agent, record);
}

static void report_read(Machine *m, const Agent *agent, const Step *step, const Region *region,
                        const Record *record)
{
  const Agent *other = &m->agents[record->agent];
  g_autofree char *mine = agent_name(m, agent), *name = agent_name(m, other);
  machine_fault(m, agent, step, "read-before-full",
                "the reader must wait at what the writer signals after writing",
                "%s reads %s[%u] of block %u in iteration %u before %s%s is known to have %s it", mine,
                region->tile->name, region->slot, region->block, agent->rounds[step->index],
                other == agent ? "its own copy" : name, part(m, agent, other),
                record->how == HOW_THREADS ? "written" : "filled");
  note_other(m, agent, record);
}

/* TMA and warpgroup MMAs do not see threads' writes unless the writer fenced them. */
static bool check_proxy(Machine *m, const Agent *agent, const Step *step, const Region *region,
                        const Record *record, How how)
{
  bool engine = how == HOW_PRODUCT || how == HOW_STORE;
  bool by_threads = record->how == HOW_THREADS || record->how == HOW_ASYNC || record->how == HOW_PEER;
  if (!engine || !by_threads) return true;
  if (record->fenced && agent->clock[record->agent] >= record->fenced) return true;
  const Agent *other = &m->agents[record->agent];
  if (other != agent && siblings(agent, other) && record->fenced && record->step == step->index) return true;
  g_autofree char *mine = agent_name(m, agent);
  machine_fault(m, agent, step, "missing-fence",
                "the writers need `fence async_shared`, then a barrier, before this",
                "%s lets %s read %s[%u], which threads wrote without a fence", mine,
                how == HOW_PRODUCT ? "a product" : "TMA", region->tile->name, region->slot);
  note_other(m, agent, record);
  return false;
}

/* Nor does a copy of TMA's wait for what threads have loaded, however they tell that a slot is free: the reader's fence does. */
static bool check_refill(Machine *m, const Agent *agent, const Step *step, const Region *region,
                         const Record *record, How how)
{
  bool copies = how == HOW_TENSOR && step->op->code != OP_PUT; /* threads write that themselves */
  if (!copies || record->kind != ACCESS_READ || record->how != HOW_THREADS) return true;
  if (record->fenced && agent->clock[record->agent] >= record->fenced) return true;
  g_autofree char *mine = agent_name(m, agent);
  machine_fault(m, agent, step, "missing-fence",
                "the readers need `fence async_shared` behind their loads, in front of the arrival",
                "%s lets TMA overwrite %s[%u], of which threads loaded without a fence behind it", mine,
                region->tile->name, region->slot);
  note_other(m, agent, record);
  return false;
}

static bool check_records(Machine *m, Agent *agent, const Step *step, const Region *region, AccessKind kind,
                          How how, unsigned place, bool alias)
{
  const GArray *records = m->places[place].records;
  for (unsigned i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    if (kind == ACCESS_READ && record->kind == ACCESS_READ) continue;
    if (!alias && !overlaps(record, region)) continue;
    if (!ordered(m, agent, step, record)) {
      (kind == ACCESS_READ ? report_read : report_write)(m, agent, step, region, record);
      return false;
    }
    bool seen = kind == ACCESS_READ ? check_proxy(m, agent, step, region, record, how)
                                    : check_refill(m, agent, step, region, record, how);
    if (!seen) return false;
  }
  return true;
}

static bool check_filled(Machine *m, const Agent *agent, const Step *step, const Region *region)
{
  const GArray *records = m->places[region->place].records;
  int64_t found = 0, elements = region_elements(region);
  for (unsigned i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    if (record->kind == ACCESS_WRITE) found += common_elements(record, region);
  }
  if (found >= elements) return true;
  g_autofree char *mine = agent_name(m, agent);
  machine_fault(m, agent, step, "read-before-full", "is the wait before it there, and its parity right?",
                "%s reads %s[%u] of block %u in iteration %u, %s which nobody has written", mine,
                region->tile->name, region->slot, region->block, agent->rounds[step->index],
                found ? "part of" : "all of");
  return false;
}

/* What threads put into a slot is taken before they put something there again: a barrier between the two orders them, and
 * loses the first. */
static bool check_taken(Machine *m, const Agent *agent, const Step *step, const Region *region)
{
  const GArray *records = m->places[region->place].records;
  const Record *lost = NULL;
  if (step->op->code != OP_PUT || !region->tile->channel) return true;
  for (unsigned i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    if (!overlaps(record, region)) continue;
    if (record->kind == ACCESS_READ) return true;
    bool again = record->step != step->index || record->round != agent->rounds[step->index];
    if (record->agent == agent->index && again) lost = record;
  }
  if (!lost) return true;
  g_autofree char *mine = agent_name(m, agent);
  machine_fault(m, agent, step, "overwrite",
                "a channel needs as many `slots` as are filled before one of them is taken",
                "%s fills %s[%u] again in iteration %u before what it holds has been taken", mine,
                region->tile->name, region->slot, agent->rounds[step->index]);
  note_other(m, agent, lost);
  return false;
}

static bool is_filled_since(const GArray *records, const Record *read, const Region *region)
{
  for (unsigned i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    if (record->kind == ACCESS_WRITE && record->order > read->order && overlaps(record, region)) return true;
  }
  return false;
}

/* Where no barrier counts a ring's slots, a `take` that no fill belongs to would find what another one has taken. */
static bool check_full(Machine *m, const Agent *agent, const Step *step, const Region *region)
{
  const GArray *records = m->places[region->place].records;
  if (!region->tile->channel || ir_attribute(region->tile->op->parent->owner, ATTR_FULL_ARRIVALS))
    return true;
  for (unsigned i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    if (record->agent != agent->index || !record->taken || !overlaps(record, region) ||
        is_filled_since(records, record, region))
      continue;
    g_autofree char *mine = agent_name(m, agent);
    machine_fault(m, agent, step, "read-before-full", "there are as many takes of a channel as fills",
                  "%s takes %s[%u] again in iteration %u, and nothing has filled it since", mine,
                  region->tile->name, region->slot, agent->rounds[step->index]);
    note_other(m, agent, record);
    return false;
  }
  return true;
}

void memory_step(Machine *m, const Agent *agent, const IrOp *channel, unsigned slot)
{
  for (unsigned i = 0; i < m->program->tiles->len; i++) {
    const Tile *tile = m->program->tiles->pdata[i];
    if (!tile->channel || tile->op->parent->owner != channel || slot >= tile->slots) continue;
    GArray *records = m->places[agent->block * m->program->n_places + tile->first + slot].records;
    for (unsigned j = 0; j < records->len; j++) {
      Record *record = &g_array_index(records, Record, j);
      record->taken |= record->kind == ACCESS_READ && record->agent == agent->index;
    }
  }
}

static void remember(Machine *m, Agent *agent, const Step *step, const Region *region, AccessKind kind,
                     How how)
{
  GArray *records = m->places[region->place].records;
  unsigned family = how == HOW_PRODUCT ? 1 : how == HOW_STORE ? 2 : 0;
  Record made = {.kind = kind,
                 .how = how,
                 .component = agent->index,
                 .tick = agent->clock[agent->index],
                 .agent = agent->index,
                 .step = step->index,
                 .round = agent->rounds[step->index],
                 .group = agent->committed[family] + 1};
  made.order = ++m->accesses;
  made.pending = how == HOW_ASYNC || how == HOW_TENSOR || how == HOW_PRODUCT || how == HOW_STORE;
  if (how == HOW_TENSOR) made.copy = m->copies;
  memcpy(made.low, region->low, sizeof made.low);
  memcpy(made.high, region->high, sizeof made.high);
  for (unsigned i = 0; i < records->len;) { /* what this one stands for from now on */
    Record *old = &g_array_index(records, Record, i);
    const Agent *other = &m->agents[old->agent];
    bool same_op = old->step == step->index && old->round == made.round && other != agent;
    bool gone = kind == ACCESS_WRITE ? covers(region, old) && !same_op
                                     : old->kind == ACCESS_READ && old->agent == agent->index &&
                                           !old->pending && old->step == step->index && covers(region, old);
    if (gone)
      g_array_remove_index_fast(records, i);
    else
      i++;
  }
  g_array_append_val(records, made);
  if (!made.pending || how == HOW_TENSOR) return;
  Pending pending = {region->place, made.group, how};
  g_array_append_val(agent->pending, pending);
}

/* Products are one operation of four warps: only agents that have the first warp of one keep its reads. */
bool memory_access(Machine *m, Agent *agent, const Step *step, const Region *region, AccessKind kind, How how,
                   bool record)
{
  if (!check_records(m, agent, step, region, kind, how, region->place, false)) return false;
  const bool *alias = m->program->alias ? m->program->alias[region->place % m->program->n_places] : NULL;
  for (unsigned i = 0; alias && i < m->program->n_places; i++) {
    if (!alias[i]) continue;
    unsigned place = region->block * m->program->n_places + i;
    if (kind == ACCESS_WRITE && !check_records(m, agent, step, region, kind, how, place, true)) return false;
  }
  if (kind == ACCESS_READ && !check_filled(m, agent, step, region)) return false;
  if (kind == ACCESS_READ && !check_full(m, agent, step, region)) return false;
  if (kind == ACCESS_WRITE && how == HOW_THREADS && !check_taken(m, agent, step, region)) return false;
  if (record) remember(m, agent, step, region, kind, how);
  return true;
}

/* Groups up to `group` of this agent are done: from now on its clock stands for them. */
void memory_complete(Machine *m, Agent *agent, How how, unsigned group)
{
  for (unsigned i = 0; i < agent->pending->len;) {
    Pending *pending = &g_array_index(agent->pending, Pending, i);
    if (pending->how != how || pending->group > group) {
      i++;
      continue;
    }
    GArray *records = m->places[pending->place].records;
    for (unsigned j = 0; j < records->len; j++) {
      Record *record = &g_array_index(records, Record, j);
      if (record->agent != agent->index || record->how != how || record->group > group || !record->pending)
        continue;
      record->pending = false;
      record->tick = agent->clock[agent->index];
      remote_note(m, agent, program_step(m->program, record->step), pending->place / m->program->n_places);
    }
    g_array_remove_index_fast(agent->pending, i);
  }
}

void memory_promise(Machine *m, Agent *agent, unsigned block, unsigned component, Tick tick)
{
  for (unsigned i = 0; i < agent->pending->len;) {
    const Pending *pending = &g_array_index(agent->pending, Pending, i);
    if (pending->how != HOW_PRODUCT || pending->place / m->program->n_places != block) {
      i++;
      continue;
    }
    GArray *records = m->places[pending->place].records;
    for (unsigned j = 0; j < records->len; j++) {
      Record *record = &g_array_index(records, Record, j);
      if (record->agent != agent->index || record->how != HOW_PRODUCT || !record->pending) continue;
      record->pending = false;
      record->component = component;
      record->tick = tick;
    }
    g_array_remove_index_fast(agent->pending, i);
  }
}

/* A TMA copy has landed: readers know when they have seen that phase of its barrier. */
void memory_land(Machine *m, const Flight *flight, unsigned component, Tick tick)
{
  GArray *records = m->places[flight->place].records;
  for (unsigned i = 0; i < records->len; i++) {
    Record *record = &g_array_index(records, Record, i);
    if (record->copy != flight->copy || record->how != HOW_TENSOR || !record->pending) continue;
    record->pending = false;
    record->component = component;
    record->tick = tick;
  }
}

/* fence async_shared: all that this agent has written or loaded so far. */
void memory_fence(Machine *m, Agent *agent)
{
  unsigned n = m->program->n_places;
  for (unsigned place = 0; place < m->blocks * n; place++) {
    GArray *records = m->places[place].records;
    for (unsigned i = 0; i < records->len; i++) {
      Record *record = &g_array_index(records, Record, i);
      if (record->agent == agent->index && !record->pending && !record->fenced)
        record->fenced = agent->clock[agent->index];
    }
  }
}
