/* The operator table: reader, inference, fusion, `adlgen ops` and docs/operators.md derive from it.
 *
 * A row is one version of an operator, as in ONNX: an operator whose inputs or attributes changed has several
 * rows with the same id, and a graph's opset picks the newest that is not newer. */
#pragma once
#include "base/diagnostic.h"
#include "base/number.h"
#include <stdbool.h>
#include <stdint.h>

/* ONNX_Add, ONNX_MatMul, ...: one per name, from generator/front/operators.def; ADLGEN_..., MICROSOFT_... of other domains. */
typedef enum {
#define OPERATOR(name, ...) ONNX_##name,
#define VERSION(name, ...)
#define NAMED(id, name, ...) id,
#include "generator/front/operators.def"
#undef OPERATOR
#undef VERSION
#undef NAMED
  ONNX_OPERATOR_COUNT
} OperatorId;

/* What fusion does with it. */
typedef enum {
  OPERATOR_ELEMENTWISE, /* every output element is a function of the input elements at its (broadcast) place
                         */
  OPERATOR_GEMM,        /* anchors a matrix product */
  OPERATOR_ROW,         /* anchors a reduction or normalisation over trailing axes */
  OPERATOR_VIEW,        /* elements of its input at other indices: what reads them may read the input */
  OPERATOR_INDEX,       /* every output element is a function of elements that a kernel reads from memory, at
                           indices that are loaded or computed, and of where it lies */
  OPERATOR_SEQUENCES, /* a kernel of its own: of sequences whose rows lie behind one another, of rows that go into caches, of attention's gradients, of keys in order */
  OPERATOR_LOOP, /* where what is outside of a loop meets its body: no kernel's, graph_cut() takes it apart there */
  OPERATOR_FUNCTION, /* defined by others: expanded while the graph is read (expand.h), which then has none */
} OperatorClass;

typedef enum {
  ATTRIBUTE_INT,
  ATTRIBUTE_FLOAT,
  ATTRIBUTE_INTS,
  ATTRIBUTE_STRING,
  ATTRIBUTE_TYPE,
  ATTRIBUTE_FLOATS,
  ATTRIBUTE_STRINGS, /* both have no default */
  ATTRIBUTE_GRAPH,   /* of functions alone */
} AttributeKind;

typedef struct OperatorAttribute {
  const char *name;
  AttributeKind kind;
  bool required;
  int64_t integer;            /* default */
  double number;              /* default */
  const char *text;           /* default of a STRING */
  const char *const *choices; /* STRING: legal values, NULL-terminated; NULL: any */
} OperatorAttribute;

#define OPERATOR_NO_TYPE        (-1) /* of a TYPE that was not given */
#define OPERATOR_MAX_ATTRIBUTES 12
#define OPERATOR_MAX_INPUTS     16 /* of the rows that are not variadic */
#define OPERATOR_MAX_OUTPUTS    5  /* as above */

#define OPERATOR_DOMAIN "adlgen" /* of those that ONNX does not have */

typedef unsigned TypeMask; /* bit NumberType */
#define TYPE_BIT(type) (1u << NUMBER_##type)

/* Elements that share bytes: they are cast, or dequantised, as they are read. */
#define OPERATOR_PACKED   (TYPE_BIT(S4) | TYPE_BIT(U4) | TYPE_BIT(E2M1))
#define OPERATOR_INTEGERS (TYPE_BIT(S8) | TYPE_BIT(U8) | TYPE_BIT(S32) | TYPE_BIT(S64))

