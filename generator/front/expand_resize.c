/* Resize and Upsample. Of each dimension that changes a table is made: for each index of the result the places in x that it is
 * taken from, one or as many as are weighed, and their weights (Resample). What only repeats each element is a view, of
 * dimensions whose extents are open too. */
#include "generator/front/expand_rows.h"
#include <math.h>
#include <string.h>

#define AXES_AT_ONCE ((EXPAND_AT_ONCE - 1) / 2)
/* Elements that one kernel weighs for a point; beyond, each dimension has a kernel of its own, which weighs fewer in all. */
#define WEIGHED_AT_ONCE 16
#define MOST_FACTOR     16 /* that sizes are looked for to be of an open extent */

typedef struct {
  unsigned axis;
  int64_t extent, size; /* of x and of the result */
  double scale;
  double from, to; /* part of x that is taken, of `tf_crop_and_resize` */
  int64_t repeats; /* each element so many times; 0: places are in a table */
  size_t n;        /* places of an element */
  const Symbolic
      *open; /* of x, only known at launch; NULL: `extent` is. Then the scale is `rises` / `runs`, */
  int64_t rises,
      runs; /* of whole numbers, and the table is of `rises` elements of the result, which `runs` of x give */
} Side;

typedef struct {
  Expansion *at;
  GraphTensor *x;
  const char *coordinates, *mode, *nearest, *policy;
  double cubic, fill;
  bool antialias, excludes;
  unsigned n;
  Side sides
      [GRAPH_MAX_RANK]; /* of all dimensions, or of the attribute's `axes`; then only those that change */
} Resize;

static bool is(const char *a, const char *b)
{
  return !strcmp(a, b);
}

/* ---- where an index of the result lies in x ---- */

static double cropped(const Side *side, double i)
{
  double width = side->scale * (double)side->extent, last = (double)(side->extent - 1);
  double inside =
      width == 1 ? (side->to - side->from) * last / 2 : i * (side->to - side->from) * last / (width - 1);
  return inside + side->from * last;
}

static double place_of(const Resize *resize, const Side *side, int64_t index)
{
  double i = (double)index, extent = (double)side->extent, width = side->scale * extent;
  const char *mode = resize->coordinates;
  if (is(mode, "asymmetric")) return i / side->scale;
  if (is(mode, "align_corners")) return width == 1 ? 0 : i * (extent - 1) / (width - 1);
  if (is(mode, "tf_crop_and_resize")) return cropped(side, i);
  if (is(mode, "pytorch_half_pixel") && width == 1) return -0.5;
  double offset = is(mode, "half_pixel_symmetric") ? extent / 2 * (1 - (double)side->size / width) : 0;
  return offset + (i + 0.5) / side->scale - 0.5;
}

/* ---- which elements are taken there ---- */

static double nearest_to(const char *mode, double place)
{
  double below = floor(place), rest = place - below;
  bool up = is(mode, "floor")               ? false
            : is(mode, "ceil")              ? rest > 0
            : is(mode, "round_prefer_ceil") ? rest >= 0.5
                                            : rest > 0.5;
  return up ? below + 1 : below;
}

