/* Where a contradiction is shown: at what the user wrote last. Of two values that cannot both hold, the one
 * whose file is nearest to the file that was named is the fault, and the other, often inherited, is named
 * beside it. */
#include "adl/build.h"
#include <string.h>

unsigned build_distance(const Build *build, const Mark *mark)
{
  for (unsigned i = 0; i < build->n_chain; i++)
    if (build->chain[i] == mark->source) return i;
  return UINT_MAX;
}

const Entry *build_culprit(const Build *build, const Entry *const *entries, unsigned n)
{
  const Entry *nearest = NULL;
  for (unsigned i = 0; i < n; i++)
    if (entries[i] &&
        (!nearest || build_distance(build, &entries[i]->mark) < build_distance(build, &nearest->mark)))
      nearest = entries[i];
  return nearest;
}

void build_given(Build *build, const Entry *entry)
{
  const char *inherited = build_distance(build, &entry->mark) > 0 ? ", and inherited" : "";
  if (!strcmp(entry->rule->key, "scope")) /* it stands for its family: see build_family_entry */
    build_note(build, &entry->mark, "contradiction", "family `%s` is listed here%s", entry->rule->section,
               inherited);
  else
    build_note(build, &entry->mark, "contradiction", "%s is given here%s", entry->path, inherited);
}

const Entry *build_family_entry(const Build *build, const char *family)
{
  g_autofree char *path = g_strconcat(family, ".scope", NULL);
  return build_entry(build, path);
}
