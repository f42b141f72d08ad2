/* The committed kernels on the simulator: every distinct file of the catalogue at the sizes that
 * catalog_cases() chooses, with all checkers, against the reference in double precision.
 *
 * What runs is the committed text. One that the compiler would emit differently today is not run but a
 * failure of its own, since plan and kernel belong together; `edited` runs it nevertheless. */
#pragma once
#include "catalog/catalog.h"
#include "cli/cli.h"
#include "simulator/simulator.h"

/* Asynchronous operations at their first and at their last moment. */
#define CATALOG_SCHEDULES 2

typedef struct CatalogSimulation {
  const Catalog *catalog;
  const char *folder;      /* generated/ */
  const bool *selected;    /* one a GPU */
  const char *const *only; /* names of kernels, NULL-terminated; none: all of them */
  const char *const *dims; /* NAME=VALUE, NULL-terminated; none: sizes are chosen */
  bool has_skew;           /* with dims: bytes every tensor is moved off an aligned address */
  unsigned skew;
  unsigned cases;     /* at most so many of a kernel: see catalog_sample(); 0: all of them */
  bool edited;        /* also run files that differ from what the compiler emits */
  bool list;          /* only print which cases there are */
  unsigned jobs;      /* 0: one a processor */
  SimOptions options; /* jobs, strict are set by the simulation */
} CatalogSimulation;

/* Prints failures as they come, at the end `N passed, N failed`; with --json one object. Sets the exit code
 * 5 if something failed. ERROR_INPUT for a catalogue that cannot be read or a kernel it does not have. */
bool catalog_simulate(const CatalogSimulation *simulation, const Cli *cli, GError **error);