/* How the output types follow from the inputs'. */
typedef enum {
  TYPE_RULE_SAME,       /* one type for all inputs (f32 with tf32 gives f32), the output has it too */
  TYPE_RULE_FIRST,      /* input 0 of the types, each other also of OPERATOR_INTEGERS; output as input 0 */
  TYPE_RULE_COMPARE,    /* inputs as above, output bool */
  TYPE_RULE_SELECT,     /* input 0 bool, the others one type, which is the output's */
  TYPE_RULE_CAST,       /* attribute `to` */
  TYPE_RULE_BIT_CAST,   /* the same, of the types, and of as many bits as the input */
  TYPE_RULE_PRODUCT,    /* as SAME, but s8 or u8 operands give s32, e4m3 and e5m2 f32 */
  TYPE_RULE_GROUPED,    /* inputs 0 and 1 as of PRODUCT, input 2 is s32 */
  TYPE_RULE_SEQUENCES,  /* inputs 0 to 2 one type, the others s32; output 0 likewise, further ones f32 */
  TYPE_RULE_GRADIENT,   /* inputs 0 to 3 one type, 4 and 5 f32; outputs as input 0 */
  TYPE_RULE_NORM,       /* output 0 as input 0; further outputs f32 (stash type) */
  TYPE_RULE_REDUCE,     /* outputs as input 0; further inputs are s64: axes, sizes, shapes */
  TYPE_RULE_ARG,        /* s64: indices */
  TYPE_RULE_PLACE,      /* s32: indices */
  TYPE_RULE_SLICE,      /* outputs as input 0; further inputs are s32 or s64: indices */
  TYPE_RULE_PAD,        /* outputs as input 0; inputs 1 and 3 are s64: pads, axes */
  TYPE_RULE_QUANTIZE,   /* attribute `output_dtype`, or the zero point's, or u8 */
  TYPE_RULE_DEQUANTIZE, /* attribute `output_dtype`, or the scale's */
  TYPE_RULE_SCATTER, /* inputs 0 and 2 and the output have one type; input 1 is s64 or, of single elements, s32: indices */
  TYPE_RULE_SEGMENTS, /* inputs 0 and 2 and the output have one type; inputs 1 and 3 are s32 */
  TYPE_RULE_INSERT,   /* inputs 0 and 1 and the output have one type; input 2 is s64: indices */
  TYPE_RULE_APPEND,   /* input 0 s32 or s64: places; the others one type, which is the outputs' */
  TYPE_RULE_RESAMPLE, /* places are s32, weights f32; output f32, or as input 0 where there are no weights */
  TYPE_RULE_LIST,     /* s64 */
  TYPE_RULE_FUNCTION, /* inputs as ONNX's definition has them, input 0 of the types; outputs as the body gives */
} TypeRule;

typedef enum {
  SHAPE_RULE_BROADCAST,      /* multidirectional broadcasting of all inputs */
  SHAPE_RULE_UNIDIRECTIONAL, /* further inputs broadcast to input 0 */
  SHAPE_RULE_CLIP,           /* as input 0; further inputs are scalars */
  SHAPE_RULE_MATMUL,
  SHAPE_RULE_GEMM,
  SHAPE_RULE_GROUPED,   /* input 0's rows times the matrix of their group in input 1 */
  SHAPE_RULE_SEQUENCES, /* input 0's, with the last of input 2; further outputs without the last */
  SHAPE_RULE_GRADIENT,  /* as the input that attribute `of` names; a second output as input 3 */
  SHAPE_RULE_SAME,      /* as input 0; attribute axis is checked */
  SHAPE_RULE_PLACE,     /* as input 0, with attribute axis */
  SHAPE_RULE_NORM,      /* as input 0; scale and bias broadcast to it; further outputs reduced */
  SHAPE_RULE_REDUCE,
  SHAPE_RULE_ARG,       /* input 0's without `axis`, or with 1 there */
  SHAPE_RULE_QUANTIZE,  /* as input 0; a scale and zero point for all, for each index of `axis`, or broadcast
                         */
  SHAPE_RULE_SPLIT,     /* each output a part of input 0 along `axis` */
  SHAPE_RULE_TRANSPOSE, /* input 0's dimensions in another order */
  SHAPE_RULE_SLICE,     /* every so many elements of input 0 along some dimensions */
  SHAPE_RULE_CONCAT,    /* all inputs behind one another along `axis` */
  SHAPE_RULE_RESHAPE,   /* the shape in input 1, which holds as many elements */
  SHAPE_RULE_FLATTEN,   /* two dimensions: those before `axis` and the others */
  SHAPE_RULE_SQUEEZE,   /* input 0's without the `axes`, which are 1 */
  SHAPE_RULE_UNSQUEEZE, /* input 0's with 1 at the `axes` of the result */
  SHAPE_RULE_EXPAND,    /* input 0's broadcast with the shape in input 1 */
  SHAPE_RULE_GATHER,    /* input 0's with input 1's in place of the dimension `axis` */
  SHAPE_RULE_GATHER_ELEMENTS, /* input 1's */
  SHAPE_RULE_PAD,             /* input 0's with `pads` in front and behind */
  SHAPE_RULE_TILE,            /* input 0's times `repeats` */
  SHAPE_RULE_SCAN,            /* as input 0; the constant input 1 is an axis */
  SHAPE_RULE_TOP,             /* input 0's, but attribute k along the last dimension */
  SHAPE_RULE_TALLIES,         /* [parts of input 0, experts] */
  SHAPE_RULE_PLACES,          /* as input 0; [experts] and [rows] */
  SHAPE_RULE_TAKEN,           /* as input 0; [count] */
  SHAPE_RULE_TRILU,           /* input 0's: matrices */
  SHAPE_RULE_MASK, /* input 0's: matrices; the others are one number or one for each of its first dimension */
  SHAPE_RULE_SCATTER_ELEMENTS, /* input 0's; an index and an update for some elements */
  SHAPE_RULE_SCATTER_ND,       /* input 0's; the last dimension of the indices tells its first ones */
  SHAPE_RULE_SEGMENTS, /* input 0's; input 3 has a number for each of its parts, input 1 for each of input 2's */
  SHAPE_RULE_GATHER_ND, /* likewise: the indices' without the last, and the others of input 0 */
  SHAPE_RULE_APPEND,    /* input 1's; the rows of inputs 2 and 4 fit it */
  SHAPE_RULE_INSERT,    /* input 0's; input 1 has fewer along `axis` */
  SHAPE_RULE_REVERSE,   /* input 0's; input 1 has a number for each index of `batch_axis` */
  SHAPE_RULE_WINDOW, /* input 0's with the number of windows in place of the dimensions behind the second; as input 0's
                          further outputs */
  SHAPE_RULE_RESAMPLE, /* input 0's, but of each of `axes` as many as there are lists of places */
  SHAPE_RULE_SHAPE,    /* a list of input 0's extents */
  SHAPE_RULE_SIZE,     /* one number */
  SHAPE_RULE_LOOP, /* as input 0; of an element without its first dimension; stacked with the loop's count in front */
  SHAPE_RULE_FUNCTION, /* as the body gives */
} ShapeRule;

