/* What ONNX's own operators are (generator/front/onnx.def), whether we have them or not: it tells valid descriptions that
 * are not supported from wrong ones. All functions are pure. */
#pragma once
#include "base/number.h"
#include <stdbool.h>
#include <stdint.h>

#define ONNX_ANY UINT32_MAX /* inputs or outputs */

/* One version of an operator. */
typedef struct OnnxOperator {
  const char *domain, *name;
  unsigned since; /* opset */
  unsigned min_inputs, max_inputs, min_outputs, max_outputs;
  const char *inputs, *attributes; /* as in onnx.def; NULL: no operator any more */
} OnnxOperator;

typedef struct OnnxInput {
  uint32_t types; /* bit: ONNX's number of a type of tensors */
  char variable;  /* equal letters: one type; 0: any of the set */
  bool optional;
  bool variadic; /* and all behind it */
} OnnxInput;

/* f32 is ONNX's 1, and so on; 0: ONNX has no such type. tf32 counts as f32. */
unsigned onnx_type_number(NumberType type);
/* The other way; false for those that descriptions cannot name. */
bool onnx_type_ours(int64_t number, NumberType *type);
/* Name of a type ("uint16"), NULL if there is none of that number. */
const char *onnx_type_name(int64_t number);
/* Number of a type by ONNX's name in any case, or as we would call it ("u16"); 0 if there is none. */
unsigned onnx_type_parse(const char *name);

/* The version for an opset (of other domains than ONNX's: the newest), NULL if there is none. */
const OnnxOperator *onnx_find(const char *domain, const char *name, unsigned opset);
/* The oldest version that is newer than an opset, NULL if there is none. */
const OnnxOperator *onnx_newer(const char *domain, const char *name, unsigned opset);
/* ONNX names the operators of this domain; of others nobody knows them. */
bool onnx_has_domain(const char *domain);
/* Kind of an attribute (onnx.def), 0 if this version does not have it. */
char onnx_attribute(const OnnxOperator *op, const char *name, bool *required);
/* Opset of the first version, of this row's operator, that has the attribute; 0: none has. */
unsigned onnx_attribute_since(const OnnxOperator *op, const char *name);
/* The i-th required attribute's name, of `length` characters; NULL behind the last. */
const char *onnx_required(const OnnxOperator *op, unsigned i, size_t *length);
/* "axis, keepdims"; g_free. */
char *onnx_attribute_list(const OnnxOperator *op);
/* Input i; those of a variadic operator are all as its last. */
OnnxInput onnx_input(const OnnxOperator *op, unsigned i);

/* The newest opset that this program knows. */
unsigned onnx_opset(void);
