/* tensormap.replace and tensormap.cp_fenceproxy: kernels that make or change tensor maps themselves. A map
 * that is all zeros is an empty one to be filled in. */
#include "simulator/check.h"
#include "simulator/copy.h"
#include "simulator/exec.h"
#include "simulator/race.h"
#include <string.h>

#define MAP_BYTES 128

typedef enum {
  FIELD_ADDRESS,
  FIELD_RANK,
  FIELD_BOX,
  FIELD_DIMENSION,
  FIELD_STRIDE,
  FIELD_ELEMENT_STRIDE,
  FIELD_TYPE,
  FIELD_INTERLEAVE,
  FIELD_SWIZZLE,
  FIELD_FILL
} MapField;

static const char *const field_names[] = {"global_address", "rank",           "box_dim",  "global_dim",
                                          "global_stride",  "element_stride", "elemtype", "interleave_layout",
                                          "swizzle_mode",   "fill_mode",      NULL};

/* Element types by the number that stands for them in the instruction. */
static const NumberType element_types[] = {NUMBER_U8,   NUMBER_U16,  NUMBER_U32, NUMBER_S32, NUMBER_U64,
                                           NUMBER_S64,  NUMBER_F16,  NUMBER_F32, NUMBER_F32, NUMBER_F64,
                                           NUMBER_BF16, NUMBER_TF32, NUMBER_TF32};

/* The whole map, which must be one or empty. */
static Place map_place(Warp *w, const Inst *in, unsigned lane, Space space, uint64_t address, AccessKind kind,
                       TensorMap *map)
{
  Place none = {0};
  if (address & 127) {
    fault(w, in, lane, SIM_FAULT_ALIGNMENT, address,
          "a tensor map that is changed must be aligned to 128 bytes");
    return none;
  }
  Place p = memory_place(w, in, lane, space, address, MAP_BYTES, kind);
  if (!p.at) return none;
  race_access(w, in, lane, &p, MAP_BYTES, kind, false);
  memcpy(map, p.at, sizeof *map);
  if (map->magic == TENSORMAP_MAGIC) return p;
  bool empty = true;
  for (unsigned i = 0; i < MAP_BYTES; i++)
    empty &= p.at[i] == 0;
  if (empty && memory_is_defined(&p, MAP_BYTES)) return p;
  fault(w, in, lane, SIM_FAULT_OPERAND, address, "there is neither a tensor map nor zeros at this address");
  return none;
}

static bool set_field(TensorMap *m, MapField field, unsigned index, uint64_t v)
{
  switch (field) {
  case FIELD_ADDRESS: m->address = v; return !(v & 15);
  case FIELD_RANK: m->rank = (uint8_t)(v + 1); return v < 5;
  case FIELD_BOX: m->box[index] = (uint16_t)v; return v >= 1 && v <= 256;
  case FIELD_DIMENSION: m->dims[index] = (uint32_t)(v - 1); return v >= 1 && v <= 1ull << 32;
  case FIELD_STRIDE: m->strides[index & 3] = v; return index < 4 && !(v & 15) && v < 1ull << 40;
  case FIELD_ELEMENT_STRIDE: m->element_strides[index] = (uint8_t)v; return v >= 1 && v <= 8;
  case FIELD_TYPE:
    if (v >= G_N_ELEMENTS(element_types)) return false;
    m->type = (uint8_t)element_types[v];
    m->ftz = v == 8 || v == 12; /* .f32.ftz, .tf32.ftz */
    return true;
  case FIELD_INTERLEAVE: m->interleave = (uint8_t)v; return v == 0;
  case FIELD_SWIZZLE: m->swizzle_log = (uint8_t)v; return v <= 3;
  default: m->fill_nan = (uint8_t)v; return v <= 1;
  }
}

/* a[0] address, a[1] value; operation: field; immediate: of the address; more: index of the dimension */
static Step run_replace(Warp *w, const Inst *in, uint32_t mask)
{
  if (w->undefined) {
    check_value(w, in, in->a[0], mask, "the address of a tensor map");
    check_value(w, in, in->a[1], mask, "a field of a tensor map");
  }
  for_lanes(l, mask)
  {
    uint64_t address = in->wide ? lane_u64(w, in->a[0], l) : lane_u32(w, in->a[0], l);
    uint64_t v = in->bytes == 8 ? lane_u64(w, in->a[1], l) : lane_u32(w, in->a[1], l);
    TensorMap map;
    Place p = map_place(w, in, l, (Space)in->space, address + (uint64_t)in->immediate, ACCESS_WRITE, &map);
    if (!p.at) continue;
    map.magic = TENSORMAP_MAGIC;
    if (!set_field(&map, (MapField)in->operation, (unsigned)in->more, v)) {
      fault(w, in, l, SIM_FAULT_OPERAND, address, "%llu is no value for '%s' of a tensor map",
            (unsigned long long)v, field_names[in->operation]);
      continue;
    }
    memcpy(p.at, &map, sizeof map);
    memory_define(&p, MAP_BYTES, true);
  }
  return STEP_NEXT;
}

