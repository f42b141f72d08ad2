/* The simulator refuses what a target or PTX version lacks, and only that: each instruction of
 * targets/instructions.txt, for each target, at the first version that ptxas takes it with and at the one
 * before. */
#include "simulator/ptx.h"
#include <stdlib.h>
#include <string.h>

static const char *const versions[] = {"6.3", "6.4", "6.5", "7.0", "7.1", "7.2", "7.3", "7.4",
                                       "7.5", "7.6", "7.7", "7.8", "8.0", "8.1", "8.2", "8.3",
                                       "8.4", "8.5", "8.6", "8.7", "8.8", "9.0"};

typedef enum { TAKEN, REFUSED, UNREAD } Verdict;

static Verdict verdict(const char *preamble, const char *target, const char *version, const char *instruction)
{
  g_autofree char *text = g_strdup_printf(".version %s\n.target %s\n.address_size 64\n"
                                          ".visible .entry k(.param .u64 prm)\n{\n%s%s\nret;\n}\n",
                                          version, target, preamble, instruction);
  g_autoptr(Source) source = source_new("instruction", text, strlen(text));
  g_autoptr(GError) error = NULL;
  PtxModule *module = ptx_parse(source, &error);
  if (module) {
    ptx_module_free(module);
    return TAKEN;
  }
  const Diagnostic *first = error_diagnostics(error)->pdata[0];
  return g_str_has_prefix(first->code, "ptx-target") || g_str_has_prefix(first->code, "ptx-version") ? REFUSED
                                                                                                     : UNREAD;
}

static unsigned expect(Verdict expected, const char *preamble, const char *target, const char *version,
                       const char *instruction)
{
  static const char *const words[] = {"taken", "refused", "not read"};
  Verdict got = verdict(preamble, target, version, instruction);
  if (got == expected) return 0;
  printf("%s, .target %s, .version %s: %s, but ptxas has it %s\n", instruction, target, version, words[got],
         words[expected]);
  return 1;
}

/* Columns are in the order of the targets. */
static unsigned check_line(const char *preamble, char **targets, const char *line)
{
  const char *bar = strchr(line, '|');
  g_autofree char *words = g_strndup(line, (gsize)(bar - line));
  g_auto(GStrv) columns = g_strsplit_set(g_strstrip(words), " ", -1);
  const char *instruction = bar + 2;
  unsigned column = 0, faults = 0;
  for (char **first = columns; *first && targets[column]; first++) {
    if (!**first) continue; /* several blanks */
    const char *target = targets[column++];
    if (!strcmp(*first, "-")) {
      faults += expect(REFUSED, preamble, target, "9.0", instruction);
      continue;
    }
    faults += expect(TAKEN, preamble, target, *first, instruction);
    for (unsigned v = 1; v < G_N_ELEMENTS(versions); v++)
      if (!strcmp(versions[v], *first))
        faults += expect(REFUSED, preamble, target, versions[v - 1], instruction);
  }
  return faults;
}

int main(int argc, char **argv)
{
  g_autofree char *text = NULL;
  if (argc != 2 || !g_file_get_contents(argv[1], &text, NULL, NULL)) return 2;
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1), targets = NULL;
  g_autoptr(GString) preamble = g_string_new(NULL);
  unsigned n = 0, faults = 0;
  for (char **line = lines; *line; line++) {
    if (g_str_has_prefix(*line, "targets ")) targets = g_strsplit(*line + strlen("targets "), " ", -1);
    if (g_str_has_prefix(*line, "preamble "))
      g_string_append_printf(preamble, "%s\n", *line + strlen("preamble "));
    if (**line == '#' || !strchr(*line, '|') || !targets || g_str_has_prefix(*line, "preamble ")) continue;
    faults += check_line(preamble->str, targets, *line);
    n++;
  }
  printf("%u instructions, %u not as ptxas has them\n", n, faults);
  return faults || n < 300;
}
