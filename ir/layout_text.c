/* Layouts as text: a constructor, a slice or transposition of one, or the modes themselves. */
#include "ir/layout.h"
#include <string.h>

static const char *const place_names[PLACE_COUNT] = {"register", "lane", "warp", "block", "offset", "cell"};

#define MAX_WRAPPED 4 /* slice(transposed(...)): how deep */

/* ---- Printing ---- */

const char *layout_text(Arena *arena, const Layout *layout)
{
  if (layout->name) return layout->name;
  GString *out = g_string_new("{");
  for (LayoutPlace place = 0; place < PLACE_COUNT; place++) {
    bool first = true;
    for (unsigned i = 0; i < layout->n; i++) {
      const LayoutMode *mode = &layout->modes[i];
      if (mode->place != place) continue;
      if (first) g_string_append_printf(out, "%s%s", out->len > 1 ? " | " : "", place_names[place]);
      first = false;
      if (mode->dim == LAYOUT_REPLICATED)
        g_string_append_printf(out, " %u:-", mode->size);
      else
        g_string_append_printf(out, " %u:%d.%u", mode->size, mode->dim, mode->step);
    }
  }
  if (layout->swizzle_bits)
    g_string_append_printf(out, " | swizzle %u:%u.%u", layout->swizzle_bits, layout->swizzle_base,
                           layout->swizzle_shift);
  if (layout->row_pad) g_string_append_printf(out, " | pad %u", layout->row_pad);
  g_string_append_c(out, '}');
  const char *text = arena_strndup(arena, out->str, out->len);
  g_string_free(out, TRUE);
  return text;
}

/* ---- Reading ---- */

typedef struct Parser {
  Arena *arena;
  const char *at;
  NumberType type;
  const char **message;
} Parser;

static const Layout *complain(Parser *parser, const char *message)
{
  if (!*parser->message) *parser->message = arena_strdup(parser->arena, message);
  return NULL;
}

static void skip_blank(Parser *parser)
{
  while (*parser->at == ' ' || *parser->at == '\t')
    parser->at++;
}

static bool accept(Parser *parser, const char *text)
{
  skip_blank(parser);
  size_t length = strlen(text);
  if (strncmp(parser->at, text, length)) return false;
  if (g_ascii_isalpha(text[0]) && (g_ascii_isalnum(parser->at[length]) || parser->at[length] == '_'))
    return false;
  parser->at += length;
  return true;
}

/* Numbers stay small enough that no product of the constructors overflows. */
static bool number(Parser *parser, unsigned *value)
{
  skip_blank(parser);
  const char *start = parser->at;
  for (*value = 0; g_ascii_isdigit(*parser->at) && *value <= 100000; parser->at++)
    *value = *value * 10 + (unsigned)(*parser->at - '0');
  return parser->at > start && *value <= 100000;
}

typedef struct Constructor {
  const char *name;
  unsigned rank;        /* 0 = any */
  const char *words[5]; /* before each argument; "" for none */
} Constructor;

enum {
  MMA_A,
  MMA_A_RUNS,
  MMA_B,
  MMA_B_PARTS,
  MMA_C,
  MMA_C_PARTS,
  GROUP_D,
  GROUP_A,
  GROUP_A_PAIRED,
  GROUP_D_ACROSS,
  GROUP_A_ACROSS,
  BLOCKED,
  PATCHES,
  FMA_C,
  CELLS,
  SHARED_PAIRED,
  SHARED,
  CONSTRUCTOR_COUNT
};

