/* Shape sets of the product families. Needs: the families' own rules applied. Gives: gpu->products. */
#include "adl/build.h"
#include <string.h>

static const char *const product_families[] = {"warp_mma", "warpgroup_mma"};

/* Of GpuProduct: those of instructions, and, once all are read, of widened operands; these apart until then. */
typedef struct {
  GArray *listed, *widened;
} Products;

static NumberType type_of(const char *name)
{
  NumberType type = NUMBER_F32;
  gboolean known = number_parse(name, &type);
  g_assert(known);
  return type;
}

static const Entry *part(const Build *build, const char *prefix, const char *key)
{
  g_autofree char *path = g_strconcat(prefix, ".", key, NULL);
  return build_entry(build, path);
}

static bool lists(const Entry *entry, const char *text)
{
  return entry && entry->texts && g_strv_contains(entry->texts, text);
}

static double number(const Entry *entry)
{
  return entry ? entry->number : FACT_UNKNOWN;
}

/* What the family says for all its shapes. */
static void set_places(const Build *build, const char *family, GpuProduct *product)
{
  const Entry *a = part(build, family, "a"), *b = part(build, family, "b");
  product->family = family;
  product->a_from_registers = lists(a, "registers");
  product->a_from_shared = lists(a, "shared");
  product->b_from_registers = lists(b, "registers");
  product->b_from_shared = lists(b, "shared");
  const Entry *layout;
  if ((layout = part(build, family, "layout_a"))) product->layout_a = layout->text;
  if ((layout = part(build, family, "layout_b"))) product->layout_b = layout->text;
  if ((layout = part(build, family, "layout_acc"))) product->layout_acc = layout->text;
}

static const unsigned *whole_numbers(const Build *build, const Entry *entry)
{
  unsigned *numbers = arena_new_array(build->arena, unsigned, entry->n);
  for (unsigned i = 0; i < entry->n; i++)
    numbers[i] = (unsigned)entry->numbers[i];
  return numbers;
}

static GpuProduct shape_common(const Build *build, const char *family, const char *prefix)
{
  GpuProduct product = {0};
  set_places(build, family, &product);
  const Entry *transpose = part(build, prefix, "transpose"), *n = part(build, prefix, "n");
  const Entry *rounding = part(build, prefix, "accumulator_rounding");
  product.acc = type_of(part(build, prefix, "acc")->text);
  product.m = (unsigned)number(part(build, prefix, "m"));
  product.k = (unsigned)number(part(build, prefix, "k"));
  product.n = whole_numbers(build, n);
  product.n_count = n->n;
  product.a_transposed = lists(transpose, "a");
  product.b_transposed = lists(transpose, "b");
  product.accumulator_bits = number(part(build, prefix, "accumulator_bits"));
  product.accumulator_k = number(part(build, prefix, "accumulator_k"));
  product.accumulator_rounding = rounding && !rounding->unknown ? rounding->text : NULL;
  product.latency_cycles = number(part(build, prefix, "latency"));
  product.flop_per_clock_per_sm = number(part(build, prefix, "rate"));
  product.ptx_version = (unsigned)number(part(build, prefix, "ptx"));
  return product;
}

static bool integer_type(NumberType type)
{
  return number_class(type) == NUMBER_SIGNED || number_class(type) == NUMBER_UNSIGNED;
}

/* Types that the hardware could multiply and add together. */
static bool check_types(Build *build, const Value *shape, const GpuProduct *product)
{
  const char *fault = NULL;
  if (number_bits(product->a) != number_bits(product->b))
    fault = "A and B differ in size";
  else if (integer_type(product->a) != integer_type(product->b))
    fault = "A and B are not both integers";
  else if (integer_type(product->a) != integer_type(product->acc))
    fault = "operands and accumulator are not both integers";
  else if (number_bits(product->acc) < number_bits(product->a))
    fault = "the accumulator is narrower than the operands";
  if (!fault) return true;
  build_error(build, &shape->mark, "contradiction", NULL, "shape `%s`: %s (%s x %s -> %s)", shape->key, fault,
              number_name(product->a), number_name(product->b), number_name(product->acc));
  return false;
}

static bool same_operands(const GpuProduct *x, const GpuProduct *y)
{
  return !strcmp(x->family, y->family) && x->a == y->a && x->b == y->b && x->acc == y->acc;
}

