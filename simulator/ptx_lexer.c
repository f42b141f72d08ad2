/* Lexical part of the PTX reader: white space, names, numbers, constant expressions. */
#include "simulator/ptx_reader.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void reader_space(Reader *r)
{
  for (;;) {
    if (*r->p == '\n') {
      r->line++;
      r->line_start = ++r->p;
    } else if (g_ascii_isspace(*r->p)) {
      r->p++;
    } else if (r->p[0] == '/' && r->p[1] == '/') {
      while (*r->p && *r->p != '\n')
        r->p++;
    } else if (r->p[0] == '/' && r->p[1] == '*') {
      for (r->p += 2; *r->p && !(r->p[0] == '*' && r->p[1] == '/'); r->p++)
        if (*r->p == '\n') {
          r->line++;
          r->line_start = r->p + 1;
        }
      if (*r->p) r->p += 2;
    } else {
      return;
    }
  }
}

Mark reader_mark(const Reader *r)
{
  return (Mark){r->source, r->line, (unsigned)(r->p - r->line_start) + 1};
}

static bool fail(Reader *r, ErrorCode kind, const Mark *mark, const char *code, const char *format,
                 va_list list)
{
  g_autofree char *text = g_strdup_vprintf(format, list);
  Mark here = reader_mark(r);
  if (r->error && !*r->error) error_set(r->error, kind, mark ? mark : &here, code, NULL, "%s", text);
  return false;
}

bool reader_fail(Reader *r, const Mark *mark, const char *code, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  fail(r, ERROR_INPUT, mark, code, format, list);
  va_end(list);
  return false;
}

bool reader_unsupported(Reader *r, const Mark *mark, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  fail(r, ERROR_UNSUPPORTED, mark, "ptx-unsupported", format, list);
  va_end(list);
  return false;
}

bool reader_accept(Reader *r, char c)
{
  reader_space(r);
  if (*r->p != c) return false;
  r->p++;
  return true;
}

bool reader_expect(Reader *r, char c)
{
  if (reader_accept(r, c)) return true;
  if (!*r->p) return reader_fail(r, NULL, "ptx-syntax", "the text ends where '%c' is expected", c);
  return reader_fail(r, NULL, "ptx-syntax", "expected '%c'", c);
}

