/* What the files of choose_mechanisms share. */
#include "ir/facts.h"
#include "ir/passes/choose_mechanisms.h"

const IrType *choice_tensor_of(const IrExpr *access)
{
  const IrExpr *base = ir_access_base(access);
  return base->kind == EXPR_VALUE && base->value->type.kind == TYPE_TENSOR ? &base->value->type : NULL;
}

const char *choice_refusal(const Choice *choice, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  return arena_strdup(choice->module->arena, text);
}

uint64_t choice_ring_bytes(const Choice *choice)
{
  uint64_t bytes = 0;
  for (unsigned i = 0; i < choice->channels->len; i++) {
    const IrOp *channel = choice->channels->pdata[i];
    bytes += (uint64_t)ir_slot_bytes(channel) * (uint64_t)ir_attribute_int(channel, ATTR_SLOTS, 1);
  }
  return bytes;
}
