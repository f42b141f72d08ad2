/* How whole rows fit a block, or the blocks of a cluster. */
#pragma once
#include "generator/choose/choose.h"

/* How rows stay: the IR's `hold`. */
typedef enum { ROW_REGISTERS, ROW_SHARED, ROW_CLUSTER, ROW_PASSES, ROW_FORMS } RowForm;

/* Variants of a row program, by the template `row`. false: rows cannot stay as --set wants. */
bool choose_row_program(Chooser *chooser);
/* The form that --set wants; ROW_FORMS: none. */
RowForm row_program_forced(const Problem *problem);
/* Do rows of every length that there can be stay in registers? */
bool row_program_stays(const Problem *problem);
/* Does a cluster keep rows, all of one length? */
bool row_program_shared(const Problem *problem);
/* NULL, or why a program that no other template takes is none for these either. */
const char *row_program_refuse(const Problem *problem);