static bool name_start(char c)
{
  return g_ascii_isalpha(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static bool name_part(char c)
{
  return g_ascii_isalnum(c) || c == '_' || c == '$';
}

bool reader_at_name(Reader *r)
{
  reader_space(r);
  return name_start(*r->p);
}

/* A name, directive (".reg") or register; "%tid.x" keeps its component. */
const char *reader_name(Reader *r)
{
  reader_space(r);
  const char *start = r->p;
  if (!name_start(*start)) {
    reader_fail(r, NULL, "ptx-syntax", "a name is expected here");
    return NULL;
  }
  r->p++;
  while (name_part(*r->p))
    r->p++;
  if (*start == '%' && r->p[0] == '.' && strchr("xyzw", r->p[1]) && r->p[1] && !name_part(r->p[2])) r->p += 2;
  return arena_strndup(r->module->arena, start, (size_t)(r->p - start));
}

char *reader_string_literal(Reader *r)
{
  if (!reader_expect(r, '"')) return NULL;
  const char *start = r->p;
  while (*r->p && *r->p != '"' && *r->p != '\n')
    r->p++;
  if (*r->p != '"') {
    reader_fail(r, NULL, "ptx-syntax", "a string does not end on its line");
    return NULL;
  }
  return arena_strndup(r->module->arena, start, (size_t)(r->p++ - start));
}

static bool hexadecimal_float(Reader *r, unsigned digits, PtxOperand *out)
{
  char text[17] = {0};
  for (unsigned i = 0; i < digits; i++) {
    if (!g_ascii_isxdigit(r->p[2 + i]))
      return reader_fail(r, NULL, "ptx-number", "a 0%c constant has %u hexadecimal digits", r->p[1], digits);
    text[i] = r->p[2 + i];
  }
  uint64_t bits = strtoull(text, NULL, 16);
  out->kind = OPERAND_FLOAT;
  out->single = digits == 8;
  out->value = (int64_t)bits;
  if (digits == 8) {
    float f;
    uint32_t b = (uint32_t)bits;
    memcpy(&f, &b, 4);
    out->number = f;
  } else {
    memcpy(&out->number, &bits, 8);
  }
  r->p += 2 + digits;
  return true;
}

bool reader_number(Reader *r, PtxOperand *out)
{
  reader_space(r);
  const char *p = r->p;
  char second = p[0] == '0' ? g_ascii_tolower(p[1]) : 0;
  if (second == 'f') return hexadecimal_float(r, 8, out);
  if (second == 'd') return hexadecimal_float(r, 16, out);
  char *end;
  errno = 0;
  if (second == 'x') {
    out->value = (int64_t)strtoull(p + 2, &end, 16);
    if (end == p + 2) return reader_fail(r, NULL, "ptx-number", "no digits after 0x");
  } else if (second == 'b') {
    out->value = (int64_t)strtoull(p + 2, &end, 2);
  } else {
    const char *q = p;
    while (g_ascii_isdigit(*q))
      q++;
    if (*q == '.' || ((*q == 'e' || *q == 'E') && (g_ascii_isdigit(q[1]) || strchr("+-", q[1])))) {
      out->kind = OPERAND_FLOAT;
      out->number = g_ascii_strtod(p, &end);
      memcpy(&out->value, &out->number, 8);
      r->p = end;
      return true;
    }
    out->value = (int64_t)strtoull(p, &end, p[0] == '0' ? 8 : 10);
  }
  if (errno == ERANGE) return reader_fail(r, NULL, "ptx-number", "the number does not fit 64 bits");
  if (end == p) return reader_fail(r, NULL, "ptx-syntax", "a number is expected here");
  if (*end == 'U') end++;
  if (name_part(*end)) return reader_fail(r, NULL, "ptx-number", "malformed number");
  r->p = end;
  out->kind = OPERAND_INTEGER;
  out->number = (double)out->value;
  return true;
}

static bool binary_expression(Reader *r, int level, int64_t *value);

static bool unary_expression(Reader *r, int64_t *value)
{
  reader_space(r);
  if (r->depth > 64) return reader_fail(r, NULL, "ptx-syntax", "the expression is nested too deeply");
  char c = *r->p;
  if (c == '-' || c == '~' || c == '!' || c == '+') {
    r->p++;
    r->depth++;
    bool ok = unary_expression(r, value);
    r->depth--;
    if (c == '-') *value = (int64_t)(0 - (uint64_t)*value);
    if (c == '~') *value = ~*value;
    if (c == '!') *value = !*value;
    return ok;
  }
  if (c == '(') {
    r->p++;
    r->depth++;
    bool ok = binary_expression(r, 0, value) && reader_expect(r, ')');
    r->depth--;
    return ok;
  }
  PtxOperand number = {0};
  if (!reader_number(r, &number)) return false;
  if (number.kind != OPERAND_INTEGER)
    return reader_fail(r, NULL, "ptx-number", "an integer is expected here");
  *value = number.value;
  return true;
}

static const char *const levels[] = {"|", "^", "&", "<>", "+-", "*/%"};

static bool binary_expression(Reader *r, int level, int64_t *value)
{
  if (level == (int)G_N_ELEMENTS(levels)) return unary_expression(r, value);
  if (!binary_expression(r, level + 1, value)) return false;
  for (;;) {
    reader_space(r);
    char c = *r->p;
    if (!c || !strchr(levels[level], c)) return true;
    if ((c == '<' || c == '>') && r->p[1] != c) return true;
    r->p += c == '<' || c == '>' ? 2 : 1;
    int64_t right;
    if (!binary_expression(r, level + 1, &right)) return false;
    uint64_t a = (uint64_t)*value, b = (uint64_t)right;
    if ((c == '/' || c == '%') && b == 0) return reader_fail(r, NULL, "ptx-number", "division by zero");
    switch (c) {
    case '|': a |= b; break;
    case '^': a ^= b; break;
    case '&': a &= b; break;
    case '<': a = b > 63 ? 0 : a << b; break;
    case '>': a = b > 63 ? 0 : a >> b; break;
    case '+': a += b; break;
    case '-': a -= b; break;
    case '*': a *= b; break;
    case '/': a /= b; break;
    default: a %= b; break;
    }
    *value = (int64_t)a;
  }
}

bool reader_constant(Reader *r, int64_t *value)
{
  return binary_expression(r, 0, value);
}
