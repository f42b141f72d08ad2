#include "base/diagnostic.h"
#include "base/foreign.h"
#include <errno.h>
#include <gio/gio.h>
#include <string.h>

/* A text that a program should read in one go. Also the guard against endless files such as /dev/zero. */
#define MAX_SOURCE_BYTES ((size_t)256 * 1024 * 1024)
/* Columns of a source line that are shown around the place of an error. */
#define SHOWN_COLUMNS 150
/* Diagnostics one error holds: a person reads no more, and a hostile file cannot make it grow without end. */
#define MAX_DIAGNOSTICS 250

/* ---- sources ---- */

Source *source_new(const char *name, const char *text, size_t length)
{
  Source *source = g_new0(Source, 1);
  g_atomic_ref_count_init(&source->references);
  source->name = g_strdup(name);
  source->text = g_malloc(length + 1);
  if (length) memcpy(source->text, text, length);
  source->text[length] = 0;
  source->length = length;
  return source;
}

static Source *source_read(FILE *stream, const char *name, GError **error)
{
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  static const size_t step = 64 * 1024;
  for (;;) {
    size_t before = bytes->len;
    g_byte_array_set_size(bytes, before + step);
    size_t got = fread(bytes->data + before, 1, step, stream);
    g_byte_array_set_size(bytes, before + got);
    if (got < step) break;
    if (bytes->len > MAX_SOURCE_BYTES) {
      g_byte_array_append(bytes, (const guint8 *)"", 1);
      const ForeignFormat *format = foreign_format((const char *)bytes->data, bytes->len - 1, false);
      error_set(error, format ? format->code : ERROR_INPUT, NULL, "too-large", format ? format->hint : NULL,
                "%s is larger than %zu MiB%s%s", name, MAX_SOURCE_BYTES >> 20, format ? ", and it is " : "",
                format ? format->name : "");
      return NULL;
    }
  }
  if (ferror(stream)) {
    error_set(error, ERROR_INPUT, NULL, "unreadable", NULL, "cannot read %s: %s", name, g_strerror(errno));
    return NULL;
  }
  return source_new(name, (const char *)bytes->data, bytes->len);
}

/* An ONNX model has its weights in it, which nobody reads before they are needed: it is mapped, not read. NULL: no such
 * file. */
static Source *source_map(const char *path)
{
  g_autoptr(GMappedFile) file = g_str_has_suffix(path, ".onnx") ? g_mapped_file_new(path, FALSE, NULL) : NULL;
  size_t length = file ? g_mapped_file_get_length(file) : 0;
  if (!length || length >= G_MAXUINT || !foreign_is_onnx(g_mapped_file_get_contents(file), length))
    return NULL;
  Source *source = source_new(path, "", 0);
  g_free(source->text);
  source->mapped = g_steal_pointer(&file);
  source->text = g_mapped_file_get_contents(source->mapped);
  source->length = length;
  return source;
}

Source *source_load(const char *path, GError **error)
{
  if (!strcmp(path, "-")) return source_read(stdin, "<stdin>", error);
  Source *mapped = source_map(path);
  if (mapped) return mapped;
  FILE *stream = fopen(path, "rbe");
  if (!stream) {
    error_set(error, ERROR_INPUT, NULL, "unreadable", NULL, "cannot read %s: %s", path, g_strerror(errno));
    return NULL;
  }
  Source *source = source_read(stream, path, error);
  fclose(stream);
  return source;
}

Source *source_ref(Source *source)
{
  g_atomic_ref_count_inc(&source->references);
  return source;
}

void source_unref(Source *source)
{
  if (!source || !g_atomic_ref_count_dec(&source->references)) return;
  if (source->mapped)
    g_mapped_file_unref(source->mapped);
  else
    g_free(source->text);
  g_free(source->name);
  g_free(source);
}

/* ---- the error object ---- */

typedef struct {
  GPtrArray *diagnostics;
} AdlgenErrorPrivate;

static void diagnostic_free(void *memory)
{
  Diagnostic *diagnostic = memory;
  g_free(diagnostic->message);
  g_free(diagnostic->hint);
  source_unref(diagnostic->source);
  g_free(diagnostic);
}

static void adlgen_error_private_init(AdlgenErrorPrivate *private)
{
  private->diagnostics = g_ptr_array_new_with_free_func(diagnostic_free);
}

