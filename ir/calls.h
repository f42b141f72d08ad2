/* Functions an expression may call: compile-time arithmetic, special values of a thread, and, at THREAD, numbers that only
 * a back end knows, since they are its instructions' encoding. */
#pragma once
#include "ir/ir.h"

typedef struct IrCallInfo {
  const char *name;
  unsigned arguments;
  bool constant; /* arithmetic on its arguments; else a special value of the running thread */
  bool encoded;  /* a constant that the back end gives */
  const char *doc;
  bool (*fold)(int64_t a, int64_t b, int64_t *result); /* arithmetic on two numbers; NULL: it is no such */
  bool tried; /* stands in `try` lines of templates only: no kernel computes it */
} IrCallInfo;

const IrCallInfo *ir_call_info(const char *name); /* NULL if unknown */
const char *const *ir_call_names(void);           /* NULL-terminated, for did-you-mean */
