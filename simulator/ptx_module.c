/* Grammar of the module: version, target, variables, functions and their performance directives. */
#include "simulator/forms.h"
#include "simulator/ptx_reader.h"
#include "simulator/requirements.h"
#include <string.h>

#define MAX_VARIABLE ((uint64_t)1 << 32)

static bool layout(Reader *r, PtxSymbol *s)
{
  uint64_t *end;
  PtxFunction *f = r->function;
  switch (s->space) {
  case SPACE_SHARED:
    if (s->is_extern) {
      r->module->dynamic_align = MAX(r->module->dynamic_align, s->align);
      return true;
    }
    end = f ? &f->shared_bytes : &r->module->shared_bytes;
    if (f && s->align > f->shared_align) f->shared_align = s->align;
    if (f) {
      s->next_shared = f->shared;
      f->shared = s;
    }
    break;
  case SPACE_CONST: end = &r->module->const_bytes; break;
  case SPACE_LOCAL:
  case SPACE_PARAM:
    if (!f) return reader_fail(r, &s->mark, "ptx-space", "this variable must stand inside a function");
    end = s->is_parameter && f->is_entry ? &f->parameter_bytes : &f->local_bytes;
    break;
  default: return true;
  }
  *end = (*end + s->align - 1) / s->align * s->align;
  s->offset = *end;
  *end += s->bytes;
  if (*end > MAX_VARIABLE) return reader_fail(r, &s->mark, "ptx-size", "variables take more than 4 GiB");
  return true;
}

static void store_value(uint8_t *at, PtxType type, const PtxOperand *value)
{
  if (value->kind == OPERAND_FLOAT && ptx_type_bytes(type) == 4 && !value->single) {
    float f = (float)value->number;
    memcpy(at, &f, 4);
  } else {
    memcpy(at, &value->value, MIN(ptx_type_bytes(type), 8)); /* little-endian hosts only */
  }
}

/* Here stands a name, or a mask in front of one: 0xff00(name). */
static bool at_address(Reader *r)
{
  if (reader_at_name(r)) return true;
  const char *p = r->p;
  while (g_ascii_isxdigit(*p) || *p == 'x' || *p == 'X')
    p++;
  return p > r->p && *p == '(';
}

static bool read_values(Reader *r, PtxSymbol *s, GArray *relocations, uint64_t *position)
{
  if (reader_accept(r, '{')) {
    if (++r->depth > 16) return reader_fail(r, NULL, "ptx-syntax", "initialiser nested too deeply");
    do {
      if (!read_values(r, s, relocations, position)) return false;
    } while (reader_accept(r, ','));
    r->depth--;
    return reader_expect(r, '}');
  }
  PtxOperand value = {.kind = OPERAND_INTEGER};
  unsigned bytes = ptx_type_bytes(s->type);
  if (*position + bytes > s->bytes) return reader_fail(r, NULL, "ptx-initialiser", "too many values");
  if (at_address(r)) {
    *position += bytes;
    return reader_initialiser_address(r, s, relocations, *position - bytes);
  }
  bool minus = *r->p == '-';
  if (minus) r->p++;
  if (!reader_number(r, &value)) return false;
  if (minus && value.kind == OPERAND_INTEGER) value.value = (int64_t)(0 - (uint64_t)value.value);
  if (minus && value.kind == OPERAND_FLOAT) {
    value.number = -value.number;
    value.value ^= value.single ? (int64_t)1 << 31 : INT64_MIN;
  }
  store_value(s->init + *position, s->type, &value);
  *position += bytes;
  return true;
}

static bool skip_parentheses(Reader *r)
{
  if (!reader_expect(r, '(')) return false;
  while (*r->p && *r->p != ')' && *r->p != '\n')
    r->p++;
  return reader_expect(r, ')');
}