void decode_tensormap_replace(Decoder *d, int argument)
{
  Inst *in = d->in;
  int field = 0;
  if (!take(d, "tile") || !take_one(d, field_names, &field)) {
    decode_wrong(d, "the field is missing or not known");
    return;
  }
  in->space = (uint8_t)take_space(d);
  bool indexed = field == FIELD_BOX || field == FIELD_DIMENSION || field == FIELD_STRIDE ||
                 field == FIELD_ELEMENT_STRIDE;
  if (!take(d, "b1024") || operand_count(d) != (indexed ? 3 : 2)) {
    decode_fail(d, "this form is not supported");
    return;
  }
  PtxType type = need_type(d);
  bool wide;
  in->bytes = (uint8_t)ptx_type_bytes(type);
  in->operation = (uint8_t)field;
  Space space = in->space;
  in->a[0] = address(d, operand_at(d, 0), &in->immediate, &wide, &space);
  in->wide = wide;
  in->space = (uint8_t)space;
  in->more = indexed ? (uint64_t)immediate_at(d, 1) : 0;
  if (in->more > 4) decode_wrong(d, "dimension %llu", (unsigned long long)in->more);
  in->a[1] = source_at(d, indexed ? 2 : 1, type);
  in->flags |= INST_CUSTOM;
  in->run = run_replace;
}

typedef struct MapCopy {
  uint32_t from;
  int64_t from_offset;
  bool from_wide;
} MapCopy;

/* The lanes of a warp copy one map together. */
static Step run_copy_map(Warp *w, const Inst *in, uint32_t mask)
{
  const MapCopy *x = in->data;
  unsigned l = first_lane(mask);
  uint64_t to = (in->wide ? lane_u64(w, in->a[0], l) : lane_u32(w, in->a[0], l)) + (uint64_t)in->immediate;
  uint64_t from =
      (x->from_wide ? lane_u64(w, x->from, l) : lane_u32(w, x->from, l)) + (uint64_t)x->from_offset;
  TensorMap map;
  Place p = map_place(w, in, l, SPACE_SHARED, from, ACCESS_READ, &map);
  if (!p.at) return STEP_NEXT;
  if (to & 127)
    fault(w, in, l, SIM_FAULT_ALIGNMENT, to, "a tensor map that is written must be aligned to 128 bytes");
  Place q = memory_place(w, in, l, SPACE_GLOBAL, to, MAP_BYTES, ACCESS_WRITE);
  if (!q.at) return STEP_NEXT;
  race_access(w, in, l, &q, MAP_BYTES, ACCESS_WRITE, false);
  memcpy(q.at, p.at, MAP_BYTES);
  memory_define(&q, MAP_BYTES, true);
  cluster_progress(w->block->cluster);
  return STEP_NEXT;
}

void decode_tensormap_copy(Decoder *d, int argument)
{
  static const char *const parts[] = {"global", "shared::cta", "tensormap::generic", "sync", "aligned", NULL};
  static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};
  Inst *in = d->in;
  for (unsigned i = 0; parts[i]; i++)
    if (!take(d, parts[i])) decode_wrong(d, "'.%s' is missing", parts[i]);
  if (!take(d, "release") || !take_one(d, scopes, NULL)) decode_wrong(d, "release and a scope are missing");
  if (immediate_at(d, 2) != MAP_BYTES) decode_wrong(d, "a size other than 128");
  MapCopy *x = arena_new_object(d->kernel->arena, MapCopy);
  bool wide;
  in->a[0] = address(d, operand_at(d, 0), &in->immediate, &wide, NULL);
  in->wide = wide;
  x->from = address(d, operand_at(d, 1), &x->from_offset, &x->from_wide, NULL);
  in->data = x;
  in->flags |= INST_ALIGNED | INST_CUSTOM;
  in->run = run_copy_map;
}
