#include "base/arena.h"
#include <string.h>

/* Chunks are chained; a request that does not fit opens a new one. Large requests get a chunk of their own.
 */
typedef struct Chunk Chunk;
struct Chunk {
  Chunk *next;
  size_t used, size;
  max_align_t bytes[];
};

struct Arena {
  Chunk *chunks; /* the first is the one being filled */
  size_t used;
};

#define CHUNK_BYTES ((size_t)64 * 1024)
#define ALIGNMENT   _Alignof(max_align_t)
#define SHORT_TEXT  256 /* most of what is printed is shorter, and needs no second look */

static Chunk *chunk_new(size_t size, Chunk *next)
{
  if (size > G_MAXSIZE - sizeof(Chunk)) g_error("arena: a request of %zu bytes cannot be met", size);
  Chunk *chunk = g_malloc(sizeof(Chunk) + size);
  chunk->used = 0;
  chunk->size = size;
  chunk->next = next;
  return chunk;
}

Arena *arena_new(void)
{
  return g_new0(Arena, 1);
}

void arena_free(Arena *arena)
{
  if (!arena) return;
  for (Chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    g_free(chunk);
  }
  g_free(arena);
}

/* Memory of unknown content: of a chunk only what is asked for is cleared, and not where it is written next. */
static void *take(Arena *arena, size_t size)
{
  if (size > G_MAXSIZE - 2 * ALIGNMENT) g_error("arena: a request of %zu bytes cannot be met", size);
  size = MAX((size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, ALIGNMENT);
  arena->used += size;
  Chunk *first = arena->chunks;
  if (size > CHUNK_BYTES / 4) {
    /* Goes behind the first chunk, which still has room for small requests. */
    Chunk *own = chunk_new(size, first ? first->next : NULL);
    own->used = size;
    if (first)
      first->next = own;
    else
      arena->chunks = own;
    return own->bytes;
  }
  if (!first || first->size - first->used < size) arena->chunks = first = chunk_new(CHUNK_BYTES, first);
  void *memory = (char *)first->bytes + first->used;
  first->used += size;
  return memory;
}

void *arena_alloc(Arena *arena, size_t size)
{
  return memset(take(arena, size), 0, size);
}

void *arena_memdup(Arena *arena, const void *memory, size_t size)
{
  void *copy = take(arena, size);
  if (size) memcpy(copy, memory, size);
  return copy;
}

char *arena_strndup(Arena *arena, const char *text, size_t length)
{
  char *copy = take(arena, length + 1);
  if (length) memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

char *arena_strdup(Arena *arena, const char *text)
{
  return text ? arena_strndup(arena, text, strlen(text)) : NULL;
}

char *arena_printf(Arena *arena, const char *format, ...)
{
  char text[SHORT_TEXT];
  va_list arguments;
  va_start(arguments, format);
  int length = g_vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < SHORT_TEXT) return arena_strndup(arena, text, (size_t)length);
  char *copy = arena_alloc(arena, (size_t)length + 1);
  va_start(arguments, format);
  g_vsnprintf(copy, (gulong)length + 1, format, arguments);
  va_end(arguments);
  return copy;
}

size_t arena_used(const Arena *arena)
{
  return arena->used;
}