typedef struct Operator {
  OperatorId id;
  const char *name, *domain; /* "" is ONNX's own */
  unsigned since;            /* first opset of this version */
  OperatorClass class_;
  unsigned min_inputs, max_inputs; /* max_inputs UINT_MAX: variadic */
  unsigned min_outputs, max_outputs;
  TypeMask types;     /* of the main operands, as ONNX (or we) define it */
  TypeMask generated; /* those we generate kernels for; the others of `types` are "not supported" */
  TypeRule type_rule;
  ShapeRule shape_rule;
  const OperatorAttribute *attributes;
  unsigned n_attributes;
  const char *formula; /* what it computes, for docs/operators.md */
} Operator;

/* All rows: by name, then by since. */
const Operator *operator_table(unsigned *n);
/* The row for an opset. NULL: none; then, if the operator is known in a newer version only, *newer is that
 * row. */
const Operator *operator_find(const char *domain, const char *name, unsigned opset, const Operator **newer);
/* Newest row of an id. */
const Operator *operator_of(OperatorId id);
/* Does it give the same elements in the same order, in another shape? */
static inline bool operator_keeps_order(const Operator *op)
{
  return op->shape_rule == SHAPE_RULE_RESHAPE || op->shape_rule == SHAPE_RULE_FLATTEN ||
         op->shape_rule == SHAPE_RULE_SQUEEZE || op->shape_rule == SHAPE_RULE_UNSQUEEZE;
}
/* Our operators' names and all of ONNX's, NULL-terminated. */
const char *const *operator_names(void);
const char *const *operator_onnx_names(void);
/* true for every operator name of ONNX (domain ""), whether we have it or not. */
bool operator_in_onnx(const char *name);
/* Index into row->attributes, or -1. */
int operator_attribute_index(const Operator *row, const char *name);

/* ---- aliases.c: did-you-mean ---- */

typedef struct OperatorAlias {
  const char *name;  /* in small letters and digits alone */
  const char *meant; /* an operator of ONNX, or NULL */
  const char *note;  /* how it is written; may be NULL if there is `meant` */
} OperatorAlias;

const OperatorAlias *operator_aliases(unsigned *n);
/* A hint for a name that is no operator's: one that differs in case only, what the field calls so, what is
 * spelt nearly so. NULL: nothing is near; g_free. */
char *operator_suggest(const char *name);
/* How an operator of ONNX that is not supported may be written with others, or NULL. */
const char *operator_note(const char *name);
/* The attribute of the row that another name stands for, or NULL. */
const char *operator_suggest_attribute(const Operator *row, const char *name);

#define OPERATOR_OPSET_DEFAULT 27
#define OPERATOR_OPSET_MIN     1
#define OPERATOR_OPSET_FLOOR                                                                                 \
  7 /* of `since`: operators of older opsets that ONNX did not change up to here are the same */
/* Which types kernels exist for, as a hint says it; g_free. */
char *operator_kernels_text(const Operator *op);
