/* Number formats: names, sizes and exact conversions to and from double.
 *
 * Conversions follow PTX/ONNX: round to nearest even; e4m3 is the "fn" form (no infinities, 0x7f/0xff NaN,
 * largest 448), e5m2 is IEEE-like; out-of-range e4m3 saturates to +-448 when saturate is asked for, else
 * becomes NaN. e2m1 (largest 6) and e8m0 (2^(x - 127), 0xff NaN) are those of the OCP's MX formats. Elements of 4 bits lie two
 * a byte, the first in its low half. All functions are pure and thread-safe. */
#pragma once
#include <glib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* X(ENUM, "name", bits, class) */
#define NUMBER_TYPES(X)                                                                                      \
  X(F64, "f64", 64, FLOAT)                                                                                   \
  X(F32, "f32", 32, FLOAT)                                                                                   \
  X(TF32, "tf32", 32, FLOAT) /* f32 storage, products in tf32 */                                             \
  X(F16, "f16", 16, FLOAT)                                                                                   \
  X(BF16, "bf16", 16, FLOAT)                                                                                 \
  X(E4M3, "e4m3", 8, FLOAT)                                                                                  \
  X(E5M2, "e5m2", 8, FLOAT)                                                                                  \
  X(S8, "s8", 8, SIGNED)                                                                                     \
  X(U8, "u8", 8, UNSIGNED)                                                                                   \
  X(S16, "s16", 16, SIGNED)                                                                                  \
  X(U16, "u16", 16, UNSIGNED)                                                                                \
  X(S32, "s32", 32, SIGNED)                                                                                  \
  X(U32, "u32", 32, UNSIGNED)                                                                                \
  X(S64, "s64", 64, SIGNED)                                                                                  \
  X(U64, "u64", 64, UNSIGNED)                                                                                \
  X(BOOL, "bool", 8, BOOLEAN) /* one byte in memory, a predicate in registers */                             \
  X(B16, "b16", 16, BITS)                                                                                    \
  X(B32, "b32", 32, BITS)                                                                                    \
  X(B64, "b64", 64, BITS)                                                                                    \
  X(S4, "s4", 4, SIGNED)                                                                                     \
  X(U4, "u4", 4, UNSIGNED)                                                                                   \
  X(E2M1, "e2m1", 4, FLOAT)                                                                                  \
  X(E8M0, "e8m0", 8, FLOAT) /* scales: powers of two */

typedef enum { NUMBER_FLOAT, NUMBER_SIGNED, NUMBER_UNSIGNED, NUMBER_BOOLEAN, NUMBER_BITS } NumberClass;
typedef enum {
#define X(id, name, bits, class_) NUMBER_##id,
  NUMBER_TYPES(X)
#undef X
      NUMBER_TYPE_COUNT
} NumberType;

const char *number_name(NumberType type);
unsigned number_bits(NumberType type);
/* Of one element that takes whole bytes: a packed one has none. What asks for an element's width asks number_has_bytes, what
 * asks for the bytes of several number_bytes_of; tests/structure/element_bytes.txt lists who may still ask for one's. */
unsigned number_bytes(NumberType type);
/* Does an element take just so many bytes? */
static inline bool number_has_bytes(NumberType type, unsigned bytes)
{
  return number_bits(type) == CHAR_BIT * bytes;
}
/* Bytes of so many elements one behind the other, the last byte whole; and elements that so many bytes hold. */
uint64_t number_bytes_of(NumberType type, uint64_t elements);
unsigned number_elements(NumberType type, unsigned bytes);
NumberClass number_class(NumberType type);
/* e4m3 and e5m2. */
bool number_is_small_float(NumberType type);
/* Do elements share bytes? */
static inline bool number_is_packed(NumberType type)
{
  return number_bits(type) < CHAR_BIT;
}
/* Accepts our names and ONNX's and safetensors' spellings ("float16", "FLOAT16", "BF16", "F8_E4M3", "int8",
 * ...). false if unknown. */
bool number_parse(const char *name, NumberType *type);

/* Is it the name of a type whose elements share bytes that there is nothing for? */
bool number_is_unserved(const char *name);

/* Writes a number in decimal and a zero behind it; returns how many digits. `text` holds at least
 * NUMBER_DECIMAL_MAX characters. Kernels have tens of thousands of numbered names: printf took half of the
 * time to make one. */
#define NUMBER_DECIMAL_MAX 21
size_t number_decimal(uint64_t number, char *text);

/* Of a type whose elements take whole bytes, or the first of two that share one. */
double number_to_double(NumberType type, const void *memory);
/* Writes number_bytes(type) bytes. Integers round to nearest even and saturate; NaN becomes 0. A packed type's bits are those of a
 * whole byte. */
void number_from_double(NumberType type, double value, bool saturate, void *memory);

/* The element at an index of a dense array, of any type: its bits, in the low ones; its value. */
uint64_t number_get_bits(NumberType type, const void *elements, uint64_t index);
void number_set_bits(NumberType type, uint64_t bits, void *elements, uint64_t index);
double number_read(NumberType type, const void *elements, uint64_t index);
void number_write(NumberType type, double value, bool saturate, void *elements, uint64_t index);
