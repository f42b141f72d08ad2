/* Grammar of function bodies: declarations, labels, instructions and their operands. */
#include "simulator/ptx_reader.h"
#include <stdlib.h>
#include <string.h>

void reader_push_scope(Reader *r)
{
  Scope *scope = g_new0(Scope, 1);
  scope->parent = r->scope;
  scope->names = g_hash_table_new(g_str_hash, g_str_equal);
  if (r->scopes) g_ptr_array_add(r->scopes, scope);
  r->scope = scope;
}

bool reader_declare(Reader *r, PtxSymbol *symbol)
{
  if (g_hash_table_contains(r->scope->names, symbol->name))
    return reader_fail(r, &symbol->mark, "ptx-duplicate", "'%s' is declared twice in this scope",
                       symbol->name);
  g_hash_table_insert(r->scope->names, (char *)symbol->name, symbol);
  return true;
}

static unsigned take_slots(Reader *r, PtxType type)
{
  unsigned slot = r->function->n_slots, bytes = ptx_type_bytes(type);
  unsigned n = bytes <= 4 ? 1 : bytes / 4;
  r->function->n_slots += n;
  for (unsigned i = 0; i < n; i++) {
    uint8_t width = i ? 0 : type == TYPE_PRED ? 1 : (uint8_t)MAX(bytes, 4);
    g_byte_array_append(r->slot_bytes, &width, 1);
  }
  return slot;
}

static PtxSymbol *new_register(Reader *r, Scope *scope, const char *name, PtxType type)
{
  PtxSymbol *s = arena_new_object(r->module->arena, PtxSymbol);
  *s = (PtxSymbol){.kind = SYMBOL_REGISTER, .name = name, .type = type, .mark = reader_mark(r)};
  s->slot = take_slots(r, type);
  g_hash_table_insert(scope->names, (char *)name, s);
  return s;
}

/* Registers declared as a range come into being at first use, so that a large range costs nothing. */
static PtxSymbol *lookup_range(Reader *r, Scope *scope, const char *name)
{
  size_t length = strlen(name), digits = 0;
  while (digits < length && g_ascii_isdigit(name[length - 1 - digits]))
    digits++;
  if (!digits || digits > 9) return NULL;
  for (size_t n = digits; n >= 1; n--) {
    g_autofree char *prefix = g_strdup_printf("%.*s<>", (int)(length - n), name);
    PtxSymbol *range = g_hash_table_lookup(scope->names, prefix);
    if (range && strtoul(name + length - n, NULL, 10) < range->count)
      return new_register(r, scope, name, range->type);
  }
  return NULL;
}

PtxSymbol *reader_lookup(Reader *r, const char *name)
{
  for (Scope *s = r->scope; s; s = s->parent) {
    PtxSymbol *symbol = g_hash_table_lookup(s->names, name);
    if (!symbol && r->function) symbol = lookup_range(r, s, name);
    if (symbol) return symbol;
  }
  if (name[0] != '%' || !r->function || !r->scopes || !r->scopes->len) return NULL;
  PtxType type = reader_special_type(name);
  if (type == TYPE_NONE) return NULL;
  PtxSymbol *symbol = new_register(r, r->scopes->pdata[0], name, type);
  symbol->is_special = true;
  return symbol;
}

PtxSymbol *reader_register(Reader *r)
{
  const char *word = reader_name(r);
  if (!word) return NULL;
  PtxType type = word[0] == '.' ? ptx_type_parse(word + 1) : TYPE_NONE;
  if (type == TYPE_NONE) {
    reader_fail(r, NULL, "ptx-type", "'%s' is no register type", word);
    return NULL;
  }
  Mark mark = reader_mark(r);
  const char *name = reader_name(r);
  if (!name) return NULL;
  PtxSymbol *s = arena_new_object(r->module->arena, PtxSymbol);
  *s = (PtxSymbol){.kind = SYMBOL_REGISTER, .name = name, .type = type, .mark = mark, .count = 1};
  s->slot = take_slots(r, type);
  return reader_declare(r, s) ? s : NULL;
}

