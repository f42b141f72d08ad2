#define _GNU_SOURCE /* dladdr */
/* The assembler as a library in this process. Its functions are declared as its header has them; the names
 * without a version are the same in every release. */
#include "runtime/assembler_private.h"
#include <dlfcn.h>
#include <glib/gstdio.h>
#include <string.h>

enum { INPUT_PTX = 2 };

typedef void *Handle;

/* X(field, symbol, parameters) */
#define FUNCTIONS(X)                                                                                         \
  X(version, "nvJitLinkVersion", (unsigned *major, unsigned *minor))                                         \
  X(create, "nvJitLinkCreate", (Handle * handle, uint32_t n, const char **options))                          \
  X(destroy, "nvJitLinkDestroy", (Handle * handle))                                                          \
  X(add, "nvJitLinkAddData", (Handle handle, int kind, const void *data, size_t size, const char *name))     \
  X(complete, "nvJitLinkComplete", (Handle handle))                                                          \
  X(cubin_size, "nvJitLinkGetLinkedCubinSize", (Handle handle, size_t * size))                               \
  X(cubin, "nvJitLinkGetLinkedCubin", (Handle handle, void *cubin))                                          \
  X(error_size, "nvJitLinkGetErrorLogSize", (Handle handle, size_t * size))                                  \
  X(error_log, "nvJitLinkGetErrorLog", (Handle handle, char *log))                                           \
  X(info_size, "nvJitLinkGetInfoLogSize", (Handle handle, size_t * size))                                    \
  X(info_log, "nvJitLinkGetInfoLog", (Handle handle, char *log))

struct NvJitLink {
  void *library;
#define X(field, symbol, parameters) int(*field) parameters;
  FUNCTIONS(X)
#undef X
};

static void *open_first(GString *tried, char **path)
{
  const char *named = g_getenv("ADLGEN_NVJITLINK"), *home = g_getenv("CUDA_HOME");
  g_autofree char *below = home ? g_build_filename(home, "lib64", "libnvJitLink.so", NULL) : NULL;
  const char *const places[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so",
                                "/usr/local/cuda/lib64/libnvJitLink.so", below};
  bool binds = named && *named;
  for (unsigned i = 0; i < (binds ? 1 : G_N_ELEMENTS(places)); i++) {
    const char *place = binds ? named : places[i];
    void *library = place ? dlopen(place, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library) {
      *path = g_strdup(place);
      return library;
    }
    if (place) g_string_append_printf(tried, "%s%s", tried->len ? ", " : "", place);
  }
  return NULL;
}

static const char *load_functions(NvJitLink *library)
{
  const char *missing = NULL;
#define X(field, symbol, parameters)                                                                         \
  *(void **)&library->field = dlsym(library->library, symbol);                                               \
  if (!library->field) missing = symbol;
  FUNCTIONS(X)
#undef X
  return missing;
}

/* Releases of one version differ in their file, so its name and size belong to the version. */
static char *describe(const NvJitLink *library, unsigned major, unsigned minor)
{
  Dl_info info;
  g_autofree char *file = NULL;
  if (dladdr(*(void *const *)&library->create, &info) && info.dli_fname) file = g_strdup(info.dli_fname);
  GStatBuf status = {0};
  if (!file || g_stat(file, &status)) return g_strdup_printf("%u.%u", major, minor);
  return g_strdup_printf("%u.%u (%" G_GUINT64_FORMAT " bytes)", major, minor, (uint64_t)status.st_size);
}

NvJitLink *nvjitlink_open(char **path, char **version, GError **error)
{
  g_autoptr(GString) tried = g_string_new(NULL);
  NvJitLink *library = g_new0(NvJitLink, 1);
  unsigned major = 0, minor = 0;
  library->library = open_first(tried, path);
  const char *missing = library->library ? load_functions(library) : NULL;
  if (library->library && !missing && library->version(&major, &minor) == 0) {
    *version = describe(library, major, minor);
    return library;
  }
  if (missing)
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-nvjitlink", NULL, "%s has no %s", *path, missing);
  else
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-nvjitlink",
              "it comes with the CUDA toolkit and with PyTorch; ADLGEN_NVJITLINK names one",
              "libnvJitLink was not found; looked for %s by the system's loader", tried->str);
  nvjitlink_free(library);
  return NULL;
}

void nvjitlink_free(NvJitLink *library)
{
  g_free(library);
}

static char *read_log(Handle handle, int (*size_of)(Handle, size_t *), int (*read)(Handle, char *))
{
  size_t size = 0;
  if (!handle || size_of(handle, &size) || !size) return g_strdup("");
  char *log = g_malloc0(size + 1);
  if (read(handle, log)) *log = 0;
  char *text = g_utf8_make_valid(log, -1);
  g_free(log);
  return text;
}

static GBytes *link_text(const NvJitLink *library, Handle handle, const char *name, const char *ptx)
{
  size_t size = 0;
  if (!handle || library->add(handle, INPUT_PTX, ptx, strlen(ptx), name) || library->complete(handle) ||
      library->cubin_size(handle, &size) || !size)
    return NULL;
  char *cubin = g_malloc(size);
  if (!library->cubin(handle, cubin)) return g_bytes_new_take(cubin, size);
  g_free(cubin);
  return NULL;
}

Assembly *nvjitlink_run(const NvJitLink *library, const char *name, const char *ptx, const char *target,
                        GError **error)
{
  g_autofree char *arch = g_strconcat("-arch=", target, NULL);
  const char *options[] = {arch, "-verbose"};
  Handle handle = NULL;
  int status = library->create(&handle, G_N_ELEMENTS(options), options);
  GBytes *cubin = status ? NULL : link_text(library, handle, name, ptx);
  Assembly *assembly = NULL;
  if (cubin)
    assembly = assembly_new(cubin, read_log(handle, library->info_size, library->info_log));
  else {
    g_autofree char *log = read_log(handle, library->error_size, library->error_log);
    error_set(error, ERROR_INTERNAL, NULL, "assembler-refused", NULL, "nvJitLink refused %s for %s: %s", name,
              target, *log ? log : "it does not say why; the target may be too new for it");
  }
  if (handle) library->destroy(&handle);
  return assembly;
}
