/* Between the files infer*.c only. Functions that can fail report to at->error and give false. */
#pragma once
#include "generator/front/private.h"

typedef struct {
  Graph *graph;
  GraphNode *node;
  GError **error;
  GraphBuilder *builder;
} Inference;

typedef struct {
  unsigned rank;
  const Symbolic *dims[GRAPH_MAX_RANK];
} Shape;

bool infer_refuse(Inference *at, ErrorCode code, const Mark *mark, const char *id, const char *hint,
                  const char *format, ...) G_GNUC_PRINTF(6, 7);
/* Type and shape of what the node gives; puts it, or what it is defined by, behind the nodes that were inferred. */
bool infer_node(Inference *at);
/* known.c: what is known of the node's result. */
void infer_known(Inference *at);
/* What inputs will hold, as far as it was offered. */
void infer_take_offers(GraphBuilder *builder);
/* Outputs of the graph that are known become copies of constants. */
void infer_known_outputs(GraphBuilder *builder);
/* Inputs that are known become constants; those that depend on symbols where the node asks for no more (all but the first). */
void infer_read_known(Inference *at, bool symbolic);
/* The node's meaning depends on what that input holds. */
bool infer_must_know(const GraphNode *node, unsigned input);
Shape infer_shape_of(const GraphTensor *tensor);
/* Two extents are equal, or an ONNX model takes them to be: assume.h. */
bool infer_same(Inference *at, const Symbolic *a, const Symbolic *b);
/* Is the smaller or the larger of two taken for 1 (assume_one())? */
bool infer_one(Inference *at, const Symbolic *a);
/* Takes them to be, whatever the format. */
bool infer_assume(Inference *at, const Symbolic *a, const Symbolic *b);
/* The larger and the smaller of two, as far as the facts do not tell which that is. */
const Symbolic *infer_larger(const Graph *graph, const Symbolic *a, const Symbolic *b);
const Symbolic *infer_smaller(const Graph *graph, const Symbolic *a, const Symbolic *b);
/* -rank .. rank - 1 to 0 .. rank - 1. */
bool infer_axis(Inference *at, int64_t axis, unsigned rank, const Mark *mark, unsigned *result);
/* Input i, if it is there, has a type of the set. */
bool infer_check_type(Inference *at, unsigned i, TypeMask mask);
/* f32 and tf32 share their storage; together they are f32. */
bool infer_unify(NumberType a, NumberType b, NumberType *type);

/* A list of integers that an operator takes as an attribute or, in newer versions, as an input that is known. */
typedef struct {
  const char *name; /* of the attribute */
  unsigned input;   /* which one it is where there is no such attribute */
  const char *what; /* in words */
  bool symbolic;    /* may depend on symbols: the operator then asks for `values` */
} ListArgument;
typedef struct {
  bool given;
  const int64_t *items;          /* 0 in the place of those that depend on symbols */
  const Symbolic *const *values; /* of those that may depend on symbols */
  unsigned n;                    /* 0 if it is absent */
  Mark mark;
} List;
bool infer_list(Inference *at, const ListArgument *argument, List *list);

/* infer_views.c: operators of class VIEW, each the shape of its first output. */
bool infer_split(Inference *at, Shape *shape);
bool infer_transpose(Inference *at, Shape *shape);
bool infer_slice(Inference *at, Shape *shape);
bool infer_concat(Inference *at, Shape *shape);
/* infer_index.c: likewise, of class INDEX. */
bool infer_gather(Inference *at, Shape *shape);
bool infer_gather_elements(Inference *at, Shape *shape);
bool infer_pad(Inference *at, Shape *shape);
bool infer_tile(Inference *at, Shape *shape);
bool infer_trilu(Inference *at, Shape *shape);
bool infer_mask(Inference *at, Shape *shape);
bool infer_scan(Inference *at, Shape *shape);
bool infer_resample(Inference *at, Shape *shape);
/* Of Resample: some input has weights. */
bool infer_is_weighted(const GraphNode *node);
bool infer_top(Inference *at, Shape *shape);
bool infer_shape_list(Inference *at, Shape *shape);
/* Indices for elements of input 0 along attribute `axis`, which becomes node->axes: no more of them than it has
 * elements, along the other dimensions. */
bool infer_indices_fit(Inference *at);
/* infer_scatter.c: likewise; indices: the input that holds them. */
bool infer_scatter_type(Inference *at, unsigned indices, NumberType *type);
bool infer_segments_type(Inference *at, NumberType *type);
bool infer_scatter_elements(Inference *at, Shape *shape);
bool infer_scatter_nd(Inference *at, Shape *shape);
bool infer_segments(Inference *at, Shape *shape);
bool infer_gather_nd(Inference *at, Shape *shape);
bool infer_tensor_scatter(Inference *at, Shape *shape);
bool infer_reverse_sequence(Inference *at, Shape *shape);
/* infer_groups.c: likewise, of class GEMM. */
bool infer_grouped(Inference *at, Shape *shape);
/* infer_gradient.c: AttentionGradPart. further: the type and shape of its second and third output. */
bool infer_gradient_type(Inference *at, NumberType *type);
bool infer_gradient(Inference *at, Shape *shape);
void infer_gradient_further(Inference *at, unsigned output, NumberType *type, Shape *shape);
/* infer_sequences.c: VarlenAttention. */
bool infer_sequences_type(Inference *at, NumberType *type);
bool infer_sequences(Inference *at, Shape *shape);
/* infer_places.c: TallyKeys and PlaceKeys, and the shapes of its further results. */
bool infer_tallies(Inference *at, Shape *shape);
bool infer_places(Inference *at, Shape *shape);
bool infer_taken(Inference *at, Shape *shape);
void infer_places_further(Inference *at, unsigned output, Shape *shape);
/* Rows for so many elements of keys, whose rows begin at multiples. */
const Symbolic *infer_rows_of_keys(const Graph *graph, const Symbolic *elements, int64_t keys, int64_t align);

/* infer_append.c: AppendRows. */
bool infer_append_type(Inference *at, NumberType *type);
bool infer_append(Inference *at, Shape *shape);
/* Outputs that lie in the memory of an input, which AppendRows alone writes so, and has to; they get the strides of their
 * input. false: reported. */
bool infer_settle_memory(GraphBuilder *builder);
/* infer_window.c: likewise. */
bool infer_window(Inference *at, Shape *shape);
/* infer_loop.c: likewise, of class LOOP. */
bool infer_loop(Inference *at, Shape *shape);
/* infer_reshape.c: likewise. */
bool infer_reshape(Inference *at, Shape *shape);
bool infer_flatten(Inference *at, Shape *shape);
bool infer_squeeze(Inference *at, Shape *shape);
bool infer_unsqueeze(Inference *at, Shape *shape);
bool infer_expand(Inference *at, Shape *shape);