/* Between the space and the name: ".align 16 .b8", ".u64 .ptr .global .align 16", ".v4 .f32". */
static bool variable_type(Reader *r, PtxSymbol *s, unsigned *vector)
{
  bool pointer = false;
  while (reader_at_name(r) && *r->p == '.') {
    const char *word = reader_name(r);
    int64_t n;
    if (strcmp(word, ".align") == 0) {
      if (!reader_constant(r, &n)) return false;
      if (n < 1 || n > 1 << 20 || (n & (n - 1))) return reader_fail(r, NULL, "ptx-align", "bad alignment");
      if (!pointer) s->align = (uint64_t)n;
    } else if (strcmp(word, ".ptr") == 0) {
      pointer = true;
    } else if (strcmp(word, ".v2") == 0 || strcmp(word, ".v4") == 0) {
      *vector = (unsigned)(word[2] - '0');
    } else if (strcmp(word, ".attribute") == 0) {
      if (!skip_parentheses(r)) return false; /* .managed, .unified: no other meaning here */
    } else if (pointer) {
      continue; /* the space a pointer points to: a hint */
    } else if (strcmp(word, ".texref") == 0 || strcmp(word, ".surfref") == 0 ||
               strcmp(word, ".samplerref") == 0) {
      return reader_unsupported(r, NULL, "textures and surfaces are not supported");
    } else if ((s->type = ptx_type_parse(word + 1)) == TYPE_NONE) {
      return reader_fail(r, NULL, "ptx-type", "'%s' is no type", word);
    }
  }
  if (s->type == TYPE_NONE) return reader_fail(r, NULL, "ptx-type", "a type is missing");
  return true;
}

/* *out: the variable before it in a list, NULL: none */
bool reader_variable(Reader *r, Space space, bool is_extern, bool parameter, PtxSymbol **out)
{
  PtxSymbol *s = arena_new_object(r->module->arena, PtxSymbol);
  *s = (PtxSymbol){.kind = SYMBOL_VARIABLE, .space = space, .is_extern = is_extern, .type = TYPE_NONE};
  s->is_parameter = parameter;
  s->function = r->function;
  unsigned vector = 1;
  reader_space(r);
  if (*out && *r->p != '.') { /* a further name of a list: ".u32 a, b" */
    s->type = (*out)->type;
    vector = (*out)->vector;
  } else if (!variable_type(r, s, &vector)) {
    return false;
  }
  s->vector = vector;
  reader_space(r);
  s->mark = reader_mark(r);
  if (!(s->name = reader_name(r))) return false;
  s->bytes = ptx_type_bytes(s->type) * vector;
  if (!s->align) s->align = MAX(s->bytes, 1);
  while (reader_accept(r, '[')) {
    int64_t n = 0;
    if (!reader_accept(r, ']')) {
      if (!reader_constant(r, &n) || !reader_expect(r, ']')) return false;
    } else if (space == SPACE_SHARED) {
      s->is_extern = true;
    }
    if (n < 0 || (n && s->bytes > MAX_VARIABLE / (uint64_t)n))
      return reader_fail(r, &s->mark, "ptx-size", "absurd size of '%s'", s->name);
    s->bytes *= (uint64_t)n;
  }
  if (reader_accept(r, '=')) {
    s->init = arena_alloc(r->module->arena, s->bytes + 8);
    uint64_t position = 0;
    g_autoptr(GArray) relocations = g_array_new(FALSE, TRUE, sizeof(PtxRelocation));
    if (!read_values(r, s, relocations, &position)) return false;
    s->n_relocations = relocations->len;
    s->relocations =
        arena_memdup(r->module->arena, relocations->data, relocations->len * sizeof(PtxRelocation));
  }
  *out = s;
  return layout(r, s) && reader_declare(r, s);
}

