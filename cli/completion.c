/* Completion for bash, zsh and fish, from the rows of cli/commands.c. What is named GPU, PASS, DIR or FILE there is
 * completed as such; names that an action shows are those that its command lists. */
#include "cli/cli.h"
#include "cli/completion_sets.h"
#include "cli/pass_log.h"
#include <string.h>

static char *pass_names(const char *option)
{
  g_autoptr(GPtrArray) names = pass_log_names(option);
  if (!strcmp(option, "print-after")) g_ptr_array_insert(names, 0, "all");
  g_ptr_array_add(names, NULL);
  return g_strjoinv(" ", (char **)names->pdata);
}

/* A shell's command that prints the first column of what a command of adlgen lists. */
static char *listing(const char *command)
{
  return g_strdup_printf("adlgen %s 2>/dev/null | awk \"NR>1 {print \\$1}\"", command);
}

/* Words a value can be, as the shell expands them; NULL: none are known. */
static char *words_of(const Option *option)
{
  if (option->choices) return g_strjoinv(" ", (char **)option->choices);
  if (!strcmp(option->value, "PASS")) return pass_names(option->name);
  if (strcmp(option->value, "GPU") != 0) return NULL;
  g_autofree char *list = listing("gpus");
  return g_strdup_printf("$(%s)", list);
}

/* NAME=VALUE of template parameters. */
static bool takes_parameters(const Option *option)
{
  return !strcmp(option->value, "PARAM=VALUE") || g_str_has_suffix(option->value, "KEY=VALUE,...");
}

static bool takes_file(const Option *option)
{
  return !strcmp(option->value, "GPU") || !strcmp(option->value, "FILE") ||
         g_str_has_suffix(option->value, "=FILE");
}

/* ---- bash, and zsh through its layer for bash's functions ---- */

static bool has_other_choices(const Option *option)
{
  for (const Command *command = commands; command->name; command++)
    for (const Option *other = command->options; other && other->name; other++)
      if (!strcmp(other->name, option->name) && other->choices != option->choices) return true;
  return false;
}

/* Those of the command that stands in front. */
static void append_choices(GString *script, const char *name)
{
  g_string_append_printf(script, "    --%s)\n      case ${COMP_WORDS[1]} in\n", name);
  for (const Command *command = commands; command->name; command++)
    for (const Option *option = command->options; option && option->name; option++) {
      if (strcmp(option->name, name) != 0 || !option->choices) continue;
      g_autofree char *words = words_of(option);
      g_string_append_printf(script, "        %s) _adlgen_words '' \"%s\" ;;\n", command->name, words);
    }
  g_string_append(script, "      esac\n      return ;;\n");
}

/* What may follow an option; options of one name without choices take the same values in every command. */
static void append_values(GString *script)
{
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  for (const Command *command = commands; command->name; command++)
    for (const Option *option = command->options; option && option->name; option++) {
      if (!option->value || !g_hash_table_add(seen, (char *)option->name)) continue;
      if (takes_parameters(option)) {
        g_string_append_printf(script, "    --%s) _adlgen_parameters; return ;;\n", option->name);
        continue;
      }
      if (option->choices && has_other_choices(option)) {
        append_choices(script, option->name);
        continue;
      }
      g_autofree char *words = words_of(option);
      bool folder = !strcmp(option->value, "DIR");
      g_string_append_printf(script, "    --%s) _adlgen_words '%s' \"%s\"; return ;;\n", option->name,
                             folder               ? "-d"
                             : takes_file(option) ? "-f"
                                                  : "",
                             words ? words : "");
    }
}

static void append_actions(GString *script)
{
  for (const Command *command = commands; command->name; command++)
    for (const Action *action = command->actions; action && action->name; action++) {
      bool named = g_str_has_prefix(action->arguments, "NAME"), file = strstr(action->arguments, "FILE");
      g_autofree char *list = named ? listing(command->name) : NULL;
      g_autofree char *words = list ? g_strdup_printf("$(%s)", list) : g_strdup("");
      g_string_append_printf(script, "    '%s %s') _adlgen_words '%s' \"%s --json --help\"; return ;;\n",
                             command->name, action->name, file ? "-f" : "", words);
    }
}

static void append_words(GString *script, const Command *command)
{
  g_string_append_printf(script, "    %s) words='", command->name);
  for (const Option *option = command->options; option && option->name; option++)
    g_string_append_printf(script, "--%s ", option->name);
  for (const Action *action = command->actions; action && action->name; action++)
    g_string_append_printf(script, "%s ", action->name);
  g_string_append(script, "--json --help' ;;\n");
}