static const Constructor constructors[CONSTRUCTOR_COUNT] = {
    [MMA_A] = {"mma.a", 2, {"", ""}},
    [MMA_A_RUNS] = {"mma.a_runs", 2, {"", "", ""}},
    [MMA_B] = {"mma.b", 2, {"", ""}},
    [MMA_B_PARTS] = {"mma.b_parts", 2, {"", "", ""}},
    [MMA_C] = {"mma.c", 2, {"", ""}},
    [MMA_C_PARTS] = {"mma.c_parts", 2, {"", "", ""}},
    [GROUP_D] = {"group.d", 2, {""}},
    [GROUP_A] = {"group.a", 2, {""}},
    [GROUP_A_PAIRED] = {"group.a_paired", 2, {""}},
    [GROUP_D_ACROSS] = {"group.d_across", 2, {"", ""}},
    [GROUP_A_ACROSS] = {"group.a_across", 2, {""}},
    [BLOCKED] = {"blocked", 0, {"vector", "lanes", "row_warps", "warps"}},
    [PATCHES] = {"patches", 2, {"vector", "warps"}},
    [FMA_C] = {"fma.c", 2, {"", "", "", ""}},
    [CELLS] = {"cells", 2, {""}},
    [SHARED_PAIRED] = {"shared_paired", 2, {"inner", "swizzle"}},
    [SHARED] = {"shared", 0, {"inner", "swizzle", "pad"}},
};

static const Layout *construct(Parser *parser, unsigned which, const unsigned *a, unsigned rank,
                               const unsigned *e)
{
  Arena *arena = parser->arena;
  switch (which) {
  case MMA_A: return layout_mma_a(arena, parser->type, e[0], e[1], a[0], a[1]);
  case MMA_A_RUNS: return layout_mma_a_runs(arena, e[0], e[1], a[0], a[1], a[2]);
  case MMA_B: return layout_mma_b(arena, parser->type, e[0], e[1], a[0], a[1]);
  case MMA_B_PARTS: return layout_mma_b_parts(arena, parser->type, e[0], e[1], a[0], a[1], a[2]);
  case MMA_C_PARTS: return layout_mma_c_parts(arena, e[0], e[1], a[0], a[1], a[2]);
  case MMA_C: return layout_mma_c(arena, e[0], e[1], a[0], a[1]);
  case GROUP_D: return layout_group_d(arena, e[0], e[1], a[0]);
  case GROUP_A: return layout_group_a(arena, parser->type, e[0], e[1], a[0]);
  case GROUP_A_PAIRED: return layout_group_a_paired(arena, parser->type, e[0], e[1], a[0]);
  case GROUP_D_ACROSS: return layout_group_d_across(arena, a[0], e[0], e[1], a[1]);
  case GROUP_A_ACROSS: return layout_group_a_across(arena, parser->type, e[0], e[1], a[0]);
  case BLOCKED: return layout_blocked(arena, rank, e, a[0], a[1], a[2], a[3]);
  case PATCHES: return layout_patches(arena, e[0], e[1], a[0], a[1]);
  case FMA_C: return layout_fma_c(arena, e[0], e[1], a[0], a[1], 4, a[2], a[3]);
  case CELLS: return layout_cells(arena, e[0], e[1], a[0]);
  case SHARED_PAIRED: return a[0] < 2 ? layout_shared_paired(arena, e, a[0], parser->type, a[1]) : NULL;
  default: return layout_shared(arena, rank, e, a[0], parser->type, a[1], a[2]);
  }
}

static const Layout *parse_constructor(Parser *parser, unsigned which, unsigned rank, const unsigned *extents)
{
  const Constructor *constructor = &constructors[which];
  unsigned arguments[5] = {0};
  if (constructor->rank && rank != constructor->rank)
    return complain(parser, "it needs a tile of two dimensions");
  for (unsigned i = 0; i < G_N_ELEMENTS(constructor->words) && constructor->words[i]; i++) {
    bool ok = (i == 0 ? accept(parser, "(") : accept(parser, ",")) &&
              (!*constructor->words[i] || accept(parser, constructor->words[i])) &&
              number(parser, &arguments[i]);
    if (ok) continue;
    return complain(parser, *constructor->words[i] ? arena_printf(parser->arena, "expected `%s` and a number",
                                                                  constructor->words[i])
                                                   : "a number is missing");
  }
  if (!accept(parser, ")")) return complain(parser, "`)` is missing");
  const Layout *layout = construct(parser, which, arguments, rank, extents);
  return layout ? layout : complain(parser, "the tile's extents do not fit it");
}