static bool read_parameters(Reader *r, PtxSymbol ***list, unsigned *n)
{
  if (!reader_accept(r, '(')) return true;
  GPtrArray *found = g_ptr_array_new();
  bool ok = true;
  if (!reader_accept(r, ')')) {
    do {
      const char *word = reader_name(r);
      PtxSymbol *s = NULL;
      if (!word) {
        ok = false;
      } else if (strcmp(word, ".param") == 0) {
        ok = reader_variable(r, SPACE_PARAM, false, true, &s);
      } else if (strcmp(word, ".reg") == 0 && !r->function->is_entry) {
        ok = (s = reader_register(r)) != NULL;
      } else {
        ok = reader_fail(r, NULL, "ptx-parameter", "parameters in '%s' are not supported", word);
      }
      g_ptr_array_add(found, s);
    } while (ok && reader_accept(r, ','));
    ok = ok && reader_expect(r, ')');
  }
  *n = found->len;
  *list = arena_memdup(r->module->arena, found->pdata, found->len * sizeof(void *));
  g_ptr_array_free(found, TRUE);
  return ok;
}

static bool read_triple(Reader *r, unsigned out[3])
{
  out[0] = out[1] = out[2] = 1;
  for (unsigned i = 0; i < 3; i++) {
    int64_t n;
    if (!reader_constant(r, &n)) return false;
    if (n < 0 || n > 1 << 20) return reader_fail(r, NULL, "ptx-size", "absurd dimension");
    out[i] = (unsigned)n;
    if (!reader_accept(r, ',')) break;
  }
  return true;
}

static bool read_performance(Reader *r, PtxFunction *f)
{
  while (reader_at_name(r) && *r->p == '.') {
    const char *word = reader_name(r);
    unsigned one[3];
    bool ok = true;
    if (strcmp(word, ".maxntid") == 0) {
      ok = read_triple(r, f->max_threads);
    } else if (strcmp(word, ".reqntid") == 0) {
      ok = read_triple(r, f->required_threads);
    } else if (strcmp(word, ".reqnctapercluster") == 0) {
      ok = read_triple(r, f->cluster);
    } else if (strcmp(word, ".maxnreg") == 0) {
      ok = read_triple(r, one);
      f->max_registers = one[0];
    } else if (strcmp(word, ".minnctapersm") == 0 || strcmp(word, ".maxnctapersm") == 0) {
      ok = read_triple(r, one);
      f->min_blocks = one[0];
    } else if (strcmp(word, ".maxclusterrank") == 0 || strcmp(word, ".abi_preserve") == 0 ||
               strcmp(word, ".abi_preserve_control") == 0) {
      ok = read_triple(r, one);
    } else if (strcmp(word, ".pragma") == 0) {
      ok = reader_string_literal(r) && reader_expect(r, ';');
    } else if (strcmp(word, ".explicitcluster") && strcmp(word, ".noreturn") &&
               strcmp(word, ".blocksareclusters")) {
      return reader_fail(r, NULL, "ptx-directive", "directive '%s' is not known here", word);
    }
    if (!ok) return false;
  }
  return true;
}

static void scope_free(void *data)
{
  Scope *s = data;
  g_hash_table_destroy(s->names);
  g_free(s);
}

/* A function may call itself: its name is known before its body. */
static bool declare_function(Reader *r, PtxFunction *f)
{
  Scope *outer = r->scope;
  while (outer->parent)
    outer = outer->parent;
  PtxSymbol *known = g_hash_table_lookup(outer->names, f->name);
  if (known && (known->kind != SYMBOL_FUNCTION || (known->function->has_body && f->has_body)))
    return reader_fail(r, &f->mark, "ptx-duplicate", "'%s' is defined twice", f->name);
  if (known) return true;
  PtxSymbol *symbol = arena_new_object(r->module->arena, PtxSymbol);
  *symbol = (PtxSymbol){.kind = SYMBOL_FUNCTION, .name = f->name, .mark = f->mark, .function = f};
  g_hash_table_insert(outer->names, (char *)f->name, symbol);
  return true;
}

