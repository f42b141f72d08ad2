/* Files that are of a known format, but none of those that are read as documents: to say what was given. */
#pragma once
#include "base/diagnostic.h"
#include <stdbool.h>

typedef struct ForeignFormat {
  const char *name; /* "an ONNX model" */
  const char *hint; /* may be NULL */
  ErrorCode code;   /* of the error where a graph is expected: ERROR_UNSUPPORTED, if it holds one */
} ForeignFormat;

/* The format of a file by what it begins with and, where that says too little, by its structure; NULL: none
 * that is known. `whole`: the bytes are all there are. Text followed by a NUL. */
const ForeignFormat *foreign_format(const char *bytes, size_t length, bool whole);
/* A protocol buffer that looks like an ONNX model, whole or cut off. */
bool foreign_is_onnx(const char *bytes, size_t length);