static bool read_registers(Reader *r)
{
  const char *word = reader_name(r);
  if (!word) return false;
  if (strcmp(word, ".v2") == 0 || strcmp(word, ".v4") == 0)
    return reader_unsupported(r, NULL, "vector registers are not supported; declare scalars");
  PtxType type = word[0] == '.' ? ptx_type_parse(word + 1) : TYPE_NONE;
  if (type == TYPE_NONE) return reader_fail(r, NULL, "ptx-type", "'%s' is no register type", word);
  do {
    Mark mark = reader_mark(r);
    const char *name = reader_name(r);
    if (!name) return false;
    PtxSymbol *s = arena_new_object(r->module->arena, PtxSymbol);
    *s = (PtxSymbol){.name = name, .type = type, .mark = mark, .count = 1};
    if (reader_accept(r, '<')) {
      int64_t count;
      if (!reader_constant(r, &count) || !reader_expect(r, '>')) return false;
      if (count < 0 || count > 1 << 24) return reader_fail(r, &mark, "ptx-register", "absurd register count");
      s->kind = SYMBOL_RANGE;
      s->count = (unsigned)count;
      s->name = arena_printf(r->module->arena, "%s<>", name);
    } else {
      s->kind = SYMBOL_REGISTER;
      s->slot = take_slots(r, type);
    }
    if (!reader_declare(r, s)) return false;
  } while (reader_accept(r, ','));
  return reader_expect(r, ';');
}

static bool read_operand(Reader *r, PtxOperand *out);

static bool read_list(Reader *r, char close, PtxOperand *out)
{
  GArray *items = g_array_new(FALSE, TRUE, sizeof(PtxOperand));
  bool ok = true;
  if (!reader_accept(r, close)) {
    do {
      PtxOperand item = {0};
      ok = read_operand(r, &item);
      g_array_append_val(items, item);
    } while (ok && reader_accept(r, ','));
    ok = ok && reader_expect(r, close);
  }
  out->n = items->len;
  out->items = arena_memdup(r->module->arena, items->data, items->len * sizeof(PtxOperand));
  g_array_free(items, TRUE);
  return ok;
}

static bool read_address(Reader *r, PtxOperand *out)
{
  PtxOperand base = {0};
  out->kind = OPERAND_ADDRESS;
  if (!read_operand(r, &base)) return false;
  out->value = base.kind == OPERAND_SYMBOL || base.kind == OPERAND_REGISTER ? base.value : 0;
  GArray *items = g_array_new(FALSE, TRUE, sizeof(PtxOperand));
  g_array_append_val(items, base);
  bool ok = true;
  while (ok && reader_accept(r, ',')) {
    PtxOperand more = {0};
    ok = read_operand(r, &more);
    g_array_append_val(items, more);
  }
  out->n = items->len;
  out->items = arena_memdup(r->module->arena, items->data, items->len * sizeof(PtxOperand));
  g_array_free(items, TRUE);
  return ok && reader_expect(r, ']');
}

static bool read_number(Reader *r, PtxOperand *out)
{
  Reader saved = *r;
  bool minus = reader_accept(r, '-');
  reader_space(r);
  if (minus && *r->p == '%') { /* a negated register: vmad */
    bool ok = read_operand(r, out);
    out->negated = true;
    return ok;
  }
  if (g_ascii_isdigit(*r->p)) {
    if (!reader_number(r, out)) return false;
    if (out->kind == OPERAND_FLOAT) {
      if (minus) {
        out->number = -out->number;
        out->value ^= out->single ? (int64_t)1 << 31 : INT64_MIN;
      }
      return true;
    }
  }
  *r = saved;
  out->kind = OPERAND_INTEGER;
  if (!reader_constant(r, &out->value)) return false;
  out->number = (double)out->value;
  return true;
}

static bool read_named(Reader *r, PtxOperand *out)
{
  const char *name = reader_name(r);
  if (!name) return false;
  if (strcmp(name, "_") == 0) {
    out->kind = OPERAND_SINK;
    return true;
  }
  if (strcmp(name, "WARP_SZ") == 0) {
    *out = (PtxOperand){.kind = OPERAND_INTEGER, .value = 32, .number = 32, .mark = out->mark};
    return true;
  }
  out->name = name;
  out->symbol = reader_lookup(r, name);
  if (!out->symbol && name[0] == '%')
    return reader_fail(r, &out->mark, "ptx-undeclared", "register '%s' is not declared", name);
  out->kind = out->symbol && out->symbol->kind == SYMBOL_REGISTER ? OPERAND_REGISTER : OPERAND_SYMBOL;
  if (out->kind == OPERAND_REGISTER && *r->p == '.') {
    const char *word = reader_name(r);
    if (!word) return false;
    out->selector = word + 1;
  }
  reader_space(r);
  if (*r->p == '+' || *r->p == '-') {
    bool minus = *r->p == '-';
    r->p++;
    if (!reader_constant(r, &out->value)) return false;
    if (minus) out->value = (int64_t)(0 - (uint64_t)out->value);
  }
  return true;
}