static void add_product(Build *build, const Value *shape, GpuProduct *product, GArray *products)
{
  if (!check_types(build, shape, product)) return;
  for (guint i = 0; i < products->len; i++)
    if (same_operands(&g_array_index(products, GpuProduct, i), product)) {
      build_error(build, &shape->key_mark, "contradiction", NULL, "a second shape for %s x %s -> %s in `%s`",
                  number_name(product->a), number_name(product->b), number_name(product->acc),
                  product->family);
      return;
    }
  g_array_append_val(products, *product);
}

/* Fragments of a type are registers of two elements; those of floats of 8 bits have four, and an instruction takes them in two. */
static void widen_shape(Build *build, const char *prefix, const GpuProduct *wide, const Products *products)
{
  const Entry *widens = part(build, prefix, "widens");
  GpuProduct product = *wide;
  if (!widens) return;
  product.through = wide->a;
  product.widened = true;
  for (unsigned i = 0; i < widens->n; i++)
    for (unsigned j = 0; j < widens->n; j++) {
      product.a = type_of(widens->texts[i]);
      product.b = type_of(widens->texts[j]);
      product.k = wide->k * number_bits(wide->a) / number_bits(product.a);
      bool exact = wide->a == wide->b && wide->a == NUMBER_F16 && number_is_small_float(product.a);
      if (!exact) {
        build_error(build, &widens->mark, "contradiction", "e4m3 and e5m2 to f16",
                    "`%s`: %s is not widened to %s x %s", widens->path, number_name(product.a),
                    number_name(wide->a), number_name(wide->b));
        return;
      }
      g_array_append_val(products->widened, product);
    }
}

/* What no shape takes. */
static void add_widened(const Products *products)
{
  for (guint i = 0; i < products->widened->len; i++) {
    const GpuProduct *product = &g_array_index(products->widened, GpuProduct, i);
    bool listed = false;
    for (guint j = 0; j < products->listed->len; j++)
      listed |= same_operands(&g_array_index(products->listed, GpuProduct, j), product);
    if (!listed) g_array_append_val(products->listed, *product);
  }
}

static void build_shape(Build *build, const char *family, Value *shape, const Products *products)
{
  const char *prefix = arena_printf(build->arena, "%s.shapes.%s", family, shape->key);
  if (shape->kind != VALUE_MAP) {
    build_error(build, &shape->mark, "wrong-type", NULL, "expected the properties of shape `%s` (a mapping)",
                shape->key);
    return;
  }
  build_rules(build, shape, "shape", prefix);
  g_autofree const char **keys = schema_keys("shape");
  value_finish(shape, keys, "key", &build->error);
  static const char *const needed[] = {"a", "b", "acc", "m", "n", "k", "ptx"};
  for (unsigned i = 0; i < G_N_ELEMENTS(needed); i++)
    if (!part(build, prefix, needed[i])) return; /* already reported */
  GpuProduct product = shape_common(build, family, prefix);
  const Entry *a = part(build, prefix, "a"), *b = part(build, prefix, "b");
  for (unsigned i = 0; i < a->n; i++)
    for (unsigned j = 0; j < b->n; j++) {
      product.a = type_of(a->texts[i]);
      product.b = type_of(b->texts[j]);
      product.through = product.a;
      add_product(build, shape, &product, products->listed);
    }
  widen_shape(build, prefix, &product, products);
}

static void build_family_shapes(Build *build, const char *name, Value *family, const Products *products)
{
  Value *shapes = value_child(family, "shapes");
  bool some = false;
  for (Value *shape = shapes && shapes->kind == VALUE_MAP ? shapes->first : NULL; shape; shape = shape->next)
    some |= shape->kind != VALUE_REMOVED;
  if (!some) {
    build_error(build, shapes ? &shapes->mark : &family->mark, "missing-key",
                "one entry per pair of operand types", "missing key `%s.shapes`", name);
    return;
  }
  for (Value *shape = shapes->first; shape; shape = shape->next)
    if (shape->kind != VALUE_REMOVED) build_shape(build, name, shape, products);
}

void build_products(Build *build, Value *families)
{
  g_autoptr(GArray) listed = g_array_new(FALSE, FALSE, sizeof(GpuProduct));
  g_autoptr(GArray) widened = g_array_new(FALSE, FALSE, sizeof(GpuProduct));
  const Products products = {listed, widened};
  for (unsigned i = 0; i < G_N_ELEMENTS(product_families); i++) {
    Value *family = value_child(families, product_families[i]);
    if (family && family->kind == VALUE_MAP)
      build_family_shapes(build, product_families[i], family, &products);
  }
  add_widened(&products);
  build->gpu->n_products = listed->len;
  build->gpu->products = arena_memdup(build->arena, listed->data, listed->len * sizeof(GpuProduct));
}