/* Names behind which a value comes, and values where they are few. */
static void append_parameters(GString *script)
{
  g_autoptr(GPtrArray) sets = completion_sets();
  g_string_append(script, "# NAME=VALUE of template parameters, behind the last comma\n"
                          "_adlgen_parameters()\n{\n"
                          "  local item=${word##*,} before=$option\n"
                          "  [[ $word == *,* ]] && before+=${word%,*},\n"
                          "  case $item in\n");
  for (guint i = 0; i < sets->len; i++) {
    const SetWords *words = sets->pdata[i];
    g_autofree char *values = completion_set_values(words);
    if (*values) g_string_append_printf(script, "    %s=*) values='%s' ;;\n", words->name, values);
  }
  g_string_append(script, "    *=*) return ;;\n    *)\n"
                          "      compopt -o nospace 2>/dev/null\n"
                          "      COMPREPLY=($(compgen -W '");
  for (guint i = 0; i < sets->len; i++)
    g_string_append_printf(script, "%s= ", ((const SetWords *)sets->pdata[i])->name);
  g_string_append(script,
                  "' -P \"$before\" -- \"$item\"))\n"
                  "      COMPREPLY=(\"${COMPREPLY[@]#\"$kept\"}\")\n      return ;;\n  esac\n"
                  "  COMPREPLY=($(compgen -W \"$values\" -P \"$before${item%%=*}=\" -- \"${item#*=}\"))\n"
                  "  COMPREPLY=(\"${COMPREPLY[@]#\"$kept\"}\")\n}\n");
}

/* bash breaks words at =, and what is completed replaces what follows the last one; zsh does neither. */
static void append_functions(GString *script)
{
  append_parameters(script);
  g_string_append(
      script,
      "# adds what the word may become: files (-f), folders (-d), the words of $2; behind its last comma\n"
      "_adlgen_words()\n{\n"
      "  local before=$option\n"
      "  [[ $word == *,* ]] && before+=${word%,*},\n"
      "  [[ -n $1 && -z $before ]] && compopt -o filenames 2>/dev/null # else it would put a backslash "
      "before , and =\n"
      "  COMPREPLY=($(compgen $1 -W \"$2\" -P \"$before\" -- \"${word##*,}\"))\n"
      "  COMPREPLY=(\"${COMPREPLY[@]#\"$kept\"}\")\n}\n"
      "_adlgen()\n{\n"
      "  local at=$COMP_CWORD word=${COMP_WORDS[COMP_CWORD]} kept= option= values= words=\n"
      "  while ((at > 1)) && [[ $word == =* || ${COMP_WORDS[at-1]} == = ]]; do\n"
      "    ((at--))\n    word=${COMP_WORDS[at]}$word\n  done\n"
      "  ((at < COMP_CWORD)) && kept=${word%=*}=\n"
      "  local previous=${COMP_WORDS[at-1]}\n"
      "  if [[ $word == --*=* ]]; then\n"
      "    previous=${word%%=*} option=${word%%=*}= word=${word#*=}\n  fi\n"
      "  COMPREPLY=()\n"
      "  case $previous in\n");
  append_values(script);
  g_string_append(script, "  esac\n  if ((at == 1)); then\n    _adlgen_words '' '");
  for (const Command *command = commands; command->name; command++)
    g_string_append_printf(script, "%s ", command->name);
  g_string_append(script, "--help --version'\n    return\n  fi\n"
                          "  case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n");
  append_actions(script);
  g_string_append(script, "  esac\n  case ${COMP_WORDS[1]} in\n");
  for (const Command *command = commands; command->name; command++)
    append_words(script, command);
  g_string_append(script, "  esac\n  _adlgen_words -f \"$words\"\n}\n");
}

char *completion_bash(void)
{
  GString *script = g_string_new("# bash completion of adlgen; generated from its option table\n");
  append_functions(script);
  g_string_append(script, "complete -F _adlgen adlgen\n");
  return g_string_free(script, FALSE);
}

char *completion_zsh(void)
{
  GString *script =
      g_string_new("#compdef adlgen\n# zsh completion of adlgen; generated from its option table\n"
                   "autoload -U +X bashcompinit && bashcompinit\n");
  append_functions(script);
  g_string_append(script, "_bash_complete -o filenames -F _adlgen\n");
  return g_string_free(script, FALSE);
}

