/* Between print.c and read.c only. */
#pragma once
#include <glib.h>
#include <stdbool.h>

/* Of a name that stands without quotes. */
static inline bool program_name_character(char c)
{
  return g_ascii_isalnum(c) || c == '_' || c == '.';
}