static void adlgen_error_private_copy(const AdlgenErrorPrivate *from, AdlgenErrorPrivate *to)
{
  to->diagnostics = g_ptr_array_new_with_free_func(diagnostic_free);
  for (guint i = 0; i < from->diagnostics->len; i++) {
    const Diagnostic *old = from->diagnostics->pdata[i];
    Diagnostic *copy = g_memdup2(old, sizeof *old);
    copy->message = g_strdup(old->message);
    copy->hint = g_strdup(old->hint);
    if (copy->source) source_ref(copy->source);
    g_ptr_array_add(to->diagnostics, copy);
  }
}

static void adlgen_error_private_clear(AdlgenErrorPrivate *private)
{
  g_ptr_array_unref(private->diagnostics);
}

static AdlgenErrorPrivate *adlgen_error_get_private(const GError *error);
G_DEFINE_EXTENDED_ERROR(AdlgenError, adlgen_error)

/* A foreign error keeps its message when diagnostics are added to it. */
static void adopt_foreign(GError **error)
{
  GError *ours = NULL;
  error_set(&ours, error_exit_code(*error), NULL, "system", NULL, "%s", (*error)->message);
  g_error_free(*error);
  *error = ours;
}

static void add_diagnostic(GError **error, ErrorCode code, Severity severity, const Mark *mark,
                           const char *code_id, const char *hint, const char *format, va_list arguments)
    G_GNUC_PRINTF(7, 0);
static void add_diagnostic(GError **error, ErrorCode code, Severity severity, const Mark *mark,
                           const char *code_id, const char *hint, const char *format, va_list arguments)
{
  if (!error) return;
  char *message = g_strdup_vprintf(format, arguments);
  if (!*error)
    *error = g_error_new(ADLGEN_ERROR, (int)code, "%s", message);
  else if ((*error)->domain != ADLGEN_ERROR)
    adopt_foreign(error);
  /* Not supported is what is right otherwise. */
  if (severity == SEVERITY_ERROR && code == ERROR_INPUT && (*error)->code == ERROR_UNSUPPORTED)
    (*error)->code = ERROR_INPUT;
  GPtrArray *diagnostics = adlgen_error_get_private(*error)->diagnostics;
  if (diagnostics->len > MAX_DIAGNOSTICS) {
    g_free(message);
    return;
  }
  Diagnostic *diagnostic = g_new0(Diagnostic, 1);
  g_ptr_array_add(diagnostics, diagnostic);
  if (diagnostics->len > MAX_DIAGNOSTICS) {
    g_free(message);
    *diagnostic = (Diagnostic){.severity = SEVERITY_NOTE, .code = "more", .message = g_strdup("and more")};
    return;
  }
  diagnostic->severity = severity;
  diagnostic->code = code_id;
  diagnostic->message = message;
  diagnostic->hint = g_strdup(hint);
  if (mark && mark->source) {
    diagnostic->source = source_ref(mark->source);
    diagnostic->line = mark->line;
    diagnostic->column = mark->column;
  }
}

void error_set(GError **error, ErrorCode code, const Mark *mark, const char *code_id, const char *hint,
               const char *format, ...)
{
  g_assert(!error || !*error);
  va_list arguments;
  va_start(arguments, format);
  add_diagnostic(error, code, SEVERITY_ERROR, mark, code_id, hint, format, arguments);
  va_end(arguments);
}

void error_add(GError **error, ErrorCode code, Severity severity, const Mark *mark, const char *code_id,
               const char *hint, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  add_diagnostic(error, code, severity, mark, code_id, hint, format, arguments);
  va_end(arguments);
}

void error_place(GError *error, const Mark *mark)
{
  const GPtrArray *diagnostics = error_diagnostics(error);
  for (guint i = 0; diagnostics && i < diagnostics->len; i++) {
    Diagnostic *diagnostic = diagnostics->pdata[i];
    if (diagnostic->source) continue;
    diagnostic->source = source_ref(mark->source);
    diagnostic->line = mark->line;
    diagnostic->column = mark->column;
  }
}

void error_hint(GError *error, const char *hint)
{
  const GPtrArray *diagnostics = error_diagnostics(error);
  for (guint i = 0; diagnostics && i < diagnostics->len; i++) {
    Diagnostic *diagnostic = diagnostics->pdata[i];
    if (diagnostic->severity != SEVERITY_ERROR) continue;
    g_autofree char *before = diagnostic->hint;
    diagnostic->hint = before ? g_strdup_printf("%s; %s", before, hint) : g_strdup(hint);
  }
}

const GPtrArray *error_diagnostics(const GError *error)
{
  return error && error->domain == ADLGEN_ERROR ? adlgen_error_get_private(error)->diagnostics : NULL;
}

