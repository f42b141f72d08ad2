/* The simulator takes the sets of modifiers that ptxas takes, with the types and in the orders that it takes them, and no others:
 * forms/forms.txt, whose record.py says what its lines mean. */
#include "simulator/forms.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORDS 40
#define MOST_PARTS 12
#define MOST_SHOWN 40

static const char all_types[] =
    "pred b8 u8 s8 b16 u16 s16 f16 bf16 b32 u32 s32 f32 tf32 f16x2 bf16x2 u16x2 s16x2 b64 u64 "
    "s64 f64 f32x2 b128";

/* One line `try`, and what ptxas took of it. */
typedef struct Trial {
  char *opcode, **modifiers, **types;
  GPtrArray *fixed; /* modifiers of every set */
  unsigned n_modifiers, most;
  GHashTable *taken; /* "f32.f16|rn ftz" */
} Trial;

static unsigned tried, faults;

static void judge(const Forms *forms, const Trial *t, const char *const *chosen, unsigned n, const char *type)
{
  const char *parts[MOST_PARTS] = {t->opcode};
  unsigned n_parts = 1;
  for (guint i = 0; i < t->fixed->len; i++)
    parts[n_parts++] = t->fixed->pdata[i];
  g_autoptr(GString) set = g_string_new(type);
  g_string_append_c(set, '|');
  for (unsigned i = 0; i < n; i++) {
    parts[n_parts++] = chosen[i];
    g_string_append_printf(set, "%s%s", i ? " " : "", chosen[i]);
  }
  if (!n) g_string_append_c(set, '-');
  g_auto(GStrv) types = g_strsplit(type, ".", -1);
  for (char **one = types; *one; one++)
    parts[n_parts++] = *one;
  bool taken = g_hash_table_contains(t->taken, set->str), ours = forms_have(forms, parts, n_parts);
  tried++;
  if (taken == ours) return;
  if (faults++ < MOST_SHOWN)
    printf("%s %s: %s, but ptxas has it %s\n", t->opcode, set->str, ours ? "taken" : "refused",
           taken ? "taken" : "refused");
}

/* Every set of at most `most` modifiers, from the one at `from` on, added to those chosen. */
static void choose(const Forms *forms, const Trial *t, const char **chosen, unsigned n, unsigned from)
{
  for (char **type = t->types; *type; type++)
    judge(forms, t, chosen, n, *type);
  for (unsigned i = from; n < t->most && i < t->n_modifiers; i++) {
    chosen[n] = t->modifiers[i];
    choose(forms, t, chosen, n + 1, i + 1);
  }
}

static void end_trial(const Forms *forms, Trial *t)
{
  const char *chosen[MOST_PARTS];
  if (!t->opcode) return;
  choose(forms, t, chosen, 0, 0);
  g_free(t->opcode);
  g_strfreev(t->modifiers);
  g_strfreev(t->types);
  g_hash_table_unref(t->taken);
  g_ptr_array_unref(t->fixed);
  *t = (Trial){0};
}

static char **pairs(void)
{
  g_auto(GStrv) types = g_strsplit(all_types, " ", -1);
  g_autoptr(GPtrArray) out = g_ptr_array_new();
  for (char **a = types; *a; a++)
    for (char **b = types; *b; b++)
      g_ptr_array_add(out, g_strdup_printf("%s.%s", *a, *b));
  g_ptr_array_add(out, NULL);
  return (char **)g_ptr_array_steal(out, NULL);
}

/* "try OPCODE OPERANDS MOST MODIFIER... types all | all x all | TYPE..." */
static void begin_trial(Trial *t, const char *line)
{
  g_auto(GStrv) words = g_strsplit(line, " ", -1);
  g_autoptr(GPtrArray) modifiers = g_ptr_array_new();
  unsigned i = 4;
  t->fixed = g_ptr_array_new_with_free_func(g_free);
  for (; strcmp(words[i], "types") != 0; i++)
    g_ptr_array_add(*words[i] == '+' ? t->fixed : modifiers, g_strdup(words[i] + (*words[i] == '+')));
  t->n_modifiers = modifiers->len;
  g_ptr_array_add(modifiers, NULL);
  t->modifiers = (char **)g_ptr_array_steal(modifiers, NULL);
  t->opcode = g_strdup(words[1]);
  t->most = (unsigned)atoi(words[3]);
  bool all = strcmp(words[i + 1], "all") == 0;
  t->types = !all ? g_strdupv(words + i + 1) : words[i + 2] ? pairs() : g_strsplit(all_types, " ", -1);
  t->taken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
}