static bool read_operand(Reader *r, PtxOperand *out)
{
  reader_space(r);
  out->mark = reader_mark(r);
  if (r->depth > 16) return reader_fail(r, NULL, "ptx-syntax", "operands are nested too deeply");
  char c = *r->p;
  bool ok;
  if (c == '{' || c == '[') {
    r->p++;
    r->depth++;
    out->kind = OPERAND_VECTOR;
    ok = c == '{' ? read_list(r, '}', out) : read_address(r, out);
    r->depth--;
    return ok;
  }
  if (c == '!') {
    r->p++;
    r->depth++;
    ok = read_operand(r, out);
    r->depth--;
    out->negated = true;
    return ok;
  }
  if (!reader_at_name(r)) return read_number(r, out);
  if (!read_named(r, out)) return false;
  if (!reader_accept(r, '|')) return true;
  PtxOperand *pair = arena_new_array(r->module->arena, PtxOperand, 2);
  pair[0] = *out;
  r->depth++;
  ok = read_operand(r, &pair[1]);
  r->depth--;
  *out = (PtxOperand){.kind = OPERAND_PAIR, .items = pair, .n = 2, .mark = pair[0].mark};
  return ok;
}

static bool read_opcode(Reader *r, PtxInstruction *out)
{
  reader_space(r);
  out->mark = reader_mark(r);
  const char *start = r->p;
  while (g_ascii_isalnum(*r->p) || *r->p == '_' || *r->p == '.' || (r->p[0] == ':' && r->p[1] == ':'))
    r->p += *r->p == ':' ? 2 : 1;
  if (r->p == start) return reader_fail(r, NULL, "ptx-syntax", "an instruction is expected here");
  out->text = arena_strndup(r->module->arena, start, (size_t)(r->p - start));
  g_auto(GStrv) parts = g_strsplit(out->text, ".", -1);
  out->n_parts = g_strv_length(parts);
  out->parts = arena_new_array(r->module->arena, const char *, out->n_parts + 1);
  for (unsigned i = 0; i < out->n_parts; i++)
    out->parts[i] = arena_strdup(r->module->arena, parts[i]);
  return true;
}

static bool read_instruction(Reader *r)
{
  PtxInstruction in = {0};
  reader_space(r);
  if (reader_accept(r, '@')) {
    in.guard_negated = reader_accept(r, '!');
    const char *name = reader_name(r);
    if (!name) return false;
    in.guard = reader_lookup(r, name);
    if (!in.guard || in.guard->kind != SYMBOL_REGISTER || in.guard->type != TYPE_PRED)
      return reader_fail(r, NULL, "ptx-predicate", "'%s' is no predicate register", name);
  }
  if (!read_opcode(r, &in)) return false;
  GArray *operands = g_array_new(FALSE, TRUE, sizeof(PtxOperand));
  bool ok = true, is_call = strcmp(in.parts[0], "call") == 0;
  reader_space(r);
  if (*r->p != ';') {
    do {
      PtxOperand operand = {0};
      reader_space(r);
      operand.mark = reader_mark(r);
      if (is_call && *r->p == '(') {
        r->p++;
        operand.kind = OPERAND_LIST;
        ok = read_list(r, ')', &operand);
      } else {
        ok = read_operand(r, &operand);
      }
      g_array_append_val(operands, operand);
    } while (ok && reader_accept(r, ','));
  }
  in.n_operands = operands->len;
  in.operands = arena_memdup(r->module->arena, operands->data, operands->len * sizeof(PtxOperand));
  g_array_free(operands, TRUE);
  if (!ok || !reader_expect(r, ';')) return false;
  g_array_append_val(r->code, in);
  g_ptr_array_add(r->code_scopes, r->scope);
  return true;
}

static bool read_label(Reader *r, bool *is_label)
{
  const char *p = r->p;
  while (g_ascii_isalnum(*p) || *p == '_' || *p == '$' || (p == r->p && *p == '%'))
    p++;
  const char *end = p;
  while (*p == ' ' || *p == '\t')
    p++;
  *is_label = end > r->p && p[0] == ':' && p[1] != ':';
  if (!*is_label) return true;
  PtxSymbol *s = arena_new_object(r->module->arena, PtxSymbol);
  *s = (PtxSymbol){.kind = SYMBOL_LABEL, .mark = reader_mark(r), .position = r->code->len};
  s->name = arena_strndup(r->module->arena, r->p, (size_t)(end - r->p));
  r->p = p + 1;
  r->last_label = s;
  return reader_declare(r, s);
}

