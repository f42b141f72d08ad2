/* Build step: prints the man page (`man VERSION`) or a completion (`bash`, `zsh`, `fish`). */
#include "cli/cli.h"
#include <string.h>

int main(int argc, char **argv)
{
  g_autofree char *text = NULL;
  if (argc == 3 && !strcmp(argv[1], "man"))
    text = help_man_page(argv[2]);
  else if (argc == 2 && !strcmp(argv[1], "bash"))
    text = completion_bash();
  else if (argc == 2 && !strcmp(argv[1], "zsh"))
    text = completion_zsh();
  else if (argc == 2 && !strcmp(argv[1], "fish"))
    text = completion_fish();
  else
    return ERROR_USAGE;
  fputs(text, stdout);
  return 0;
}