static bool parse_mode(Parser *parser, LayoutPlace place, Layout *layout)
{
  LayoutMode mode = {.place = place, .dim = LAYOUT_REPLICATED};
  if (layout->n == LAYOUT_MAX_MODES) return complain(parser, "too many modes");
  if (!number(parser, &mode.size) || !mode.size || !accept(parser, ":"))
    return complain(parser, "a mode reads SIZE:DIM.STEP or SIZE:-");
  if (!accept(parser, "-")) {
    unsigned dim;
    if (!number(parser, &dim) || !accept(parser, ".") || !number(parser, &mode.step) || dim >= layout->rank)
      return complain(parser, "a mode reads SIZE:DIM.STEP or SIZE:-");
    mode.dim = (int)dim;
  }
  layout->modes[layout->n++] = mode;
  return true;
}

static bool parse_swizzle(Parser *parser, Layout *layout)
{
  return number(parser, &layout->swizzle_bits) && accept(parser, ":") &&
         number(parser, &layout->swizzle_base) && accept(parser, ".") &&
         number(parser, &layout->swizzle_shift) && layout->swizzle_bits <= 3 && layout->swizzle_base == 4 &&
         layout->swizzle_shift >= layout->swizzle_bits && layout->swizzle_shift <= 8;
}

/* Every coordinate occurs once among the modes that do not replicate: steps 1, s1, s1*s2 ... up to the
 * extent. */
static bool covers(const Layout *layout, unsigned dim)
{
  uint64_t reached = 1;
  for (bool found = true; found && reached < layout->extent[dim];) {
    found = false;
    for (unsigned i = 0; i < layout->n && !found; i++) {
      const LayoutMode *mode = &layout->modes[i];
      if (mode->dim != (int)dim || mode->size == 1 || mode->step != reached) continue;
      reached *= mode->size;
      found = true;
    }
  }
  uint64_t all = 1;
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].dim == (int)dim && __builtin_mul_overflow(all, layout->modes[i].size, &all))
      return false;
  return reached == layout->extent[dim] && all == reached;
}

static const Layout *check_modes(Parser *parser, Layout *layout)
{
  uint64_t size[PLACE_COUNT] = {1, 1, 1, 1, 1, 1};
  for (unsigned i = 0; i < layout->n; i++) {
    size[layout->modes[i].place] *= layout->modes[i].size;
    if (size[layout->modes[i].place] > 1u << 26) return complain(parser, "it is too large");
  }
  bool shared = size[PLACE_OFFSET] > 1;
  if (shared && size[PLACE_REGISTER] * size[PLACE_LANE] * size[PLACE_WARP] * size[PLACE_BLOCK] > 1)
    return complain(parser, "offsets and registers do not mix");
  if (size[PLACE_CELL] > 1 && size[PLACE_REGISTER] * size[PLACE_OFFSET] > 1)
    return complain(parser, "cells of accumulator memory mix with neither registers nor offsets");
  if (!shared && (layout->swizzle_bits || layout->row_pad))
    return complain(parser, "only offsets can be swizzled or padded");
  if (!shared && size[PLACE_LANE] != 32 && size[PLACE_LANE] != 1)
    return complain(parser, "a warp has 32 lanes");
  for (unsigned dim = 0; dim < layout->rank; dim++)
    if (!covers(layout, dim))
      return complain(parser, arena_printf(parser->arena,
                                           "the modes do not give each of the %u places of "
                                           "dimension %u once",
                                           layout->extent[dim], dim));
  return layout;
}

static const Layout *parse_modes(Parser *parser, unsigned rank, const unsigned *extents)
{
  Layout *layout = arena_new_object(parser->arena, Layout);
  layout->rank = rank;
  memcpy(layout->extent, extents, rank * sizeof *extents);
  while (!accept(parser, "}")) {
    if (accept(parser, "swizzle")) {
      if (!parse_swizzle(parser, layout)) return complain(parser, "a swizzle reads BITS:4.SHIFT");
    } else if (accept(parser, "pad")) {
      if (!number(parser, &layout->row_pad) || layout->row_pad > 4096)
        return complain(parser, "a number is missing");
    } else {
      unsigned place = 0;
      while (place < PLACE_COUNT && !accept(parser, place_names[place]))
        place++;
      if (place == PLACE_COUNT)
        return complain(parser, "expected register, lane, warp, block, offset or cell");
      skip_blank(parser);
      for (; g_ascii_isdigit(*parser->at); skip_blank(parser))
        if (!parse_mode(parser, (LayoutPlace)place, layout)) return NULL;
    }
    accept(parser, "|");
  }
  return check_modes(parser, layout);
}

