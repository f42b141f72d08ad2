/* The paper kernels and their broken variants.
 *
 *     test_paper [--update] [--time] DIRECTORY
 *
 * Every *.ir of the directory must read, verify and round-trip; STAGED ones must pass the protocol checker.
 * Every broken/KERNEL.NN-WHAT.edit changes a line or more of KERNEL.staged.ir; the result must read and
 * verify, and the checker must refuse it with the error in the .expected file beside it. --update shows how
 * expectations change and writes them. An edit:
 *
 *     ; comment
 *     delete TEXT                 the only line whose text, without indentation and comment, is TEXT
 *     replace TEXT => TEXT        #2 before TEXT means its second occurrence
 *     insert after TEXT => TEXT
 *     insert before TEXT => TEXT
 *
 * Lines keep their numbers where possible: a deleted line stays as an empty one, an inserted one joins after
 * them all. */
#include "ir/pass.h"
#include <string.h>

typedef struct {
  const char *directory;
  bool update, time;
  unsigned kernels, variants, faults;
} Test;

static void complain(Test *test, const char *file, const char *format, ...) G_GNUC_PRINTF(3, 4);
static void complain(Test *test, const char *file, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  g_printerr("FAIL %s: %s\n", file, text);
  test->faults++;
}

static IrModule *read_module(const char *name, const char *text, GError **error)
{
  g_autoptr(Source) source = source_new(name, text, strlen(text));
  g_autoptr(IrModule) module = ir_read(source, error);
  if (!module || !ir_verify(module, NULL, error)) return NULL;
  return g_steal_pointer(&module);
}

static bool check(IrModule *module, GError **error)
{
  const IrPassContext context = {0};
  return pass_check_protocol(module, &context, error);
}

static void time_check(const char *name, const char *text)
{
  gint64 best = G_MAXINT64;
  for (unsigned i = 0; i < 20; i++) {
    g_autoptr(IrModule) module = read_module(name, text, NULL);
    gint64 start = g_get_monotonic_time();
    check(module, NULL);
    best = MIN(best, g_get_monotonic_time() - start);
  }
  g_print("%-32s checked in %.2f ms\n", name, (double)best / 1000);
}

static void test_kernel(Test *test, const char *name)
{
  g_autofree char *path = g_build_filename(test->directory, name, NULL);
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(IrModule) module = NULL, again = NULL;
  g_autofree char *printed = NULL, *reprinted = NULL;
  test->kernels++;
  if (g_file_get_contents(path, &text, NULL, &error)) module = read_module(name, text, &error);
  if (module) {
    printed = ir_print(module);
    again = read_module(name, printed, &error);
  }
  if (!again) {
    g_autofree char *why = error_to_text(error, false);
    complain(test, name, "does not read, verify or read back:\n%s", why);
    return;
  }
  reprinted = ir_print(again);
  if (strcmp(printed, reprinted)) complain(test, name, "prints differently after reading its print");
  if (module->level != IR_STAGED) return;
  for (unsigned i = 0; i < 2; i++) { /* as written, and as printed */
    if (check(i ? again : module, &error)) continue;
    g_autofree char *why = error_to_text(error, false);
    complain(test, name, "the protocol checker refuses it:\n%s", why);
    return;
  }
  if (test->time) time_check(name, text);
}

/* ---- Broken variants ---- */

static char *bare(const char *line)
{
  const char *comment = strchr(line, ';');
  return g_strstrip(g_strndup(line, comment ? (gsize)(comment - line) : strlen(line)));
}

/* Index of the line meant by `[#N ]TEXT`, or -1; without a number it must be the only one. */
static int find_line(char **lines, const char *wanted)
{
  unsigned nth = 0, seen = 0;
  int found = -1;
  if (wanted[0] == '#') {
    nth = (unsigned)g_ascii_strtoull(wanted + 1, (char **)&wanted, 10);
    while (*wanted == ' ')
      wanted++;
  }
  for (unsigned i = 0; lines[i]; i++) {
    g_autofree char *line = bare(lines[i]);
    if (strcmp(line, wanted)) continue;
    seen++;
    if (!nth || seen == nth) found = (int)i;
  }
  return nth ? (seen >= nth ? found : -1) : seen == 1 ? found : -1;
}

/* The new text with the indentation of the old. */
static char *indented(const char *line, const char *text)
{
  return g_strdup_printf("%*s%s", (int)strspn(line, " "), "", text);
}

static void replace_line(char **line, char *with)
{
  g_free(*line);
  *line = with;
}

