/* Diagnostics: errors with a place in a source text, a hint and a stable code.
 *
 * A callee reports through GError in the domain ADLGEN_ERROR. The error's code is the program's exit code;
 * its private data hold a list of diagnostics (one GError may carry several: "every missing key"). Who
 * reports adds a place and a hint; who handles prints with error_print() or serialises with error_to_json().
 * All functions are thread-safe as long as one error object is used by one thread. */
#pragma once
#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Where a text came from. Reference-counted (atomically): marks in IR, documents and errors keep it alive. */
typedef struct Source Source;
struct Source {
  gatomicrefcount references;
  char *name; /* file name as the user wrote it, "<stdin>", "<embedded>/gemm.ir", ... */
  char *text; /* whole text, NUL-terminated (NULs inside the file are refused by the readers of texts) */
  size_t length;
  GMappedFile *mapped; /* that the text is, without a NUL behind it: a binary file; NULL: memory of its own */
  char *(*describe)(const Source *source,
                    size_t offset); /* of a binary file: what the byte is of; NULL, or g_free */
};

Source *source_new(const char *name, const char *text, size_t length); /* copies both */
Source *source_load(const char *path, GError **error);                 /* "-" is stdin */
Source *source_ref(Source *source);
void source_unref(Source *source); /* NULL is allowed */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Source, source_unref)

/* A place in a source; line and column count from 1, 0 = unknown. In a binary file there are no lines: a column without a
 * line is a byte's offset + 1. Plain value; does not own the source. */
typedef struct Mark {
  Source *source;
  unsigned line, column;
} Mark;

#define ADLGEN_ERROR (adlgen_error_quark())
GQuark adlgen_error_quark(void);

/* Codes are the exit codes of the contract (docs/cli.md). */
typedef enum {
  ERROR_INPUT = 1,        /* what the user named or wrote is wrong or unreadable */
  ERROR_USAGE = 2,        /* the command line itself */
  ERROR_UNSUPPORTED = 3,  /* valid, but not supported */
  ERROR_MISSING_TOOL = 4, /* a tool, driver or GPU is missing */
  ERROR_VERIFY = 5,       /* verification failed */
  ERROR_INTERNAL = 70,
} ErrorCode;

typedef enum { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE } Severity;

typedef struct Diagnostic {
  Severity severity;
  const char *code;     /* stable identifier such as "unknown-key"; static string */
  char *message, *hint; /* hint may be NULL */
  Source *source;       /* may be NULL: no place */
  unsigned line, column;
} Diagnostic;

/* Sets *error (which must be empty or NULL) with one diagnostic. code_id: see Diagnostic.code. mark may be
 * NULL. */
void error_set(GError **error, ErrorCode code, const Mark *mark, const char *code_id, const char *hint,
               const char *format, ...) G_GNUC_PRINTF(6, 7);
/* Adds one more diagnostic to *error, creating it if empty: for callees that report every fault at once. */
void error_add(GError **error, ErrorCode code, Severity severity, const Mark *mark, const char *code_id,
               const char *hint, const char *format, ...) G_GNUC_PRINTF(7, 8);
/* Gives the diagnostics that have no place this one: for readers of files that hand a value on to what knows no file. */
void error_place(GError *error, const Mark *mark);
/* Adds to what the diagnostics of severity error hint at; NULL error: nothing. For callers that know what an error follows from. */
void error_hint(GError *error, const char *hint);
/* Diagnostics of an error, oldest first; an error of a foreign domain gives none. Owned by the error. */
const GPtrArray *error_diagnostics(const GError *error);
/* "file:line:col: error: message", source line, caret, "hint: ..." for each; colour if asked for. */
void error_print(const GError *error, FILE *stream, bool colour);
char *error_to_text(const GError *error, bool colour); /* same as a string; caller frees with g_free */
/* {"version": 1, "errors": [{severity, file, line, column, message, hint, code}]}; caller owns. */
json_t *error_to_json(const GError *error);
/* Exit code of any GError: its code in our domain, ERROR_INPUT for file errors, else ERROR_INTERNAL. */
int error_exit_code(const GError *error);

/* Nearest of the NULL-terminated candidates by edit distance, or NULL when none is near: for "did you mean".
 */
const char *nearest_name(const char *name, const char *const *candidates);