/* ---- fish ---- */

/* In single quotes, where fish knows two escapes. */
static void append_quoted(GString *script, const char *text)
{
  g_string_append_c(script, '\'');
  for (; *text; text++) {
    if (*text == '\'' || *text == '\\') g_string_append_c(script, '\\');
    g_string_append_c(script, *text);
  }
  g_string_append_c(script, '\'');
}

static void append_fish_option(GString *script, const char *command, const Option *option)
{
  g_string_append_printf(script, "complete -c adlgen -n '__fish_seen_subcommand_from %s' -l %s -d ", command,
                         option->name);
  append_quoted(script, option->doc);
  if (option->value) {
    g_autofree char *words = words_of(option), *list = listing("gpus");
    bool gpu = !strcmp(option->value, "GPU");
    g_string_append(script, takes_file(option) || !strcmp(option->value, "DIR") ? " -r -F" : " -x");
    if (takes_parameters(option)) g_string_append(script, " -a '(__adlgen_parameters)'");
    if (words) {
      g_autofree char *values = gpu            ? g_strdup_printf("(__adlgen_list (%s))", list)
                                : option->list ? g_strdup_printf("(__adlgen_list %s)", words)
                                               : g_strdup(words);
      g_string_append(script, " -a ");
      append_quoted(script, values);
    }
  }
  g_string_append_c(script, '\n');
}

static void append_fish_action(GString *script, const Command *command, const Action *action)
{
  g_string_append_printf(script, "complete -c adlgen -n '__fish_seen_subcommand_from %s' -a %s -d ",
                         command->name, action->name);
  append_quoted(script, action->doc);
  g_string_append_c(script, '\n');
  if (!g_str_has_prefix(action->arguments, "NAME")) return;
  g_autofree char *list = listing(command->name);
  g_string_append_printf(
      script,
      "complete -c adlgen -n '__fish_seen_subcommand_from %s; and __fish_seen_subcommand_from %s' -a ",
      command->name, action->name);
  g_autofree char *values = g_strdup_printf("(%s)", list);
  append_quoted(script, values);
  g_string_append_c(script, '\n');
}

static void append_fish_parameters(GString *script)
{
  g_autoptr(GPtrArray) sets = completion_sets();
  g_string_append(script, "# NAME=VALUE of template parameters, behind the last comma\n"
                          "function __adlgen_parameters\n"
                          "  set -l token (commandline -ct | string replace -r '^--[a-z]+=' '')\n"
                          "  set -l before (string match -r '.*,' -- $token)\n"
                          "  set -l item (string replace -r '.*,' '' -- $token)\n"
                          "  set -l words\n  switch \"$item\"\n");
  for (guint i = 0; i < sets->len; i++) {
    const SetWords *words = sets->pdata[i];
    g_autofree char *values = completion_set_values(words);
    if (*values)
      g_string_append_printf(script, "    case '%s=*'\n      set words %s=(string split ' ' '%s')\n",
                             words->name, words->name, values);
  }
  g_string_append(script, "    case '*=*'\n    case '*'\n      set words");
  for (guint i = 0; i < sets->len; i++)
    g_string_append_printf(script, " %s=", ((const SetWords *)sets->pdata[i])->name);
  g_string_append(script, "\n  end\n  for word in $words\n    echo \"$before$word\"\n  end\nend\n");
}

char *completion_fish(void)
{
  GString *script = g_string_new("# fish completion of adlgen; generated from its option table\n"
                                 "# the words, each behind what the comma list holds already\n"
                                 "function __adlgen_list\n"
                                 "  set -l before (commandline -ct | string match -r '.*,')\n"
                                 "  for word in $argv\n    echo \"$before$word\"\n  end\nend\n");
  append_fish_parameters(script);
  for (const Command *command = commands; command->name; command++) {
    g_string_append_printf(script, "complete -c adlgen -f -n __fish_use_subcommand -a %s -d ", command->name);
    append_quoted(script, command->doc);
    g_string_append_c(script, '\n');
    for (const Option *option = command->options; option && option->name; option++)
      append_fish_option(script, command->name, option);
    for (const Action *action = command->actions; action && action->name; action++)
      append_fish_action(script, command, action);
  }
  g_string_append(
      script,
      "complete -c adlgen -l json -d 'prints one JSON object'\ncomplete -c adlgen -l help -d 'shows help'\n");
  return g_string_free(script, FALSE);
}
