#define _GNU_SOURCE /* dl_iterate_phdr */
#include "execute/build_id.h"
#include <elf.h>
#include <glib.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

typedef struct Search {
  uintptr_t here; /* an address of the object that is looked for */
  GString *found;
} Search;

static bool contains(const struct dl_phdr_info *object, uintptr_t address)
{
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    uintptr_t start = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_LOAD && address >= start && address - start < segment->p_memsz) return true;
  }
  return false;
}

static void read_notes(const char *notes, size_t size, GString *found)
{
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    memcpy(&note, notes, sizeof note);
    size_t name = (note.n_namesz + 3U) & ~(size_t)3, body = (note.n_descsz + 3U) & ~(size_t)3;
    size_t whole = sizeof note + name + body;
    if (whole > size) return;
    const unsigned char *bytes = (const unsigned char *)notes + sizeof note + name;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(notes + sizeof note, "GNU", 4))
      for (unsigned i = 0; i < note.n_descsz; i++)
        g_string_append_printf(found, "%02x", bytes[i]);
    notes += whole;
    size -= whole;
  }
}

static int visit(struct dl_phdr_info *object, size_t size, void *data)
{
  Search *search = data;
  if (!contains(object, search->here)) return 0;
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    if (segment->p_type != PT_NOTE) continue;
    /* The loader has put the segment there, so its address is one. */
    const char *notes = (const char *)(uintptr_t)(object->dlpi_addr + segment->p_vaddr); // NOLINT
    read_notes(notes, segment->p_memsz, search->found);
  }
  return 1;
}

char *build_id(void)
{
  Search search = {(uintptr_t)visit, g_string_new(NULL)};
  dl_iterate_phdr(visit, &search);
  bool any = search.found->len > 0;
  return g_string_free(search.found, !any);
}
