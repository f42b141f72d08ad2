#include "measure/chart.h"
#include "measure/case_run.h"
#include "measure/kernel_times.h"
#include <glib.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define BAR_HEIGHT  14
#define LABEL_WIDTH 300
#define PLOT_WIDTH  420
#define MARGIN      40
#define OURS        "#1f6f4a"
#define BEHIND      "#b5532a"
#define PEER        "#8a8f98"

/* ---- reading results ---- */

static const char *text_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
  return json_number_value(json_object_get(object, key));
}

static const json_t *times_of(const json_t *c, const char *mode)
{
  return json_object_get(json_object_get(json_object_get(c, "modes"), mode), "times");
}

const json_t *bench_ours(const json_t *c, const char *mode)
{
  const json_t *first = json_array_get(times_of(c, mode), 0);
  return first && !strcmp(bench_kind_of(c, text_of(first, "candidate")), "adlgen") ? first : NULL;
}

const json_t *bench_best_peer(const json_t *c, const char *mode)
{
  const json_t *best = NULL;
  size_t i;
  json_t *time;
  json_array_foreach(times_of(c, mode), i, time)
  {
    if (!bench_is_peer(bench_kind_of(c, text_of(time, "candidate")))) continue;
    if (!best || number_of(time, "us") < number_of(best, "us")) best = time;
  }
  return best;
}

/* ---- drawing ---- */

G_GNUC_PRINTF(2, 3) static void draw(GString *svg, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_string_append_vprintf(svg, format, arguments);
  va_end(arguments);
}

static GString *start_picture(double width, double height)
{
  GString *svg = g_string_new(NULL);
  draw(svg,
       "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
       "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
       "fill=\"#fff\"/>\n",
       width, height, width, height);
  return svg;
}

static void draw_text(GString *svg, double x, double y, const char *anchor, const char *text)
{
  g_autofree char *escaped = g_markup_escape_text(text, -1);
  draw(svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#222\">%s</text>\n", x, y, anchor,
       escaped);
}

static void draw_line(GString *svg, double x1, double y1, double x2, double y2, const char *colour)
{
  draw(svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2,
       colour);
}

static char *finish_picture(GString *svg)
{
  g_string_append(svg, "</svg>\n");
  return g_string_free(svg, FALSE);
}

/* ---- bars ---- */

static double bar_of(const json_t *c, const char *mode)
{
  const json_t *ours = bench_ours(c, mode), *peer = bench_best_peer(c, mode);
  if (!ours) return NAN;
  return peer ? number_of(peer, "ratio") : number_of(ours, "roof_fraction");
}

char *bench_chart_bars(const json_t *result, const char *mode)
{
  const json_t *cases = json_object_get(result, "cases");
  double most = 1.2, scale;
  unsigned n = 0;
  size_t i;
  json_t *c;
  json_array_foreach(cases, i, c)
  {
    double bar = bar_of(c, mode);
    if (isnan(bar)) continue;
    most = fmax(most, bar);
    n++;
  }
  if (!n) return NULL;
  scale = PLOT_WIDTH / most;
  GString *svg = start_picture(LABEL_WIDTH + PLOT_WIDTH + 2 * MARGIN, n * (BAR_HEIGHT + 3) + MARGIN + 10);
  draw_text(svg, LABEL_WIDTH, 14, "start",
            "best peer's time / ours (without a peer: fraction of the roof); 1 is the line");
  double y = 24;
  json_array_foreach(cases, i, c)
  {
    double bar = bar_of(c, mode);
    if (isnan(bar)) continue;
    g_autofree char *figure = g_strdup_printf("%.2f", bar);
    draw_text(svg, LABEL_WIDTH - 6, y + BAR_HEIGHT - 3, "end", text_of(c, "name"));
    draw(svg, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", LABEL_WIDTH, y,
         bar * scale, BAR_HEIGHT,
         !bench_best_peer(c, mode) ? PEER
         : bar >= 1                ? OURS
                                   : BEHIND);
    draw_text(svg, LABEL_WIDTH + bar * scale + 4, y + BAR_HEIGHT - 3, "start", figure);
    y += BAR_HEIGHT + 3;
  }
  draw_line(svg, LABEL_WIDTH + scale, 20, LABEL_WIDTH + scale, y, "#222");
  return finish_picture(svg);
}