int error_exit_code(const GError *error)
{
  if (error->domain == ADLGEN_ERROR) return error->code;
  if (error->domain == G_OPTION_ERROR) return ERROR_USAGE;
  if (error->domain == G_FILE_ERROR || error->domain == G_IO_ERROR) return ERROR_INPUT;
  return ERROR_INTERNAL;
}

/* ---- printing ---- */

static const char *const severity_names[] = {"error", "warning", "note"};
static const char *const severity_colours[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};

/* One character of a line: what to show and how many columns it takes. Bytes that are not UTF-8 show as '?'.
 */
static const char *next_character(const char *at, const char *end, GString *shown, GString *blank)
{
  gunichar c = g_utf8_get_char_validated(at, end - at);
  if (c == (gunichar)-1 || c == (gunichar)-2) {
    g_string_append_c(shown, '?');
    g_string_append_c(blank, ' ');
    return at + 1;
  }
  if (c == '\t') {
    g_string_append_c(shown, '\t');
    g_string_append_c(blank, '\t');
  } else if (!g_unichar_isprint(c)) {
    g_string_append_c(shown, '?');
    g_string_append_c(blank, ' ');
  } else {
    g_string_append_unichar(shown, c);
    g_string_append(blank, g_unichar_iswide(c) ? "  " : " ");
  }
  return g_utf8_next_char(at);
}

/* The source line with a caret under its column; a long line is cut to a window around the caret. */
static void append_excerpt(GString *text, const Diagnostic *diagnostic, bool colour)
{
  const char *at = diagnostic->source->text, *end = at + diagnostic->source->length;
  if (g_str_has_prefix(at, "\xef\xbb\xbf")) at += 3; /* a byte order mark takes no column */
  for (unsigned line = 1; line < diagnostic->line; line++) {
    at = memchr(at, '\n', end - at);
    if (!at) return;
    at++;
  }
  const char *newline = memchr(at, '\n', end - at);
  if (newline) end = newline;
  if (end > at && end[-1] == '\r') end--;
  if (at == end) return; /* an empty line shows nothing */
  g_autoptr(GString) shown = g_string_new(NULL);
  g_autoptr(GString) blank = g_string_new(NULL);
  unsigned column = 1, first = 1;
  if (diagnostic->column > SHOWN_COLUMNS) first = diagnostic->column - SHOWN_COLUMNS / 2;
  bool cut = false;
  gsize caret = 0;
  for (; at < end; column++) {
    if (column == diagnostic->column) caret = blank->len;
    if (column >= first + SHOWN_COLUMNS) {
      cut = true;
      break;
    }
    if (column < first) {
      g_autoptr(GString) skip = g_string_new(NULL);
      at = next_character(at, end, skip, skip);
    } else {
      at = next_character(at, end, shown, blank);
    }
  }
  if (column <= diagnostic->column) caret = blank->len; /* just past the end */
  g_string_append_printf(text, "  %s%s%s\n", first > 1 ? "..." : "", shown->str, cut ? "..." : "");
  if (!diagnostic->column) return;
  g_string_truncate(blank, caret);
  g_string_append_printf(text, "  %s%s%s^%s\n", first > 1 ? "   " : "", blank->str,
                         colour ? "\033[1;32m" : "", colour ? "\033[0m" : "");
}

/* A place in a binary file. */
static bool is_byte(const Diagnostic *diagnostic)
{
  return diagnostic->source && !diagnostic->line && diagnostic->column;
}

static char *describe_byte(const Diagnostic *diagnostic)
{
  const Source *source = diagnostic->source;
  return is_byte(diagnostic) && source->describe ? source->describe(source, diagnostic->column - 1) : NULL;
}

static void append_place(GString *text, const Diagnostic *diagnostic)
{
  if (!diagnostic->source) return;
  g_string_append_printf(text, "%s:", diagnostic->source->name);
  if (diagnostic->line) g_string_append_printf(text, "%u:", diagnostic->line);
  if (diagnostic->line && diagnostic->column) g_string_append_printf(text, "%u:", diagnostic->column);
  if (is_byte(diagnostic)) g_string_append_printf(text, " byte %u:", diagnostic->column - 1);
  g_string_append_c(text, ' ');
}

/* previous: the diagnostic printed before, whose source line need not be shown again. */
static void append_diagnostic(GString *text, const Diagnostic *diagnostic, const Diagnostic *previous,
                              bool colour)
{
  bool same_place = previous && diagnostic->source == previous->source &&
                    diagnostic->line == previous->line && diagnostic->column == previous->column;
  append_place(text, diagnostic);
  g_string_append_printf(text, "%s%s:%s %s\n", colour ? severity_colours[diagnostic->severity] : "",
                         severity_names[diagnostic->severity], colour ? "\033[0m" : "", diagnostic->message);
  if (diagnostic->source && diagnostic->line && !same_place) append_excerpt(text, diagnostic, colour);
  g_autofree char *part = same_place ? NULL : describe_byte(diagnostic);
  if (part) g_string_append_printf(text, "  %s\n", part);
  if (diagnostic->hint) g_string_append_printf(text, "hint: %s\n", diagnostic->hint);
}

