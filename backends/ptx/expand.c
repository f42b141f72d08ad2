/* Texts of rows: taken apart once, with their placeholders resolved as far as the row goes, and written piece by
 * piece into instructions. */
#include "backends/ptx/internal.h"
#include <string.h>

bool attribute_key_parse(const char *name, size_t length, IrAttributeKey *key)
{
  for (unsigned i = 0; i < IR_ATTRIBUTE_COUNT; i++) {
    const char *candidate = ir_attribute_name(i);
    if (strlen(candidate) != length || strncmp(candidate, name, length) != 0) continue;
    *key = i;
    return true;
  }
  return false;
}

typedef enum {
  PIECE_TEXT,      /* as it is */
  PIECE_LINE,      /* end of an instruction or label */
  PIECE_RESULTS,   /* {d} {D} */
  PIECE_RESULT,    /* {d0} */
  PIECE_OPERAND,   /* {a} {A} */
  PIECE_SCRATCH,   /* {r0} */
  PIECE_LABEL,     /* {L} */
  PIECE_ATTRIBUTE, /* {=key} */
  PIECE_IF,        /* {?key:text} */
  PIECE_FIELD      /* by name: fields.c */
} PieceKind;

typedef struct Piece {
  PieceKind kind;
  bool braces;
  unsigned index; /* of a result, operand or scratch register; of a field, FIELD_UNKNOWN if there is none */
  RegisterClass class_; /* scratch */
  IrAttributeKey key;
  const char *text; /* TEXT and IF: what is written; else what stands between the braces */
  size_t length;
} Piece;

struct RowText {
  Piece *pieces;
  unsigned n;
  bool branches; /* a line of it has a guard of its own */
};

/* ---- Taking apart ---- */

/* Index of an operand letter (a b c e; upper case as well), or -1. */
static int operand_letter(char letter)
{
  const char *letters = "abce", *found = letter ? strchr(letters, g_ascii_tolower(letter)) : NULL;
  return found != NULL ? (int)(found - letters) : -1;
}

static bool name_is_letter_digit(const char *name)
{
  return name[0] != '\0' && g_ascii_isdigit(name[1]) && name[2] == '\0';
}

static Piece piece_of_name(const char *name, unsigned n_operands)
{
  static const char scratches[] = "rqfghp"; /* in the order of RegisterClass */
  Piece piece = {.kind = PIECE_FIELD, .index = FIELD_UNKNOWN, .text = name, .length = strlen(name)};
  int letter = operand_letter(name[0]);
  const char *colon = strchr(name, ':'), *scratch = name[0] ? strchr(scratches, name[0]) : NULL;
  if (name[0] == '=') {
    if (attribute_key_parse(name + 1, strlen(name + 1), &piece.key)) piece.kind = PIECE_ATTRIBUTE;
  } else if (name[0] == '?') {
    if (colon == NULL || !attribute_key_parse(name + 1, (size_t)(colon - name - 1), &piece.key)) return piece;
    piece.kind = PIECE_IF;
    piece.text = colon + 1;
    piece.length = strlen(piece.text);
  } else if (strcmp(name, "d") == 0 || strcmp(name, "D") == 0) {
    piece.kind = PIECE_RESULTS;
    piece.braces = *name == 'D';
  } else if (strcmp(name, "L") == 0) {
    piece.kind = PIECE_LABEL;
  } else if (letter >= 0 && name[1] == '\0' && (unsigned)letter < n_operands) {
    piece.kind = PIECE_OPERAND;
    piece.index = (unsigned)letter;
    piece.braces = g_ascii_isupper(name[0]);
  } else if (name_is_letter_digit(name) && (name[0] == 'd' || (scratch != NULL && name[1] < '4'))) {
    piece.kind = name[0] == 'd' ? PIECE_RESULT : PIECE_SCRATCH;
    piece.index = (unsigned)(name[1] - '0');
    if (name[0] != 'd') piece.class_ = (RegisterClass)(scratch - scratches);
  } else {
    piece.index = field_find(name);
  }
  return piece;
}