/* ---- profiles ---- */

#define STRIP_HEIGHT 26

/* Neighbours in the list of kernels differ most: a turn of the colours by the golden angle, in degrees. */
static double hue_of(unsigned kernel)
{
  return fmod(kernel * 137.508, 360);
}

static unsigned place_of(const GPtrArray *kernels, const char *name)
{
  unsigned i = 0;
  while (i < kernels->len && strcmp(((const BenchKernelTime *)kernels->pdata[i])->kernel, name))
    i++;
  return i;
}

char *bench_chart_profile(const json_t *profile, const char *title)
{
  const json_t *launches = json_object_get(profile, "launches");
  g_autoptr(GPtrArray) kernels = bench_profile_kernels(launches, "us");
  double sum = 0, width = LABEL_WIDTH + PLOT_WIDTH + 2 * MARGIN, y = 24;
  for (unsigned i = 0; i < kernels->len; i++)
    sum += ((const BenchKernelTime *)kernels->pdata[i])->amount;
  double longest = kernels->len ? ((const BenchKernelTime *)kernels->pdata[0])->amount : 1;
  GString *svg = start_picture(width, kernels->len * (BAR_HEIGHT + 3) + STRIP_HEIGHT + 2 * MARGIN);
  g_autofree char *head = g_strdup_printf("%s: %.1f us in one graph; %.1f us with an event between launches",
                                          title, number_of(profile, "us"), sum);
  draw_text(svg, MARGIN / 2.0, 14, "start", head);
  for (unsigned i = 0; i < kernels->len; i++, y += BAR_HEIGHT + 3) {
    const BenchKernelTime *kernel = kernels->pdata[i];
    double bar = kernel->amount / longest * PLOT_WIDTH * 0.7;
    g_autofree char *figure = g_strdup_printf("%.1f us, %.1f %%, %u launches", kernel->amount,
                                              100 * kernel->amount / sum, kernel->launches);
    draw_text(svg, LABEL_WIDTH - 6, y + BAR_HEIGHT - 3, "end", kernel->kernel);
    draw(svg, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"hsl(%.0f,45%%,50%%)\"/>\n",
         LABEL_WIDTH, y, bar, BAR_HEIGHT, hue_of(i));
    draw_text(svg, LABEL_WIDTH + bar + 4, y + BAR_HEIGHT - 3, "start", figure);
  }
  double x = MARGIN / 2.0, scale = (width - MARGIN) / sum;
  size_t i;
  json_t *launch;
  json_array_foreach(launches, i, launch)
  {
    double wide = number_of(launch, "us") * scale;
    g_autofree char *name = g_markup_escape_text(text_of(launch, "launch"), -1);
    draw(svg,
         "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"hsl(%.0f,45%%,50%%)\">"
         "<title>%s: %.2f us</title></rect>\n",
         x, y + 12, wide, STRIP_HEIGHT, hue_of(place_of(kernels, text_of(launch, "kernel"))), name,
         number_of(launch, "us"));
    x += wide;
  }
  return finish_picture(svg);
}

/* ---- roofline ---- */

typedef struct Axes {
  double low_x, high_x, low_y, high_y; /* decades */
  double width, height;
} Axes;

static double place_x(const Axes *axes, double intensity)
{
  return 2.0 * MARGIN + (log10(intensity) - axes->low_x) / (axes->high_x - axes->low_x) * axes->width;
}

static double place_y(const Axes *axes, double rate)
{
  return MARGIN + (1 - (log10(rate) - axes->low_y) / (axes->high_y - axes->low_y)) * axes->height;
}