char *error_to_text(const GError *error, bool colour)
{
  GString *text = g_string_new(NULL);
  const GPtrArray *diagnostics = error_diagnostics(error);
  for (guint i = 0; diagnostics && i < diagnostics->len; i++)
    append_diagnostic(text, diagnostics->pdata[i], i ? diagnostics->pdata[i - 1] : NULL, colour);
  if (!diagnostics) {
    Diagnostic foreign = {.message = error->message};
    append_diagnostic(text, &foreign, NULL, colour);
  }
  return g_string_free(text, FALSE);
}

void error_print(const GError *error, FILE *stream, bool colour)
{
  g_autofree char *text = error_to_text(error, colour);
  fputs(text, stream);
}

/* JSON strings are UTF-8: what is not becomes U+FFFD. */
static json_t *json_text(const char *text)
{
  if (!text) return json_null();
  g_autofree char *valid = g_utf8_make_valid(text, -1);
  return json_string(valid);
}

static json_t *diagnostic_to_json(const Diagnostic *diagnostic)
{
  json_t *object = json_object();
  json_object_set_new(object, "severity", json_string(severity_names[diagnostic->severity]));
  json_object_set_new(object, "file", json_text(diagnostic->source ? diagnostic->source->name : NULL));
  json_object_set_new(object, "line", diagnostic->line ? json_integer(diagnostic->line) : json_null());
  json_object_set_new(object, "column",
                      diagnostic->line && diagnostic->column ? json_integer(diagnostic->column)
                                                             : json_null());
  if (is_byte(diagnostic)) json_object_set_new(object, "byte", json_integer(diagnostic->column - 1));
  g_autofree char *part = describe_byte(diagnostic);
  if (part) json_object_set_new(object, "part", json_text(part));
  json_object_set_new(object, "message", json_text(diagnostic->message));
  json_object_set_new(object, "hint", json_text(diagnostic->hint));
  json_object_set_new(object, "code", json_text(diagnostic->code));
  return object;
}

json_t *error_to_json(const GError *error)
{
  json_t *list = json_array();
  const GPtrArray *diagnostics = error_diagnostics(error);
  for (guint i = 0; diagnostics && i < diagnostics->len; i++)
    json_array_append_new(list, diagnostic_to_json(diagnostics->pdata[i]));
  if (!diagnostics) {
    Diagnostic foreign = {.message = error->message, .code = "system"};
    json_array_append_new(list, diagnostic_to_json(&foreign));
  }
  json_t *root = json_object();
  json_object_set_new(root, "version", json_integer(1));
  json_object_set_new(root, "errors", list);
  return root;
}

/* ---- did you mean ---- */

/* Edit distance where swapping two neighbours costs one (optimal string alignment). */
static unsigned edit_distance(const char *a, const char *b)
{
  size_t n = strlen(a), m = strlen(b);
  g_autofree unsigned *rows = g_new0(unsigned, 3 * (m + 1));
  unsigned *before = rows, *previous = rows + (m + 1), *row = rows + 2 * (m + 1);
  for (size_t j = 0; j <= m; j++)
    previous[j] = (unsigned)j;
  for (size_t i = 1; i <= n; i++) {
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= m; j++) {
      unsigned change = g_ascii_tolower(a[i - 1]) != g_ascii_tolower(b[j - 1]);
      row[j] = MIN(MIN(previous[j] + 1, row[j - 1] + 1), previous[j - 1] + change);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = MIN(row[j], before[j - 2] + 1);
    }
    unsigned *oldest = before;
    before = previous;
    previous = row;
    row = oldest;
  }
  return previous[m];
}

const char *nearest_name(const char *name, const char *const *candidates)
{
  const char *best = NULL;
  size_t length = strlen(name);
  if (length > 100) return NULL;
  /* A third of the name may differ: more than that is another word. */
  unsigned best_distance = (unsigned)MAX(1, length / 3) + 1;
  for (; candidates && *candidates; candidates++) {
    if (strlen(*candidates) > 100) continue;
    unsigned distance = edit_distance(name, *candidates);
    if (distance < best_distance) {
      best_distance = distance;
      best = *candidates;
    }
  }
  return best;
}
