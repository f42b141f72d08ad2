/* What the files of write_pipelines share. Changes the module; not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

#define NO_STAGE (-1)

/* The stage that a pipelined loop's operation names, or NO_STAGE: it belongs to all. */
int64_t pipeline_stage(const IrOp *op);
IrExpr *pipeline_step(const IrOp *loop);
/* The index of a loop's last iteration; the loop has one. */
IrExpr *pipeline_last(const IrOp *loop);
/* An error that says why a loop cannot be written; false. */
bool pipeline_refuse(const IrOp *op, const char *what, GError **error);

/* nested_stages.c: is the loop `behind`, or do operations of loops in it name its stages? */
bool pipeline_is_nested(const IrOp *loop);
/* Writes such a loop; false and an error if it has no such form. */
bool pipeline_write_nested(IrModule *module, IrOp *loop, GError **error);