static void draw_axes(GString *svg, const Axes *axes)
{
  for (double x = axes->low_x; x <= axes->high_x; x++) {
    g_autofree char *text = g_strdup_printf("%g", pow(10, x));
    draw_line(svg, place_x(axes, pow(10, x)), MARGIN, place_x(axes, pow(10, x)), MARGIN + axes->height,
              "#ddd");
    draw_text(svg, place_x(axes, pow(10, x)), MARGIN + axes->height + 14, "middle", text);
  }
  for (double y = axes->low_y; y <= axes->high_y; y++) {
    g_autofree char *text = g_strdup_printf("%g", pow(10, y) * 1e-12);
    draw_line(svg, 2.0 * MARGIN, place_y(axes, pow(10, y)), 2.0 * MARGIN + axes->width,
              place_y(axes, pow(10, y)), "#ddd");
    draw_text(svg, 2.0 * MARGIN - 6, place_y(axes, pow(10, y)) + 4, "end", text);
  }
  draw_text(svg, 2.0 * MARGIN, MARGIN - 12, "start", "TFLOP/s over FLOP per byte");
}

/* One roof for each family and type. */
static void draw_ceilings(GString *svg, const Axes *axes, const json_t *ceilings)
{
  static const char *const families[] = {"warp_mma", "warpgroup_mma"};
  double read = number_of(ceilings, "read"), highest = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(families); i++) {
    const char *type;
    json_t *rate;
    json_object_foreach(json_object_get(ceilings, families[i]), type, rate)
    {
      double peak = json_number_value(rate);
      g_autofree char *label = g_strdup_printf("%s %s %.0f", families[i], type, peak * 1e-12);
      highest = fmax(highest, peak);
      draw_line(svg, place_x(axes, peak / read), place_y(axes, peak), 2.0 * MARGIN + axes->width,
                place_y(axes, peak), "#222");
      draw_text(svg, 2.0 * MARGIN + axes->width - 4, place_y(axes, peak) + (i ? -3 : 12), "end", label);
    }
  }
  double left = pow(10, axes->low_x), right = highest > 0 ? highest / read : pow(10, axes->high_y) / read;
  draw_line(svg, place_x(axes, left), place_y(axes, left * read), place_x(axes, right),
            place_y(axes, right * read), "#222");
}

static void draw_point(GString *svg, const Axes *axes, const json_t *c, const json_t *time,
                       const char *colour)
{
  double flops = number_of(c, "flops"), rate = flops / number_of(time, "us") * 1e6;
  g_autofree char *name = g_markup_escape_text(text_of(c, "name"), -1);
  draw(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s: %.1f TFLOP/s</title></circle>\n",
       place_x(axes, flops / number_of(c, "bytes")), place_y(axes, rate), colour, name, rate * 1e-12);
}

char *bench_chart_roofline(const json_t *result, const char *mode)
{
  const json_t *cases = json_object_get(result, "cases");
  const Axes axes = {-1, 4, 11, 15.25, 560, 360};
  unsigned n = 0;
  size_t i;
  json_t *c;
  json_array_foreach(cases, i, c) n += number_of(c, "flops") > 0 && bench_ours(c, mode);
  if (!n) return NULL;
  GString *svg = start_picture(axes.width + 3 * MARGIN, axes.height + 2.5 * MARGIN);
  draw_axes(svg, &axes);
  draw_ceilings(svg, &axes, json_object_get(result, "ceilings"));
  json_array_foreach(cases, i, c)
  {
    const json_t *ours = bench_ours(c, mode), *peer = bench_best_peer(c, mode);
    if (!(number_of(c, "flops") > 0)) continue;
    if (peer) draw_point(svg, &axes, c, peer, PEER);
    if (ours) draw_point(svg, &axes, c, ours, OURS);
  }
  draw(svg, "<circle cx=\"%.1f\" cy=\"%d\" r=\"3\" fill=\"%s\"/>\n", axes.width - 60, MARGIN - 15, OURS);
  draw_text(svg, axes.width - 50, MARGIN - 12, "start", "adlgen");
  draw(svg, "<circle cx=\"%.1f\" cy=\"%d\" r=\"3\" fill=\"%s\"/>\n", axes.width + 5, MARGIN - 15, PEER);
  draw_text(svg, axes.width + 15, MARGIN - 12, "start", "best peer");
  return finish_picture(svg);
}