static bool apply_line(char **lines, const char *edit)
{
  g_auto(GStrv) sides = g_strsplit(edit, " => ", 2);
  const char *verbs[] = {"delete ", "replace ", "insert after ", "insert before "};
  for (unsigned i = 0; i < G_N_ELEMENTS(verbs); i++) {
    if (!g_str_has_prefix(edit, verbs[i])) continue;
    int at = find_line(lines, sides[0] + strlen(verbs[i]));
    if (at < 0 || (i > 0) != (sides[1] != NULL)) return false;
    if (i == 0) replace_line(&lines[at], g_strdup(""));
    if (i == 0) return true;
    g_autofree char *added = indented(lines[at], sides[1]);
    if (i == 1) replace_line(&lines[at], g_steal_pointer(&added));
    if (i == 2) replace_line(&lines[at], g_strconcat(lines[at], "\n", added, NULL));
    if (i == 3) replace_line(&lines[at], g_strconcat(added, "\n", lines[at], NULL));
    return true;
  }
  return false;
}

static char *apply_edit(Test *test, const char *name, const char *text, const char *edit)
{
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  g_auto(GStrv) edits = g_strsplit(edit, "\n", -1);
  for (unsigned i = 0; edits[i]; i++) {
    if (!edits[i][0] || edits[i][0] == ';') continue;
    if (apply_line(lines, edits[i])) continue;
    complain(test, name, "this edit finds no line, or more than one: %s", edits[i]);
    return NULL;
  }
  return g_strjoinv("\n", lines);
}

static char *first_error(const GError *error)
{
  const GPtrArray *list = error_diagnostics(error);
  const Diagnostic *first = list && list->len ? list->pdata[0] : NULL;
  return first ? g_strdup_printf("%u:%u: %s [%s]\n", first->line, first->column, first->message, first->code)
               : g_strdup(error->message);
}

static void compare(Test *test, const char *name, const char *path, const char *found)
{
  g_autofree char *expected = NULL;
  if (g_file_get_contents(path, &expected, NULL, NULL) && !strcmp(expected, found)) return;
  if (test->update) {
    g_print("%s\n- %s+ %s\n", name, expected ? expected : "(none)\n", found);
    g_file_set_contents(path, found, -1, NULL);
    return;
  }
  complain(test, name, "another error than expected:\n  expected %s  found    %s",
           expected ? expected : "(none)\n", found);
}

static void test_variant(Test *test, const char *name)
{
  g_autofree char *kernel = g_strndup(name, (gsize)(strchr(name, '.') - name));
  g_autofree char *file = g_strconcat(kernel, ".staged.ir", NULL);
  g_autofree char *source_path = g_build_filename(test->directory, file, NULL);
  g_autofree char *edit_path = g_build_filename(test->directory, "broken", name, NULL);
  g_autofree char *stem = g_strndup(edit_path, strlen(edit_path) - strlen(".edit"));
  g_autofree char *expected_path = g_strconcat(stem, ".expected", NULL);
  g_autofree char *text = NULL, *edit = NULL, *changed = NULL, *found = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(IrModule) module = NULL;
  test->variants++;
  if (!g_file_get_contents(source_path, &text, NULL, &error) ||
      !g_file_get_contents(edit_path, &edit, NULL, &error)) {
    complain(test, name, "%s", error->message);
    return;
  }
  changed = apply_edit(test, name, text, edit);
  if (!changed) return;
  module = read_module(file, changed, &error);
  if (!module) {
    g_autofree char *why = error_to_text(error, false);
    complain(test, name, "reader or verifier refuse it before the checker can:\n%s", why);
    return;
  }
  if (check(module, &error)) {
    complain(test, name, "the protocol checker lets it pass");
    return;
  }
  found = first_error(error);
  compare(test, name, expected_path, found);
}

static int compare_names(gconstpointer a, gconstpointer b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void for_each(Test *test, const char *folder, const char *suffix, void (*run)(Test *, const char *))
{
  g_autofree char *path = g_build_filename(test->directory, folder, NULL);
  GDir *directory = g_dir_open(path, 0, NULL);
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  for (const char *name; directory && (name = g_dir_read_name(directory));)
    if (g_str_has_suffix(name, suffix)) g_ptr_array_add(names, g_strdup(name));
  if (directory) g_dir_close(directory);
  g_ptr_array_sort(names, compare_names);
  for (unsigned i = 0; i < names->len; i++)
    run(test, names->pdata[i]);
}

int main(int argc, char **argv)
{
  Test test = {0};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--update"))
      test.update = true;
    else if (!strcmp(argv[i], "--time"))
      test.time = true;
    else
      test.directory = argv[i];
  }
  if (!test.directory) {
    g_printerr("usage: test_paper [--update] [--time] DIRECTORY\n");
    return 2;
  }
  for_each(&test, ".", ".ir", test_kernel);
  for_each(&test, "broken", ".edit", test_variant);
  g_print("%u kernels, %u broken variants, %u faults\n", test.kernels, test.variants, test.faults);
  return test.faults || !test.kernels ? 1 : 0;
}
