/* A program as several, which run one behind the other and hand each other tensors that nobody else sees: their workspace.
 * A tensor of it lives from the kernel that writes it to the last that reads it. The plan gives each tensor of the workspace
 * memory of its own, these too: nobody has it before or after. */
#pragma once
#include "generator/program/program.h"

#define DIVISION_PROGRAMS 3
#define DIVISION_TENSORS  2

typedef struct ProgramDivision {
  Program *programs[DIVISION_PROGRAMS];    /* all that the whole one gives is of one of them */
  const char *suffixes[DIVISION_PROGRAMS]; /* of the operator's name */
  GraphTensor *workspace[DIVISION_TENSORS];
  unsigned n_programs, n_workspace; /* no programs: this way is none for the program */
  const char *how;                  /* for people: "in parts of 4096" */
} ProgramDivision;

/* A node of `from` as it stands in another program, where nodes have these places, in that program's arena. */
ProgramNode program_moved(const Program *from, const ProgramNode *node, const unsigned *place, Arena *arena);

/* An axis of so many parts for a program divided from `program`, named as nothing else in it is. Its strings are the program's arena's. */
ProgramAxis program_part_axis(const Program *program, const Symbolic *parts);
