/* Names that stand before what they name: addresses in initialisers, lists of branch and call targets,
 * aliases; and the table of special registers. */
#include "simulator/ptx_reader.h"
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  PtxType type;
} specials[] = {
    {"%tid.x", TYPE_U32},
    {"%tid.y", TYPE_U32},
    {"%tid.z", TYPE_U32},
    {"%ntid.x", TYPE_U32},
    {"%ntid.y", TYPE_U32},
    {"%ntid.z", TYPE_U32},
    {"%ctaid.x", TYPE_U32},
    {"%ctaid.y", TYPE_U32},
    {"%ctaid.z", TYPE_U32},
    {"%nctaid.x", TYPE_U32},
    {"%nctaid.y", TYPE_U32},
    {"%nctaid.z", TYPE_U32},
    {"%clusterid.x", TYPE_U32},
    {"%clusterid.y", TYPE_U32},
    {"%clusterid.z", TYPE_U32},
    {"%nclusterid.x", TYPE_U32},
    {"%nclusterid.y", TYPE_U32},
    {"%nclusterid.z", TYPE_U32},
    {"%cluster_ctaid.x", TYPE_U32},
    {"%cluster_ctaid.y", TYPE_U32},
    {"%cluster_ctaid.z", TYPE_U32},
    {"%cluster_nctaid.x", TYPE_U32},
    {"%cluster_nctaid.y", TYPE_U32},
    {"%cluster_nctaid.z", TYPE_U32},
    {"%cluster_ctarank", TYPE_U32},
    {"%cluster_nctarank", TYPE_U32},
    {"%is_explicit_cluster", TYPE_PRED},
    {"%laneid", TYPE_U32},
    {"%warpid", TYPE_U32},
    {"%nwarpid", TYPE_U32},
    {"%smid", TYPE_U32},
    {"%nsmid", TYPE_U32},
    {"%gridid", TYPE_U64},
    {"%lanemask_eq", TYPE_U32},
    {"%lanemask_lt", TYPE_U32},
    {"%lanemask_le", TYPE_U32},
    {"%lanemask_gt", TYPE_U32},
    {"%lanemask_ge", TYPE_U32},
    {"%clock", TYPE_U32},
    {"%clock_hi", TYPE_U32},
    {"%clock64", TYPE_U64},
    {"%globaltimer", TYPE_U64},
    {"%globaltimer_lo", TYPE_U32},
    {"%globaltimer_hi", TYPE_U32},
    {"%dynamic_smem_size", TYPE_U32},
    {"%total_smem_size", TYPE_U32},
    {"%aggr_smem_size", TYPE_U32},
    {"%reserved_smem_offset_begin", TYPE_U32},
    {"%reserved_smem_offset_end", TYPE_U32},
    {"%reserved_smem_offset_cap", TYPE_U32},
    {"%reserved_smem_offset_0", TYPE_U32},
    {"%reserved_smem_offset_1", TYPE_U32},
    {"%current_graph_exec", TYPE_U64},
};

PtxType reader_special_type(const char *name)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(specials); i++)
    if (strcmp(specials[i].name, name) == 0) return specials[i].type;
  unsigned n = 0, end = 0;
  if (sscanf(name, "%%envreg%u%n", &n, &end) == 1 && !name[end] && n < 32) return TYPE_U32;
  if (sscanf(name, "%%pm%u_64%n", &n, &end) == 1 && end && !name[end] && n < 8) return TYPE_U64;
  end = 0;
  if (sscanf(name, "%%pm%u%n", &n, &end) == 1 && !name[end] && n < 8) return TYPE_U32;
  return TYPE_NONE;
}

/* name, name + number, generic(name), generic(name) + number */
static bool read_target(Reader *r, PtxRelocation *out)
{
  out->mark = reader_mark(r);
  if (!(out->name = reader_name(r))) return false;
  if (strcmp(out->name, "generic") == 0 && reader_accept(r, '(')) {
    out->generic = true;
    out->mark = reader_mark(r);
    if (!(out->name = reader_name(r)) || !reader_expect(r, ')')) return false;
  }
  reader_space(r);
  if (*r->p == '+' || *r->p == '-') return reader_constant(r, &out->addend);
  return true;
}