/* Plain characters from `text` on; "{{" and "}}" stand for braces, of which one is plain. */
static Piece plain_piece(const char **text)
{
  const char *begin = *text;
  size_t length = strcspn(begin, "{}\n");
  *text += length;
  if (length == 0) { /* a brace: doubled, or a fault of the row */
    length = 1;
    *text += begin[1] == *begin ? 2 : 1;
  }
  return (Piece){.kind = PIECE_TEXT, .text = begin, .length = length};
}

RowText *row_text_new(const PtxRow *row, unsigned n_operands)
{
  g_autoptr(GArray) pieces = g_array_new(false, false, sizeof(Piece));
  const Piece end = {.kind = PIECE_LINE};
  for (const char *text = row->text; *text != '\0';) {
    const char *close = *text == '{' && text[1] != '{' ? strchr(text, '}') : NULL;
    Piece piece = end;
    if (*text == '\n') {
      text++;
    } else if (close != NULL) {
      g_autofree char *name = g_strndup(text + 1, (gsize)(close - text - 1));
      piece = piece_of_name(g_intern_string(name), n_operands);
      text = close + 1;
    } else {
      piece = plain_piece(&text);
    }
    g_array_append_val(pieces, piece);
  }
  g_array_append_val(pieces, end);
  RowText *made = g_new0(RowText, 1);
  made->branches = strchr(row->text, '@') != NULL;
  made->n = pieces->len;
  made->pieces = (Piece *)(void *)g_array_free(g_steal_pointer(&pieces), false);
  return made;
}

char *row_text_check(const RowText *text, const PtxRow *row, unsigned n_results)
{
  for (unsigned i = 0; i < text->n; i++) {
    const Piece *piece = &text->pieces[i];
    bool none = piece->kind == PIECE_RESULT ? piece->index >= n_results
                                            : piece->kind == PIECE_RESULTS && n_results == 0;
    bool brace = piece->kind == PIECE_TEXT && strchr("{}", *piece->text) && piece->text[1] != *piece->text;
    if (none || brace || (piece->kind == PIECE_FIELD && piece->index == FIELD_UNKNOWN))
      return g_strdup_printf("row '%s' of %s: bad placeholder at '%.20s'", row->signature,
                             ir_op_info(row->code)->name, piece->text);
  }
  return NULL;
}

/* ---- Writing ---- */

static void put_text(GString *out, const char *text)
{
  text_put(out, text, strlen(text));
}

static void put_registers(GString *out, const Register *registers, unsigned n, bool braces)
{
  if (n == 1 && !braces) {
    register_put(out, registers[0]);
    return;
  }
  text_put(out, "{", 1);
  for (unsigned i = 0; i < n; i++) {
    if (i > 0) text_put(out, ", ", 2);
    register_put(out, registers[i]);
  }
  text_put(out, "}", 1);
}

static NumberType token_type(const RowMatch *match, unsigned token)
{
  /* rows of bits do not say what a number is: its register does */
  if (match->op->code == OP_MOVE && match->n_results == 1 &&
      number_class(match->results[0].type) == NUMBER_FLOAT && number_bits(match->results[0].type) == 16)
    return match->results[0].type;
  return match_type(match, token);
}

static void put_operand(Emitter *e, const RowMatch *match, unsigned token, const Operand *operand,
                        GString *out)
{
  if (operand_is_plain(operand))
    register_put(out, operand->registers[0]);
  else
    put_text(out, operand_text(e, operand, match->tokens[token].name, token_type(match, token)));
}

static void put_token(Emitter *e, const RowMatch *match, unsigned token, bool braces, GString *out)
{
  unsigned n = match->tokens[token].n;
  const Operand *operands = match->tokens[token].operands;
  if (n == 1 && operands[0].kind == OPERAND_REGISTERS && strcmp(match->tokens[token].name, "list") == 0) {
    put_registers(out, operands[0].registers, operands[0].n, true);
    return;
  }
  if (n == 1 && !braces) {
    put_operand(e, match, token, &operands[0], out);
    return;
  }
  text_put(out, "{", 1);
  for (unsigned i = 0; i < n; i++) {
    if (i > 0) text_put(out, ", ", 2);
    put_operand(e, match, token, &operands[i], out);
  }
  text_put(out, "}", 1);
}

