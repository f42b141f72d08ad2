/* Stands in for the fuzzer where there is none: runs the target once on each file named, or in each folder
 * named. */
#include <gio/gio.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replay(const char *path)
{
  g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
  unsigned count = 0;
  const char *name;
  while (folder && (name = g_dir_read_name(folder))) {
    g_autofree char *file = g_build_filename(path, name, NULL);
    count += replay(file);
  }
  if (folder) return count;
  g_autofree char *text = NULL;
  gsize length;
  if (!g_file_get_contents(path, &text, &length, NULL)) return 0;
  LLVMFuzzerTestOneInput((const uint8_t *)text, length);
  return 1;
}

int main(int argc, char **argv)
{
  unsigned count = 0;
  for (int i = 1; i < argc; i++)
    count += replay(argv[i]);
  printf("%u inputs replayed\n", count);
  return count ? 0 : 1;
}