static bool function_text(Reader *r, PtxFunction *f)
{
  if (!f->is_entry && !read_parameters(r, &f->results, &f->n_results)) return false;
  reader_space(r);
  f->mark = reader_mark(r);
  if (!(f->name = reader_name(r))) return false;
  if (!read_parameters(r, &f->parameters, &f->n_parameters)) return false;
  if (!read_performance(r, f)) return false;
  if (reader_accept(r, ';')) return true;
  if (!reader_expect(r, '{')) return false;
  f->has_body = true;
  if (!declare_function(r, f) || !reader_body(r)) return false;
  f->n_code = r->code->len;
  f->code = arena_memdup(r->module->arena, r->code->data, r->code->len * sizeof(PtxInstruction));
  return true;
}

static bool read_function(Reader *r, bool entry)
{
  PtxFunction *f = arena_new_object(r->module->arena, PtxFunction);
  f->is_entry = entry;
  f->shared_align = 1;
  Scope *outer = r->scope;
  r->scopes = g_ptr_array_new_with_free_func(scope_free);
  r->code = g_array_new(FALSE, TRUE, sizeof(PtxInstruction));
  r->code_scopes = g_ptr_array_new();
  r->slot_bytes = g_byte_array_new();
  r->target_lists = NULL;
  r->last_label = NULL;
  r->function = f;
  reader_push_scope(r);
  bool ok = function_text(r, f);
  f->slot_bytes = arena_memdup(r->module->arena, r->slot_bytes->data, r->slot_bytes->len);
  g_byte_array_free(r->slot_bytes, TRUE);
  if (r->target_lists) g_ptr_array_free(r->target_lists, TRUE);
  r->target_lists = NULL;
  g_ptr_array_free(r->scopes, TRUE);
  g_ptr_array_free(r->code_scopes, TRUE);
  g_array_free(r->code, TRUE);
  r->scope = outer;
  r->scopes = NULL;
  r->function = NULL;
  if (!ok) return false;
  if (!f->has_body && !declare_function(r, f)) return false;
  PtxSymbol *known = g_hash_table_lookup(outer->names, f->name);
  if (known->function == f || !f->has_body) return true;
  bool taken = known->function->address_taken;
  *known->function = *f; /* calls that saw the prototype point at it */
  known->function->address_taken |= taken;
  return true;
}

static bool skip_section(Reader *r)
{
  while (*r->p && *r->p != '{')
    r->p++;
  while (*r->p && *r->p != '}') {
    if (*r->p == '\n') {
      r->line++;
      r->line_start = r->p + 1;
    }
    r->p++;
  }
  return reader_expect(r, '}');
}

static bool module_item(Reader *r, GPtrArray *variables)
{
  bool is_extern = false;
  for (;;) {
    reader_space(r);
    Mark mark = reader_mark(r);
    const char *word = reader_name(r);
    if (!word) return false;
    static const struct {
      const char *name;
      Space space;
    } spaces[] = {{".shared", SPACE_SHARED}, {".global", SPACE_GLOBAL}, {".const", SPACE_CONST}};
    for (unsigned i = 0; i < G_N_ELEMENTS(spaces); i++)
      if (strcmp(word, spaces[i].name) == 0) {
        PtxSymbol *s = NULL;
        do {
          if (!reader_variable(r, spaces[i].space, is_extern, false, &s)) return false;
          g_ptr_array_add(variables, s);
        } while (reader_accept(r, ','));
        return reader_expect(r, ';');
      }
    if (strcmp(word, ".extern") == 0)
      is_extern = true;
    else if (strcmp(word, ".entry") == 0 || strcmp(word, ".func") == 0)
      return read_function(r, word[1] == 'e');
    else if (strcmp(word, ".file") == 0 || strcmp(word, ".loc") == 0) {
      while (*r->p && *r->p != '\n')
        r->p++;
      return true;
    } else if (strcmp(word, ".alias") == 0) {
      return reader_alias(r);
    } else if (strcmp(word, ".section") == 0) {
      return skip_section(r);
    } else if (strcmp(word, ".pragma") == 0) {
      return reader_string_literal(r) && reader_expect(r, ';');
    } else if (strcmp(word, ".visible") && strcmp(word, ".weak") && strcmp(word, ".common")) {
      return reader_fail(r, &mark, "ptx-directive", "'%s' is not known at module level", word);
    }
  }
}

