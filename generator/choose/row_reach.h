/* How threads reach the elements of rows. */
#pragma once
#include "generator/choose/choose.h"

typedef enum {
  ROW_BY_ELEMENTS, /* one by one */
  ROW_BY_ENDS, /* whole vectors, of rows that begin and end within them: all tensors' at the same place (place_rows' lead) */
  ROW_BY_VECTORS, /* whole vectors of rows that begin and end with them */
  ROW_REACHES
} RowReach;

/* What has to hold of sizes and addresses; false: they cannot be had. *vector: elements of one access; 1, where they go one by one. */
bool row_reach_require(const Problem *problem, Choice *choice, RowReach reach, unsigned *vector);
/* Of a thread, beside those of whole vectors. */
unsigned row_reach_registers(const Problem *problem, RowReach reach);
/* Columns of a row's tile that begins with one of its vectors, of so many of the row. */
int64_t row_reach_columns(RowReach reach, int64_t columns, unsigned vector);