bool reader_initialiser_address(Reader *r, PtxSymbol *variable, GArray *relocations, uint64_t offset)
{
  PtxRelocation found = {.offset = offset, .bytes = ptx_type_bytes(variable->type), .mask = ~0ull};
  if (!reader_at_name(r)) { /* 0xff00(name) */
    int64_t mask;
    if (!reader_constant(r, &mask) || !reader_expect(r, '(') || !read_target(r, &found)) return false;
    if (!mask) return reader_fail(r, &found.mark, "ptx-initialiser", "a mask of 0");
    found.mask = (uint64_t)mask;
    if (!reader_expect(r, ')')) return false;
  } else if (!read_target(r, &found)) {
    return false;
  }
  g_array_append_val(relocations, found);
  return true;
}

typedef struct TargetList {
  PtxSymbol *label;
  Scope *scope;
  GPtrArray *names;
  Mark mark;
} TargetList;

static void target_list_free(void *data)
{
  TargetList *list = data;
  g_ptr_array_free(list->names, TRUE);
  g_free(list);
}

bool reader_target_list(Reader *r)
{
  if (!r->last_label || r->last_label->position != r->code->len)
    return reader_fail(r, NULL, "ptx-label", "a list of targets needs a label before it");
  TargetList *list = g_new0(TargetList, 1);
  *list = (TargetList){.label = r->last_label, .scope = r->scope, .names = g_ptr_array_new()};
  list->mark = reader_mark(r);
  if (!r->target_lists) r->target_lists = g_ptr_array_new_with_free_func(target_list_free);
  g_ptr_array_add(r->target_lists, list);
  do {
    const char *name = reader_name(r);
    if (!name) return false;
    g_ptr_array_add(list->names, (char *)name);
  } while (reader_accept(r, ','));
  return reader_expect(r, ';');
}

bool reader_resolve_targets(Reader *r)
{
  for (unsigned i = 0; r->target_lists && i < r->target_lists->len; i++) {
    TargetList *list = r->target_lists->pdata[i];
    list->label->targets = arena_new_array(r->module->arena, PtxSymbol *, list->names->len);
    list->label->n_targets = list->names->len;
    for (unsigned k = 0; k < list->names->len; k++) {
      const char *name = list->names->pdata[k];
      PtxSymbol *found = NULL;
      for (Scope *s = list->scope; s && !found; s = s->parent)
        found = g_hash_table_lookup(s->names, name);
      if (!found) return reader_fail(r, &list->mark, "ptx-undeclared", "'%s' is not declared", name);
      list->label->targets[k] = found;
    }
  }
  return true;
}

typedef struct PtxAlias {
  PtxSymbol *alias;
  const char *target;
  Mark mark;
} PtxAlias;

bool reader_alias(Reader *r)
{
  PtxAlias *found = g_new0(PtxAlias, 1);
  if (!r->aliases) r->aliases = g_ptr_array_new_with_free_func(g_free);
  g_ptr_array_add(r->aliases, found);
  found->mark = reader_mark(r);
  const char *name = reader_name(r);
  if (!name || !reader_expect(r, ',') || !(found->target = reader_name(r)) || !reader_expect(r, ';'))
    return false;
  found->alias = g_hash_table_lookup(r->scope->names, name);
  if (found->alias && found->alias->kind == SYMBOL_FUNCTION && !found->alias->function->has_body) return true;
  return reader_fail(r, &found->mark, "ptx-alias", "'%s' is no declared function without a body", name);
}

bool reader_link(Reader *r, const GPtrArray *variables)
{
  for (unsigned i = 0; r->aliases && i < r->aliases->len; i++) {
    PtxAlias *a = r->aliases->pdata[i];
    PtxSymbol *target = g_hash_table_lookup(r->scope->names, a->target);
    if (!target || target->kind != SYMBOL_FUNCTION || !target->function->has_body)
      return reader_fail(r, &a->mark, "ptx-alias", "'%s' is no function with a body", a->target);
    const char *name = a->alias->function->name;
    bool taken = a->alias->function->address_taken;
    *a->alias->function = *target->function; /* calls point at it already */
    a->alias->function->name = name;
    a->alias->function->address_taken |= taken;
  }
  for (unsigned i = 0; i < variables->len; i++) {
    PtxSymbol *s = variables->pdata[i];
    for (unsigned k = 0; k < s->n_relocations; k++) {
      PtxRelocation *x = &s->relocations[k];
      x->symbol = g_hash_table_lookup(r->scope->names, x->name);
      if (!x->symbol) return reader_fail(r, &x->mark, "ptx-undeclared", "'%s' is not declared", x->name);
      if (x->symbol->kind == SYMBOL_FUNCTION) x->symbol->function->address_taken = true;
    }
  }
  return true;
}