static bool read_header(Reader *r)
{
  const char *word = reader_name(r);
  PtxOperand version = {0};
  if (!word || strcmp(word, ".version"))
    return reader_fail(r, NULL, "ptx-header", "PTX text begins with .version");
  if (!reader_number(r, &version)) return false;
  if (version.kind != OPERAND_FLOAT || version.number < 1 || version.number > 99)
    return reader_fail(r, NULL, "ptx-header", "bad .version");
  r->module->version = (unsigned)(version.number * 10 + 0.5);
  word = reader_name(r);
  if (!word || strcmp(word, ".target")) return reader_fail(r, NULL, "ptx-header", ".target is missing");
  do {
    reader_space(r);
    Mark mark = reader_mark(r);
    word = reader_name(r);
    if (!word) return false;
    if (!r->module->target) r->target_mark = mark;
    if (!r->module->target) r->module->target = word;
  } while (reader_accept(r, ','));
  reader_space(r);
  if (g_str_has_prefix(r->p, ".address_size")) {
    PtxOperand size = {0};
    reader_name(r);
    if (!reader_number(r, &size)) return false;
    if (size.value == 32) return reader_unsupported(r, NULL, "only 64-bit addresses are supported");
    if (size.value != 64) return reader_fail(r, NULL, "ptx-header", "bad .address_size");
  }
  return true;
}

PtxModule *ptx_parse(Source *source, GError **error)
{
  PtxModule *m = g_new0(PtxModule, 1);
  m->arena = arena_new();
  m->source = source_ref(source);
  Reader r = {.module = m, .source = source, .p = source->text, .line_start = source->text, .line = 1};
  GError *local = NULL;
  r.error = &local;
  Scope global = {.names = g_hash_table_new(g_str_hash, g_str_equal)};
  r.scope = &global;
  g_autoptr(GPtrArray) variables = g_ptr_array_new();
  r.variables = variables;
  bool ok = read_header(&r);
  while (ok) {
    reader_space(&r);
    if (!*r.p) break;
    ok = module_item(&r, variables);
  }
  ok = ok && reader_link(&r, variables);
  if (r.aliases) g_ptr_array_free(r.aliases, TRUE);
  m->variables = arena_memdup(m->arena, variables->pdata, variables->len * sizeof(void *));
  m->n_variables = variables->len;
  GHashTableIter iter;
  void *value;
  m->functions = arena_new_array(m->arena, PtxFunction *, g_hash_table_size(global.names) + 1);
  g_hash_table_iter_init(&iter, global.names);
  while (g_hash_table_iter_next(&iter, NULL, &value)) {
    PtxSymbol *s = value;
    if (s->kind == SYMBOL_FUNCTION) m->functions[m->n_functions++] = s->function;
  }
  g_hash_table_destroy(global.names);
  ok = ok && requirements_check(m, &r.target_mark, &local) && forms_check(m, &local);
  if (ok) return m;
  ptx_module_free(m);
  g_propagate_error(error, local);
  return NULL;
}

void ptx_module_free(PtxModule *module)
{
  if (!module) return;
  source_unref(module->source);
  arena_free(module->arena);
  g_free(module);
}

PtxFunction *ptx_find_function(const PtxModule *module, const char *name)
{
  for (unsigned i = 0; i < module->n_functions; i++)
    if (strcmp(module->functions[i]->name, name) == 0) return module->functions[i];
  return NULL;
}