static Register scratch_register(Emitter *e, RowMatch *match, RegisterClass class_, unsigned index)
{
  static const NumberType types[CLASS_COUNT] = {NUMBER_B32, NUMBER_B64, NUMBER_F32,
                                                NUMBER_F64, NUMBER_B16, NUMBER_BOOL};
  if (!match->has_scratch[class_][index]) {
    match->scratch[class_][index] = register_new(e, class_, types[class_]);
    match->has_scratch[class_][index] = true;
  }
  return match->scratch[class_][index];
}

static const char *attribute_text(Emitter *e, const RowMatch *match, IrAttributeKey key)
{
  Operand operand;
  const IrExpr *value = ir_attribute_value(match->op, key);
  if (value == NULL || !operand_resolve(e, match->op, value, &operand)) return NULL;
  return operand_text(e, &operand, key == ATTR_BARRIER ? "shared" : "i32", NUMBER_U32);
}

/* false: there is nothing to put. */
static bool put_piece(Emitter *e, RowMatch *match, const Piece *piece, GString *out)
{
  const char *text = NULL;
  switch (piece->kind) {
  case PIECE_LINE: break;
  case PIECE_TEXT: text_put(out, piece->text, piece->length); break;
  case PIECE_RESULTS: put_registers(out, match->results, match->n_results, piece->braces); break;
  case PIECE_RESULT:
    if (piece->index >= match->n_results) return false;
    register_put(out, match->results[piece->index]);
    break;
  case PIECE_OPERAND: put_token(e, match, piece->index, piece->braces, out); break;
  case PIECE_SCRATCH: register_put(out, scratch_register(e, match, piece->class_, piece->index)); break;
  case PIECE_LABEL:
    if (match->label == 0) match->label = ++e->labels;
    put_text(out, arena_printf(e->arena, "%u", match->label));
    break;
  case PIECE_IF:
    if (ir_attribute(match->op, piece->key) != NULL) text_put(out, piece->text, piece->length);
    break;
  case PIECE_ATTRIBUTE:
    text = attribute_text(e, match, piece->key);
    if (text != NULL) put_text(out, text);
    return text != NULL;
  case PIECE_FIELD:
    text = piece->index != FIELD_UNKNOWN ? field_text(e, match, piece->index) : NULL;
    if (text != NULL) put_text(out, text);
    return text != NULL;
  }
  return true;
}

static bool nothing_to_put(Emitter *e, const RowMatch *match, const Piece *piece)
{
  if (!e->failed)
    error_set(e->error, ERROR_INTERNAL, &match->op->mark, "bad-row", NULL,
              "row '%s' of %s: nothing to put for {%s}", match->row->signature,
              ir_op_info(match->row->code)->name, piece->text);
  e->failed = true;
  return false;
}

/* Rows that branch cannot be guarded line by line: the guard jumps around them. */
static void guard_around(Emitter *e, const char *guard, bool begin, unsigned label)
{
  const char *skip = arena_printf(e->arena, "skip_%u", label);
  if (!begin) {
    text_label(e->body, skip, NULL);
    return;
  }
  const char *inverse =
      guard[1] == '!' ? arena_printf(e->arena, "@%s", guard + 2) : arena_printf(e->arena, "@!%s", guard + 1);
  text_line(e->body, inverse, arena_printf(e->arena, "bra %s;", skip));
}

static void end_line(Emitter *e, const char *guard, GString *line)
{
  if (line->str[line->len - 1] == ':') {
    g_string_truncate(line, line->len - 1);
    text_label(e->body, line->str, NULL);
  } else {
    text_line(e->body, guard, line->str);
  }
  g_string_truncate(line, 0);
}

bool row_expand(Emitter *e, RowMatch *match, const char *guard)
{
  const RowText *text = match->text;
  bool around = *guard != '\0' && text->branches;
  unsigned label = around ? ++e->labels : 0;
  if (around) guard_around(e, guard, true, label);
  e->version = MAX(e->version, match->row->version);
  g_string_truncate(e->line, 0);
  for (unsigned i = 0; i < text->n; i++) {
    const Piece *piece = &text->pieces[i];
    if (piece->kind == PIECE_LINE)
      end_line(e, around ? "" : guard, e->line);
    else if (!put_piece(e, match, piece, e->line))
      return nothing_to_put(e, match, piece);
  }
  if (around) guard_around(e, guard, false, label);
  return true;
}