static void add_taken(Trial *t, const char *line)
{
  g_auto(GStrv) halves = g_strsplit(line, " | ", 2);
  g_auto(GStrv) types = g_strsplit(halves[0], " ", -1), sets = g_strsplit(halves[1], ", ", -1);
  for (char **type = types; *type; type++)
    for (char **set = sets; *set; set++)
      g_hash_table_add(t->taken, g_strdup_printf("%s|%s", *type, *set));
}

/* An order of the words, as in a line "order". */
static void judge_order(const Forms *forms, const char *const *parts, unsigned n, const char *taken)
{
  g_autofree char *whole = g_strjoinv(".", (char **)parts + 1);
  g_auto(GStrv) orders = g_strsplit(taken, " ", -1);
  bool theirs = strcmp(taken, "all") == 0 || g_strv_contains((const char *const *)orders, whole);
  bool ours = forms_have(forms, parts, n);
  tried++;
  if (theirs == ours) return;
  if (faults++ < MOST_SHOWN)
    printf("%s.%s: %s, but ptxas has it %s\n", parts[0], whole, ours ? "taken" : "refused",
           theirs ? "taken" : "refused");
}

/* Every order of words[2 ...], of which the types, n_types at the end, keep theirs. used: bits of those in parts */
static void permute(const Forms *forms, char **words, unsigned n_words, unsigned n_types, const char **parts,
                    unsigned n, unsigned used, const char *taken)
{
  if (n == n_words + 1) {
    parts[n] = NULL;
    judge_order(forms, parts, n, taken);
    return;
  }
  for (unsigned i = 0; i < n_words; i++) {
    bool early = i > n_words - n_types && !(used >> (i - 1) & 1);
    if (used >> i & 1 || early) continue;
    parts[n] = words[i];
    permute(forms, words, n_words, n_types, parts, n + 1, used | 1u << i, taken);
  }
}

/* "order OPCODE OPERANDS MODIFIER... types TYPE..." */
static void judge_orders(const Forms *forms, const char *line, const char *taken)
{
  g_auto(GStrv) words = g_strsplit(line, " ", -1);
  char *kept[MOST_WORDS];
  const char *parts[MOST_PARTS] = {words[1]};
  unsigned n = 0, n_types = 0;
  bool types = false;
  for (char **word = words + 3; *word && n < MOST_PARTS - 2; word++) {
    if (strcmp(*word, "types") == 0) {
      types = true;
      continue;
    }
    kept[n++] = *word;
    n_types += types;
  }
  permute(forms, kept, n, n_types, parts, 1, 0, taken);
}

int main(int argc, char **argv)
{
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  Forms *forms = forms_load(&error);
  if (argc != 2 || !forms || !g_file_get_contents(argv[1], &text, NULL, &error)) {
    printf("%s\n", error ? error->message : "usage: test-forms FORMS.txt");
    return 1;
  }
  Trial trial = {0};
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line; line++) {
    if (g_str_has_prefix(*line, "try ")) {
      end_trial(forms, &trial);
      begin_trial(&trial, *line);
    } else if (g_str_has_prefix(*line, "order ")) {
      end_trial(forms, &trial);
      judge_orders(forms, line[0], line[1]);
      line++;
    } else if (**line && **line != '#') {
      add_taken(&trial, *line);
    }
  }
  end_trial(forms, &trial);
  forms_free(forms);
  printf("%u forms, %u judged wrongly\n", tried, faults);
  return faults || !tried;
}