static bool skip_to(Reader *r, char c)
{
  while (*r->p && *r->p != c)
    r->p++;
  return reader_expect(r, c);
}

static bool read_directive(Reader *r)
{
  Mark mark = reader_mark(r);
  const char *word = reader_name(r);
  if (!word) return false;
  if (strcmp(word, ".reg") == 0) return read_registers(r);
  if (strcmp(word, ".loc") == 0 || strcmp(word, ".file") == 0) {
    while (*r->p && *r->p != '\n')
      r->p++;
    return true;
  }
  if (strcmp(word, ".pragma") == 0) return reader_string_literal(r) && reader_expect(r, ';');
  static const struct {
    const char *name;
    Space space;
  } spaces[] = {{".shared", SPACE_SHARED},
                {".local", SPACE_LOCAL},
                {".param", SPACE_PARAM},
                {".global", SPACE_GLOBAL},
                {".const", SPACE_CONST}};
  for (unsigned i = 0; i < G_N_ELEMENTS(spaces); i++)
    if (strcmp(word, spaces[i].name) == 0) {
      PtxSymbol *symbol = NULL;
      do {
        if (!reader_variable(r, spaces[i].space, false, false, &symbol)) return false;
        bool is_static = spaces[i].space == SPACE_GLOBAL || spaces[i].space == SPACE_CONST;
        if (is_static) g_ptr_array_add(r->variables, symbol);
      } while (reader_accept(r, ','));
      return reader_expect(r, ';');
    }
  if (strcmp(word, ".callprototype") == 0) return skip_to(r, ';');
  if (strcmp(word, ".calltargets") == 0 || strcmp(word, ".branchtargets") == 0) return reader_target_list(r);
  return reader_fail(r, &mark, "ptx-directive", "directive '%s' is not known inside a function", word);
}

static bool resolve(Reader *r, Scope *scope, PtxOperand *operand)
{
  for (unsigned i = 0; i < operand->n; i++)
    if (!resolve(r, scope, &operand->items[i])) return false;
  if (operand->kind != OPERAND_SYMBOL || operand->symbol) return true;
  for (Scope *s = scope; s && !operand->symbol; s = s->parent)
    operand->symbol = g_hash_table_lookup(s->names, operand->name);
  if (operand->symbol) return true;
  return reader_fail(r, &operand->mark, "ptx-undeclared", "'%s' is not declared", operand->name);
}

/* A function that is named other than as the one that is called can be called through its address. */
static void note_addresses(const PtxInstruction *in)
{
  bool is_call = strcmp(in->parts[0], "call") == 0;
  for (unsigned i = 0; i < in->n_operands && !is_call; i++)
    if (in->operands[i].kind == OPERAND_SYMBOL && in->operands[i].symbol->kind == SYMBOL_FUNCTION)
      in->operands[i].symbol->function->address_taken = true;
}

bool reader_body(Reader *r)
{
  unsigned open = 1;
  while (open) {
    reader_space(r);
    bool ok, is_label = false;
    if (!*r->p) return reader_fail(r, NULL, "ptx-syntax", "the text ends inside a function");
    if (*r->p == '{') {
      r->p++;
      if (++open > 256) return reader_fail(r, NULL, "ptx-syntax", "blocks are nested too deeply");
      reader_push_scope(r);
      continue;
    }
    if (*r->p == '}') {
      r->p++;
      open--;
      r->scope = r->scope->parent;
      continue;
    }
    if (*r->p == '.') {
      ok = read_directive(r);
    } else {
      ok = read_label(r, &is_label);
      if (ok && !is_label) ok = read_instruction(r);
    }
    if (!ok) return false;
  }
  for (unsigned i = 0; i < r->code->len; i++) {
    PtxInstruction *in = &g_array_index(r->code, PtxInstruction, i);
    for (unsigned k = 0; k < in->n_operands; k++)
      if (!resolve(r, r->code_scopes->pdata[i], &in->operands[k])) return false;
    note_addresses(in);
  }
  return reader_resolve_targets(r);
}
