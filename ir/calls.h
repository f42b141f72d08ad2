/* Functions an expression may call: compile-time arithmetic, and special values of a thread. */
#pragma once
#include "ir/ir.h"

typedef struct IrCallInfo {
  const char *name;
  unsigned arguments;
  bool constant; /* arithmetic on its arguments; else a special value of the running thread */
  const char *doc;
} IrCallInfo;

const IrCallInfo *ir_call_info(const char *name); /* NULL if unknown */
const char *const *ir_call_names(void);           /* NULL-terminated, for did-you-mean */
