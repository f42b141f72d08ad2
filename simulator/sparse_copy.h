/* A copy of memory that takes room only for what is not zero, so that a large buffer that nobody has touched
 * costs nothing. Immutable once made. */
#pragma once
#include <glib.h>
#include <stdint.h>

typedef struct SparseCopy SparseCopy;

SparseCopy *sparse_copy_new(const void *data, uint64_t bytes); /* data may be NULL if bytes is 0 */
/* Makes data, of as many bytes, what it was; pages that are zero already are not written to. */
void sparse_copy_restore(const SparseCopy *copy, void *data);
void sparse_copy_free(SparseCopy *copy);
