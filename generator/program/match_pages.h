/* Between the matcher of attention and this part of it: what is read out of pages that a table names. */
#pragma once
#include "generator/program/bind.h"

/* What loads the number of the page that a read is in, of which negative ones count from the end:
 * Where(Less(number, 0), Add(number, pages), number); or PROGRAM_NONE. */
int bind_table_of(const Program *program, const ProgramAccess *access);
/* The axis of keys that lie in row `key % rows` of a page that is loaded at `key / rows`, if other dimensions are plain; or PROGRAM_NONE. */
int bind_paged_axis(const Binding *binding, unsigned read);
