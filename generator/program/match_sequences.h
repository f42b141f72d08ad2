/* Between the matcher of attention and this part of it: batches that are sequences, whose rows lie behind one another. */
#pragma once
#include "generator/program/attention.h"
#include "generator/program/bind.h"
#include "generator/program/match_scores.h"

typedef struct BoundSequences {
  int batch;         /* the axis; PROGRAM_NONE: all rows and keys are of one length */
  int begin, rows;   /* nodes: where a sequence's rows begin, how many there are */
  int first, keys;   /* the same of keys; first: PROGRAM_NONE if they begin at 0 */
  int ends, lengths; /* nodes that read what AttentionSequences names */
  int key_begins;    /* the one that reads where keys begin, beside their ends; or PROGRAM_NONE */
  bool own;          /* keys and values lie as rows do */
} BoundSequences;

/* false: lengths are loaded in another way; binding->why. */
bool bind_sequences(Binding *binding, int row, int key, BoundSequences *sequences);
/* Is the value how many more keys a sequence has than rows? */
bool bind_is_ending(const Binding *binding, const BoundSequences *sequences, ProgramValue value);
/* The node that reads a tree's words, if the value is scores where a key is in front of those that its rows brought along or has a bit, else
 * -infinity; or PROGRAM_NONE. */
int bind_tree(const Binding *binding, const BoundSequences *sequences, const ScoreAxes *axes,
              ProgramValue value, ProgramValue *scores);
/* Does the access lie along sequences as it is to: rows of queries and results; or keys and values, not those in pages? */
bool bind_along_rows(const Binding *binding, const BoundSequences *sequences, const ProgramAccess *access,
                     int row);
bool bind_along_keys(const Binding *binding, const BoundSequences *sequences, const ProgramAccess *access,
                     int key);