static const Layout *parse_layout(Parser *parser, unsigned rank, const unsigned *extents, unsigned depth);

/* slice(L, x): L's tile has extent x where this one has 1. */
static const Layout *parse_slice(Parser *parser, unsigned rank, const unsigned *extents, unsigned depth)
{
  if (rank != 2 || (extents[0] == 1) == (extents[1] == 1))
    return complain(parser, "a slice has two dimensions, one of extent 1");
  unsigned drop = extents[0] == 1 ? 0 : 1, whole[2] = {extents[0], extents[1]};
  /* The extent stands behind the layout, which needs it: look ahead for the last comma. */
  const char *close = strrchr(parser->at, ')'), *comma = close;
  unsigned nested = 0;
  for (const char *c = parser->at; *c; c++) {
    if (*c == '(' || *c == '{') nested++;
    if ((*c == ')' || *c == '}') && !nested--) break;
    if (*c == ',' && !nested) comma = c;
  }
  if (!comma || *comma != ',') return complain(parser, "a slice reads slice(LAYOUT, EXTENT)");
  Parser tail = *parser;
  tail.at = comma + 1;
  if (!number(&tail, &whole[drop]) || !whole[drop])
    return complain(parser, "a slice reads slice(LAYOUT, EXTENT)");
  const Layout *base = parse_layout(parser, 2, whole, depth + 1);
  if (!base || !accept(parser, ",")) return complain(parser, "a slice reads slice(LAYOUT, EXTENT)");
  parser->at = tail.at;
  if (!accept(parser, ")")) return complain(parser, "`)` is missing");
  return layout_slice(parser->arena, base, 1 - drop);
}

static const Layout *parse_layout(Parser *parser, unsigned rank, const unsigned *extents, unsigned depth)
{
  if (depth > MAX_WRAPPED) return complain(parser, "it is nested too deep");
  if (accept(parser, "{")) return parse_modes(parser, rank, extents);
  if (accept(parser, "slice") && accept(parser, "(")) return parse_slice(parser, rank, extents, depth);
  if (accept(parser, "transposed") && accept(parser, "(")) {
    if (rank != 2) return complain(parser, "it needs a tile of two dimensions");
    const Layout *base = parse_layout(parser, 2, (unsigned[]){extents[1], extents[0]}, depth + 1);
    if (!base) return NULL;
    return accept(parser, ")") ? layout_transposed(parser->arena, base) : complain(parser, "`)` is missing");
  }
  for (unsigned i = 0; i < CONSTRUCTOR_COUNT; i++)
    if (accept(parser, constructors[i].name)) return parse_constructor(parser, i, rank, extents);
  return complain(parser, "known are mma.a mma.b mma.c group.d group.a group.a_paired group.d_across "
                          "group.a_across blocked patches fma.c cells shared shared_paired slice transposed");
}

const Layout *layout_parse(Arena *arena, const char *text, NumberType type, unsigned rank,
                           const unsigned *extents, const char **message)
{
  const char *unused = NULL;
  Parser parser = {arena, text, type, message ? message : &unused};
  *parser.message = NULL;
  if (rank < 1 || rank > LAYOUT_MAX_DIMS) return complain(&parser, "a layout has one to four dimensions");
  /* Bounds that keep every product of extents within 32 bits. */
  uint64_t elements = 1;
  for (unsigned i = 0; i < rank; i++) {
    elements *= extents[i];
    if (!extents[i] || elements > 1u << 26) return complain(&parser, "the tile is empty or too large");
  }
  const Layout *layout = parse_layout(&parser, rank, extents, 0);
  skip_blank(&parser);
  if (layout && *parser.at) return complain(&parser, "something follows it");
  return layout;
}