/* What an element counts for at a distance from the place. */
static double weight_of(const Resize *resize, double distance)
{
  double x = fabs(distance), a = resize->cubic;
  if (is(resize->mode, "linear")) return MAX(0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* How much wider what is weighed becomes where the result has fewer elements. */
static double narrowing(const Resize *resize, const Side *side)
{
  return resize->antialias ? MIN(side->scale, 1) : 1;
}

/* Elements in front of the place and behind it. */
static int64_t reach(const Resize *resize, const Side *side)
{
  if (is(resize->mode, "nearest")) return 0;
  return -(int64_t)floor((is(resize->mode, "cubic") ? -2 : -1) / narrowing(resize, side));
}

static void divide(double *weights, size_t n)
{
  double sum = 0;
  for (size_t j = 0; j < n; j++)
    sum += weights[j];
  for (size_t j = 0; j < n && sum != 0; j++)
    weights[j] /= sum;
}

static void weigh(const Resize *resize, const Side *side, double place, int32_t *places, double *weights)
{
  double below = floor(place), narrow = narrowing(resize, side);
  int64_t first = (int64_t)below - reach(resize, side) + 1;
  for (size_t j = 0; j < side->n; j++)
    weights[j] = weight_of(resize, ((double)(first + (int64_t)j) - place) * narrow);
  if (resize->antialias) divide(weights, side->n);
  for (size_t j = 0; j < side->n; j++) {
    int64_t at = first + (int64_t)j;
    bool outside = at < 0 || at >= side->extent;
    if (outside && resize->excludes) weights[j] = 0;
    places[j] = (int32_t)CLAMP(at, 0, side->extent - 1);
  }
  if (resize->excludes) divide(weights, side->n);
}

/* Places of index i of the result, and weights where they are asked for. */
static void fill_row(const Resize *resize, const Side *side, int64_t i, int32_t *places, double *weights)
{
  double place = place_of(resize, side, i);
  bool crops = is(resize->coordinates, "tf_crop_and_resize");
  if (crops && (place < 0 || place > (double)(side->extent - 1))) {
    for (size_t j = 0; j < side->n; j++) {
      places[j] = -1; /* outside of x there is `extrapolation_value` */
      weights[j] = j == 0;
    }
  } else if (is(resize->mode, "nearest")) {
    double nearest = nearest_to(resize->nearest, place);
    places[0] = (int32_t)CLAMP(nearest, 0, (double)(side->extent - 1));
  } else {
    weigh(resize, side, place, places, weights);
  }
}

/* ---- extents that are open ---- */

#define MOST_RISES 1024 /* elements of a table that repeats */

/* Places that follow from the index and the scale alone come back: `rises` elements on they are `runs` elements of x on. */
static bool comes_back(const Resize *resize, Side *side)
{
  bool centres = is(resize->coordinates, "half_pixel"), scaled = side->scale > 0 && side->scale <= MOST_RISES;
  side->runs = 1;
  while (scaled && side->runs < MOST_RISES &&
         side->scale * (double)side->runs != floor(side->scale * (double)side->runs))
    side->runs *= 2;
  side->rises = scaled ? (int64_t)(side->scale * (double)side->runs) : 0;
  if (side->rises < 1 || side->rises > MOST_RISES || (double)side->rises != side->scale * (double)side->runs)
    return false;
  centres |= is(resize->coordinates, "pytorch_half_pixel") && side->scale >= 1;
  centres |= is(resize->coordinates, "half_pixel_symmetric") && side->runs == 1;
  return (centres || is(resize->coordinates, "asymmetric")) && !resize->excludes;
}

static GraphTensor *columns_of(Expansion *at, const char *part, GraphTensor *table, GraphTensor *indices)
{
  return expand_node(at, &(ExpandNode){ONNX_Gather, part, 2, {table, indices}, .attributes = {{"axis", 1}}});
}

/* Columns of a table that repeats, which an index of the result finds by what is left of it; places go on with x. */
static void make_open_tables(const Resize *resize, const Side *side, GraphTensor **places,
                             GraphTensor **weights)
{
  Expansion *at = resize->at;
  Arena *arena = expand_arena(at);
  size_t total = (size_t)side->rises * side->n;
  g_autofree int32_t *items = g_new(int32_t, total), *places_of = g_new(int32_t, side->n);
  g_autofree double *row = g_new(double, side->n);
  g_autofree float *parts = g_new(float, total);
  const int64_t inside = reach(resize, side) + 2; /* periods from the beginning of x */
  Side endless = *side;
  endless.extent = INT32_MAX;
  endless.size = (int64_t)(side->scale * INT32_MAX); /* whole where it is asked for */
  for (int64_t i = 0; i < side->rises; i++) {
    fill_row(resize, &endless, inside * side->rises + i, places_of, row);
    for (size_t j = 0; j < side->n; j++) {
      items[j * (size_t)side->rises + (size_t)i] = places_of[j] - (int32_t)(inside * side->runs);
      parts[j * (size_t)side->rises + (size_t)i] = (float)row[j];
    }
  }
  const Symbolic *one = symbolic_constant(arena, 1), *last = symbolic_sub(arena, side->open, one),
                 *size =
                     symbolic_binary(arena, SYMBOLIC_DIV,
                                     symbolic_mul(arena, side->open, symbolic_constant(arena, side->rises)),
                                     symbolic_constant(arena, side->runs));
  GraphTensor *rises = expand_number(at, "rises", NUMBER_S32, (double)side->rises),
              *runs = expand_number(at, "runs", NUMBER_S32, (double)side->runs),
              *index = expand_index(at, "index", &size, 1, 0),
              *period = expand(at, ONNX_Div, "period", index, rises),
              *left = expand(at, ONNX_Sub, "left", index, expand(at, ONNX_Mul, "begin", period, rises)),
              *table = expand_table(at, "table", NUMBER_S32, side->n, (size_t)side->rises, items),
              *base = expand_unsqueeze(at, "base", expand(at, ONNX_Mul, "passed", period, runs), 0);
  *places = expand(at, ONNX_Add, "places", columns_of(at, "found", table, left), base);
  *places = expand(at, ONNX_Max, "places", *places, expand_number(at, "least", NUMBER_S32, 0));
  *places = expand(at, ONNX_Min, "places", *places,
                   expand_cast(at, "last", expand_known(at, "last", &last, 1, 0), NUMBER_S32));
  if (is(resize->mode, "nearest")) return;
  table = expand_table(at, "shares", NUMBER_F32, side->n, (size_t)side->rises, parts);
  *weights = columns_of(at, "weights", table, left);
}

static void make_tables(const Resize *resize, const Side *side, GraphTensor **places, GraphTensor **weights)
{
  *weights = NULL;
  if (side->open) {
    make_open_tables(resize, side, places, weights);
    return;
  }
  bool nearest = is(resize->mode, "nearest");
  size_t total = (size_t)side->size * side->n;
  g_autofree int32_t *items = g_new(int32_t, total), *places_of = g_new(int32_t, side->n);
  g_autofree double *row = g_new(double, side->n);
  g_autofree float *parts = g_new(float, total);
  for (int64_t i = 0; i < side->size; i++) {
    fill_row(resize, side, i, places_of, row);
    for (size_t j = 0; j < side->n; j++) {
      items[j * (size_t)side->size + (size_t)i] = places_of[j];
      if (!nearest) parts[j * (size_t)side->size + (size_t)i] = (float)row[j];
    }
  }
  *places = expand_table(resize->at, "places", NUMBER_S32, side->n, (size_t)side->size, items);
  *weights =
      nearest ? NULL : expand_table(resize->at, "weights", NUMBER_F32, side->n, (size_t)side->size, parts);
}

/* ---- what the node says ---- */

static const char *text_of(Expansion *at, const char *name, const char *otherwise)
{
  const GraphAttribute *attribute = graph_attribute_find(expand_written(at), name);
  return attribute ? attribute->text : otherwise;
}

static int64_t flag(Expansion *at, const char *name)
{
  const GraphAttribute *attribute = graph_attribute_find(expand_written(at), name);
  return attribute ? attribute->integer : 0;
}

/* An input that is absent or empty counts as none. */
static GraphTensor *input_of(Expansion *at, unsigned i)
{
  GraphTensor *input = expand_input(at, i);
  bool empty = input && input->rank == 1 && symbolic_equals(input->shape[0], 0);
  return empty ? NULL : input;
}

static void read_attributes(Resize *resize, Expansion *at)
{
  const GraphAttribute *cubic = graph_attribute_find(expand_written(at), "cubic_coeff_a"),
                       *fill = graph_attribute_find(expand_written(at), "extrapolation_value");
  *resize = (Resize){.at = at,
                     .x = expand_input(at, 0),
                     .coordinates = text_of(at, "coordinate_transformation_mode", "asymmetric"),
                     .mode = text_of(at, "mode", "nearest"),
                     .nearest = text_of(at, "nearest_mode", "floor"),
                     .policy = text_of(at, "keep_aspect_ratio_policy", "stretch"),
                     .cubic = cubic ? cubic->number : 0,
                     .fill = fill ? fill->number : 0,
                     .antialias = flag(at, "antialias") != 0,
                     .excludes = flag(at, "exclude_outside") != 0};
}

static bool read_axes(Resize *resize)
{
  const GraphAttribute *axes = graph_attribute_find(expand_written(resize->at), "axes");
  bool given = axes && axes->given;
  uint32_t taken = 0;
  unsigned rank = resize->x->rank;
  resize->n = given ? axes->n : rank;
  for (unsigned i = 0; i < resize->n; i++) {
    int64_t axis = given ? axes->integers[i] : i;
    if (given && axis < 0) axis += rank;
    if (i >= rank || axis < 0 || axis >= rank || taken >> axis & 1) {
      expand_refuse_attribute(resize->at, ERROR_INPUT, "axes", "each dimension once",
                              "`axes` does not name dimensions of `%s`, of rank %u", resize->x->name, rank);
      return false;
    }
    taken |= 1u << axis;
    resize->sides[i] = (Side){.axis = (unsigned)axis, .extent = -1, .scale = 1, .to = 1};
    symbolic_is_constant(resize->x->shape[axis], &resize->sides[i].extent);
    resize->sides[i].size = resize->sides[i].extent;
  }
  return true;
}

/* Floats that are known while the graph is read; NULL: absent, or reported. */
static const double *read_floats(Resize *resize, unsigned input, unsigned n, const char *what)
{
  Expansion *at = resize->at;
  const GraphTensor *list = input_of(at, input);
  if (!list) return NULL;
  if (list->rank != 1 || !symbolic_equals(list->shape[0], n)) {
    expand_refuse(at, ERROR_INPUT, input, "arity", NULL, "%s of %s are a list of %u: `%s` is not", what,
                  expand_written(at)->op->name, n, list->name);
    return NULL;
  }
  if (!list->data) {
    expand_refuse(at, ERROR_UNSUPPORTED, input, what, "put them under `constants`, with `data`",
                  "%s of %s that are not known while the graph is read are not supported: `%s`", what,
                  expand_written(at)->op->name, list->name);
    return NULL;
  }
  double *items = arena_new_array(expand_arena(at), double, n);
  for (unsigned i = 0; i < n; i++)
    items[i] = number_to_double(list->type, (const guint8 *)list->data + number_bytes_of(list->type, i));
  return items;
}

static bool refuse_open(Resize *resize, unsigned input, const Side *side)
{
  g_autofree char *text = symbolic_text(resize->x->shape[side->axis]);
  expand_refuse(resize->at, ERROR_UNSUPPORTED, input, "shape", "bind the symbol: --dim",
                "%s along dimension %u of `%s`, whose extent is %s, is not supported",
                expand_written(resize->at)->op->name, side->axis, resize->x->name, text);
  return false;
}

static bool check_size(Resize *resize, unsigned input, double size, Side *side)
{
  side->size = (int64_t)CLAMP(size, -1, (double)SYMBOLIC_DIMENSION_MAX + 1);
  if (side->size > 0 && side->size <= SYMBOLIC_DIMENSION_MAX && side->extent) return true;
  bool none = !side->size && size >= 0;
  expand_refuse(resize->at, none ? ERROR_UNSUPPORTED : ERROR_INPUT, input, "shape", NULL,
                none ? "%s to no elements along dimension %u of `%s` is not supported"
                     : "%s gives no extent of dimension %u of `%s`",
                expand_written(resize->at)->op->name, side->axis, resize->x->name);
  return false;
}

/* Neighbours that an index of the result lies nearest to are then all those of one element of x. */
static bool only_repeats(const Resize *resize, double scale)
{
  bool centres = is(resize->coordinates, "half_pixel") || is(resize->coordinates, "half_pixel_symmetric") ||
                 is(resize->coordinates, "pytorch_half_pixel");
  bool rounds = !strncmp(resize->nearest, "round", 5);
  bool starts = is(resize->coordinates, "asymmetric") && is(resize->nearest, "floor");
  return is(resize->mode, "nearest") && scale >= 2 && scale <= SYMBOLIC_DIMENSION_MAX &&
         scale == floor(scale) && ((centres && rounds) || starts);
}

static bool take_scales(Resize *resize, unsigned input, const double *scales)
{
  bool crops = is(resize->coordinates, "tf_crop_and_resize");
  for (unsigned i = 0; i < resize->n; i++) {
    Side *side = &resize->sides[i];
    side->scale = scales[i];
    if (scales[i] == 1 && !crops) continue;
    if (only_repeats(resize, scales[i])) {
      side->repeats = (int64_t)scales[i];
      continue;
    }
    if (side->extent < 0) {
      if (!comes_back(resize, side)) return refuse_open(resize, input, side);
      side->open = resize->x->shape[side->axis];
      continue;
    }
    double size = scales[i] > 0 ? scales[i] * (double)side->extent : -1;
    if (!check_size(resize, input, floor(size), side)) return false;
  }
  return true;
}

/* One scale for all dimensions, the least or the largest. */
static void keep_ratio(Resize *resize)
{
  bool least = is(resize->policy, "not_larger");
  double scale = resize->n ? resize->sides[0].scale : 1;
  for (unsigned i = 1; i < resize->n; i++)
    scale = least ? MIN(scale, resize->sides[i].scale) : MAX(scale, resize->sides[i].scale);
  for (unsigned i = 0; i < resize->n; i++) {
    resize->sides[i].scale = scale;
    resize->sides[i].size = (int64_t)floor(scale * (double)resize->sides[i].extent + 0.5);
  }
}

/* Is the size so many times an extent that is open? */
static bool find_factor(const Resize *resize, const Symbolic *size, Side *side)
{
  Arena *arena = expand_arena(resize->at);
  const Symbolic *extent = resize->x->shape[side->axis];
  for (int64_t factor = 2; factor <= MOST_FACTOR; factor++) {
    if (!symbolic_same(size, symbolic_mul(arena, extent, symbolic_constant(arena, factor)))) continue;
    side->scale = (double)factor;
    if (only_repeats(resize, side->scale)) {
      side->repeats = factor;
      return true;
    }
    side->open = extent;
    return comes_back(resize, side);
  }
  return false;
}

static bool take_sizes(Resize *resize, unsigned input)
{
  const GraphTensor *sizes = input_of(resize->at, input);
  if (sizes->rank != 1 || !symbolic_equals(sizes->shape[0], resize->n) || !sizes->values) {
    bool list = sizes->rank == 1 && symbolic_equals(sizes->shape[0], resize->n);
    expand_refuse(resize->at, list ? ERROR_UNSUPPORTED : ERROR_INPUT, input, "sizes",
                  list ? "put them under `constants`, with `data`" : NULL,
                  list ? "sizes of %s that are not known while the graph is read are not supported: `%s`"
                       : "the sizes of %s are a number for each dimension: `%s` is not",
                  expand_written(resize->at)->op->name, sizes->name);
    return false;
  }
  bool stretches = is(resize->policy, "stretch");
  for (unsigned i = 0; i < resize->n; i++) {
    Side *side = &resize->sides[i];
    int64_t size;
    if (stretches && symbolic_same(sizes->values[i], resize->x->shape[side->axis])) continue;
    if (stretches && side->extent < 0 && find_factor(resize, sizes->values[i], side)) continue;
    if (side->extent < 0 || !symbolic_is_constant(sizes->values[i], &size))
      return refuse_open(resize, input, side);
    if (!check_size(resize, input, (double)size, side)) return false;
    side->scale = (double)side->size / (double)side->extent;
    if (stretches && only_repeats(resize, side->scale)) side->repeats = (int64_t)side->scale;
  }
  if (!stretches) keep_ratio(resize);
  return true;
}

/* Scales are an input in all versions, sizes and the part that is taken in newer ones. */
static bool read_sizes(Resize *resize)
{
  Expansion *at = resize->at;
  bool former = expand_written(at)->op->max_inputs == 2;
  unsigned scales_at = former ? 1 : 2, sizes_at = 3;
  bool scales = input_of(at, scales_at) != NULL, sizes = !former && input_of(at, sizes_at);
  if (scales == sizes) {
    expand_refuse(at, ERROR_INPUT, scales_at, "arity", NULL, "%s takes either scales or sizes",
                  expand_written(at)->op->name);
    return false;
  }
  if (is(resize->coordinates, "tf_crop_and_resize")) {
    const double *parts = read_floats(resize, 1, 2 * resize->n, "regions");
    if (!parts && !expand_failed(at))
      expand_refuse(at, ERROR_INPUT, 1, "arity", NULL, "tf_crop_and_resize takes the region: input `roi`");
    for (unsigned i = 0; parts && i < resize->n; i++) {
      resize->sides[i].from = parts[i];
      resize->sides[i].to = parts[resize->n + i];
    }
  }
  if (expand_failed(at)) return false;
  if (sizes) return take_sizes(resize, sizes_at);
  const double *factors = read_floats(resize, scales_at, resize->n, "scales");
  return factors && take_scales(resize, scales_at, factors);
}

static bool check_modes(Resize *resize)
{
  NumberType type = resize->x->type;
  bool nearest = is(resize->mode, "nearest"),
       weighs = number_class(type) == NUMBER_FLOAT || type == NUMBER_S8 || type == NUMBER_U8;
  if (nearest && resize->antialias) {
    expand_refuse_attribute(resize->at, ERROR_INPUT, "antialias", "linear, cubic",
                            "the nearest element is not antialiased");
    return false;
  }
  if (nearest || weighs) return true;
  expand_refuse(resize->at, ERROR_UNSUPPORTED, 0, "unsupported-type", "insert a Cast",
                "%s of %s by mode %s is not supported", expand_written(resize->at)->op->name,
                number_name(type), resize->mode);
  return false;
}

/* ---- the body ---- */

/* Dimensions that change and have a table, those first that become less: what follows then has fewer elements. */
static unsigned order_sides(const Resize *resize, Side *sides)
{
  unsigned n = 0;
  for (unsigned i = 0; i < resize->n; i++) {
    Side side = resize->sides[i];
    bool crops = side.from != 0 || side.to != 1;
    if (side.repeats || (!side.open && side.size == side.extent && fabs(side.scale - 1) < 1e-9 && !crops))
      continue;
    side.n = (size_t)MAX(1, 2 * reach(resize, &side));
    unsigned at = n++;
    for (; at && sides[at - 1].scale > side.scale; at--)
      sides[at] = sides[at - 1];
    sides[at] = side;
  }
  return n;
}

static GraphTensor *resample(Resize *resize, GraphTensor *x, const Side *sides, unsigned n)
{
  ExpandNode spec = {ONNX_Resample, "resized", 1 + 2 * n, {x}};
  int64_t axes[AXES_AT_ONCE];
  for (unsigned i = 0; i < n; i++) {
    axes[i] = sides[i].axis;
    make_tables(resize, &sides[i], &spec.inputs[1 + 2 * i], &spec.inputs[2 + 2 * i]);
  }
  spec.attributes[0] = (ExpandAttribute){"axes", .integers = axes, .n = n};
  spec.attributes[1] = (ExpandAttribute){"fill", .number = resize->fill};
  spec.attributes[2] = (ExpandAttribute){"inside", .integer = !is(resize->coordinates, "tf_crop_and_resize")};
  return expand_node(resize->at, &spec);
}

static GraphTensor *resample_all(Resize *resize, GraphTensor *x)
{
  Side sides[GRAPH_MAX_RANK];
  unsigned n = order_sides(resize, sides), next;
  for (unsigned first = 0; first < n; first = next) {
    size_t weighed = sides[first].n;
    for (next = first + 1; next < n && next < first + AXES_AT_ONCE; next++)
      if ((weighed *= sides[next].n) > WEIGHED_AT_ONCE) break;
    x = resample(resize, x, sides + first, next - first);
  }
  return x;
}

/* Each element of some dimensions as many times as it is repeated: a dimension of 1 behind each, which is expanded. */
static GraphTensor *repeat(Resize *resize, GraphTensor *x)
{
  Arena *arena = expand_arena(resize->at);
  int64_t repeats[GRAPH_MAX_RANK] = {0};
  unsigned n = 0;
  for (unsigned i = 0; i < resize->n; i++)
    repeats[resize->sides[i].axis] = resize->sides[i].repeats;
  const Symbolic *apart[2 * GRAPH_MAX_RANK], *wide[2 * GRAPH_MAX_RANK], *whole[GRAPH_MAX_RANK];
  for (unsigned d = 0; d < x->rank; d++) {
    apart[n] = wide[n] = whole[d] = x->shape[d];
    n++;
    if (!repeats[d]) continue;
    apart[n] = symbolic_constant(arena, 1);
    wide[n] = symbolic_constant(arena, repeats[d]);
    whole[d] = symbolic_mul(arena, x->shape[d], wide[n]);
    n++;
  }
  if (n == x->rank) return x;
  x = expand_reshape(resize->at, "apart", x, apart, n);
  x = expand(resize->at, ONNX_Expand, "repeated", x, expand_known(resize->at, "wide", wide, n, 1));
  return expand_reshape(resize->at, "resized", x, whole, resize->x->rank);
}

static GraphTensor *rounded(Resize *resize, GraphTensor *y)
{
  Expansion *at = resize->at;
  NumberType type = resize->x->type;
  if (expand_failed(at) || number_class(type) == NUMBER_FLOAT || y->type == type) return y;
  double least = type == NUMBER_U8 ? 0 : INT8_MIN, most = type == NUMBER_U8 ? UINT8_MAX : INT8_MAX;
  y = expand(at, ONNX_Round, "round", y, NULL);
  return expand_node(at, &(ExpandNode){ONNX_Clip,
                                       "clip",
                                       3,
                                       {y, expand_number(at, "least", NUMBER_F32, least),
                                        expand_number(at, "most", NUMBER_F32, most)}});
}

/* Repeated dimensions stand beside those they come from; where these are too many they are left to tables. */
static bool limit_repeats(Resize *resize)
{
  unsigned rank = resize->x->rank;
  for (unsigned i = 0; i < resize->n; i++) {
    Side *side = &resize->sides[i];
    if (!side->repeats || ++rank <= GRAPH_MAX_RANK) continue;
    side->repeats = 0;
    if (side->extent < 0) {
      if (!comes_back(resize, side)) return refuse_open(resize, 0, side);
      side->open = resize->x->shape[side->axis];
      continue;
    }
    side->size = (int64_t)((double)side->extent * side->scale);
  }
  return true;
}

void expand_resize(Expansion *at)
{
  Resize resize;
  read_attributes(&resize, at);
  if (!read_axes(&resize) || !read_sizes(&resize) || !check_modes(&resize) || !limit_repeats(&resize)) return;
  GraphTensor *y = rounded(&resize, resample_all(&resize, resize.x));
  if (expand_failed(at)) return;
  y = expand_cast(at, "narrow", y, resize.x->type);
  if (!expand_failed(at)) y = repeat(&resize, y);
  if (!expand_failed(at)) expand_give(at, 0, y);
}
