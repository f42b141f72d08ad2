/* Arena: memory that is freed all at once. One arena per kernel holds its whole IR.
 *
 * Not thread-safe: an arena belongs to one thread at a time. Allocation never fails (out of memory aborts,
 * as in GLib). Returned memory is zeroed and aligned for any type. */
#pragma once
#include <glib.h>
#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *arena);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Arena, arena_free)

/* Zeroed memory that lives as long as the arena. size 0 gives a unique non-NULL pointer. */
void *arena_alloc(Arena *arena, size_t size);
char *arena_strdup(Arena *arena, const char *text); /* NULL gives NULL */
char *arena_strndup(Arena *arena, const char *text, size_t length);
char *arena_printf(Arena *arena, const char *format, ...) G_GNUC_PRINTF(2, 3);
void *arena_memdup(Arena *arena, const void *memory, size_t size);

/* Bytes handed out so far: what a benchmark prints. */
size_t arena_used(const Arena *arena);

#define arena_new_array(arena, type, n) ((type *)arena_alloc((arena), sizeof(type) * (size_t)(n)))
#define arena_new_object(arena, type)   ((type *)arena_alloc((arena), sizeof(type)))
