#include "runtime/assembler_search.h"
#include <glob.h>
#include <string.h>

#define TOOL "ptxas"

static void place_free(void *memory)
{
  AssemblerPlace *place = memory;
  g_free(place->origin);
  g_free(place->path);
  g_free(place);
}

static bool is_program(const char *path)
{
  return g_file_test(path, G_FILE_TEST_IS_EXECUTABLE) && !g_file_test(path, G_FILE_TEST_IS_DIR);
}

static void add_place(GPtrArray *places, const char *origin, const char *path)
{
  AssemblerPlace *place = g_new0(AssemblerPlace, 1);
  place->origin = g_strdup(origin);
  place->path = g_strdup(path);
  place->found = is_program(path);
  g_ptr_array_add(places, place);
}

/* Every match of a pattern, or the pattern itself if there is none. */
static void add_pattern(GPtrArray *places, const char *origin, const char *pattern)
{
  glob_t matches = {0};
  if (glob(pattern, 0, NULL, &matches) != 0) {
    AssemblerPlace *place = g_new0(AssemblerPlace, 1);
    place->origin = g_strdup(origin);
    place->path = g_strdup(pattern);
    g_ptr_array_add(places, place);
  }
  /* The newest version sorts last. */
  for (size_t i = matches.gl_pathc; i > 0; i--)
    add_place(places, origin, matches.gl_pathv[i - 1]);
  globfree(&matches);
}

static void add_environment(GPtrArray *places, const char *variable)
{
  const char *folder = g_getenv(variable);
  if (!folder || !*folder) return;
  g_autofree char *path = g_build_filename(folder, "bin", TOOL, NULL);
  add_place(places, variable, path);
}

static void add_search_path(GPtrArray *places)
{
  g_autofree char *path = g_find_program_in_path(TOOL);
  add_place(places, "PATH", path ? path : "$PATH/" TOOL);
}

/* ---- Python's package folders: the wheels of NVIDIA, and Triton's copy ---- */

static void add_python_root(GPtrArray *places, GHashTable *seen, const char *root)
{
  if (!root || !*root || !g_hash_table_add(seen, g_strdup(root))) return;
  static const char *const below[] = {"nvidia/*/bin/" TOOL, "triton/backends/nvidia/bin/" TOOL};
  static const char *const packages[] = {"site-packages", "dist-packages"};
  for (unsigned i = 0; i < G_N_ELEMENTS(below); i++) {
    bool any = false;
    for (unsigned j = 0; j < G_N_ELEMENTS(packages); j++) {
      g_autofree char *pattern = g_build_filename(root, "lib", "python3*", packages[j], below[i], NULL);
      glob_t matches = {0};
      if (glob(pattern, 0, NULL, &matches) == 0) {
        any = true;
        add_pattern(places, packages[j], pattern);
      }
      globfree(&matches);
    }
    if (any) continue;
    g_autofree char *pattern = g_build_filename(root, "lib", "python3*", "*-packages", below[i], NULL);
    add_pattern(places, packages[0], pattern);
  }
}

static void add_python(GPtrArray *places)
{
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  add_python_root(places, seen, g_getenv("VIRTUAL_ENV"));
  add_python_root(places, seen, g_getenv("CONDA_PREFIX"));
  g_autofree char *python = g_find_program_in_path("python3");
  if (python) {
    g_autofree char *folder = g_path_get_dirname(python);
    g_autofree char *root = g_path_get_dirname(folder);
    add_python_root(places, seen, root);
  }
  g_autofree char *user = g_build_filename(g_get_home_dir(), ".local", NULL);
  add_python_root(places, seen, user);
  add_python_root(places, seen, "/usr/local");
  add_python_root(places, seen, "/usr");
}

/* ---- the private copy that scripts/setup fetches ---- */

static void add_private(GPtrArray *places, const char *near)
{
  if (!near) return;
  g_autofree char *folder = g_strdup(near);
  for (unsigned level = 0; level < 4; level++) {
    g_autofree char *deps = g_build_filename(folder, ".deps", NULL);
    if (g_file_test(deps, G_FILE_TEST_IS_DIR)) {
      g_autofree char *pattern = g_build_filename(deps, "*", "nvidia", "*", "bin", TOOL, NULL);
      add_pattern(places, "private copy", pattern);
      return;
    }
    char *parent = g_path_get_dirname(folder);
    g_free(folder);
    folder = parent;
  }
}

bool assembler_place_binds(const AssemblerPlace *place)
{
  return !strcmp(place->origin, "--" TOOL) || !strcmp(place->origin, "ADLGEN_PTXAS");
}

static void add_environments(GPtrArray *places, const char *near)
{
  (void)near;
  add_environment(places, "CUDA_HOME");
  add_environment(places, "CUDA_PATH");
}

static void add_usual(GPtrArray *places, const char *near)
{
  (void)near;
  add_search_path(places);
  add_place(places, "default", "/usr/local/cuda/bin/" TOOL);
}

static void add_packages(GPtrArray *places, const char *near)
{
  (void)near;
  add_python(places);
}

/* Does the choice not depend on what would follow? */
static bool settled(const GPtrArray *places)
{
  for (guint i = 0; i < places->len; i++) {
    const AssemblerPlace *place = places->pdata[i];
    if (place->found || assembler_place_binds(place)) return true;
  }
  return false;
}

GPtrArray *assembler_places(const char *explicit_path, const char *near, bool all)
{
  static void (*const steps[])(GPtrArray * places, const char *near) = {add_environments, add_usual,
                                                                        add_packages, add_private};
  GPtrArray *places = g_ptr_array_new_with_free_func(place_free);
  if (explicit_path) add_place(places, "--" TOOL, explicit_path);
  const char *variable = g_getenv("ADLGEN_PTXAS");
  if (variable && *variable) add_place(places, "ADLGEN_PTXAS", variable);
  for (unsigned i = 0; i < G_N_ELEMENTS(steps) && (all || !settled(places)); i++)
    steps[i](places, near);
  return places;
}
