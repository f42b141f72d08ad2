/* What a tensor's elements are by where they lie in its last two dimensions, rows and columns, where that is simple. */
#pragma once
#include "generator/fusion/attention.h"

typedef enum { PLACES_UNKNOWN, PLACES_CONSTANT, PLACES_INDEX, PLACES_BAND } PlacesKind;

typedef struct Places {
  PlacesKind kind;
  /* CONSTANT: of all elements. BAND: of those with lower <= column - row <= upper, and of the others. */
  double inside, outside;
  const Symbolic *lower, *upper; /* NULL: no bound */
  /* INDEX: by_row * row + by_column * column + number. */
  int by_row, by_column;
  const Symbolic *number;
} Places;

/* Of the elements of the tensor, which may be NULL, where they stand when it is broadcast to the shape of `like`. */
Places fusion_places_of(const AttentionPattern *at, const GraphTensor *tensor, const GraphTensor *like);
/* The same band with what was outside inside. false: it has two ends. */
bool fusion_turn_places(Arena *arena, Places *places);
