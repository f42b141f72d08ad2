#include "execute/report.h"
#include <math.h>

const char *run_comparison_status(const RunComparison *comparison)
{
  if (!comparison->whole.ok) return "wrong";
  if (!comparison->whole.wide) return "ok";
  return comparison->admitted ? "admitted" : "wide";
}

static void tell_worst(GString *text, const GraphTensor *output, const RunComparison *comparison)
{
  const Comparison *c = &comparison->whole;
  g_string_append_printf(text, "%s: element %zu is %.9g, its reference %.9g", output->name, c->worst,
                         comparison->out, comparison->reference);
  if (c->misplaced)
    g_string_append_printf(text,
                           "; %zu elements are NaN or infinite where the reference is not, or the other way "
                           "round",
                           c->misplaced);
  else if (c->outliers)
    g_string_append_printf(text, "; %zu elements are further off than roundings explain", c->outliers);
  else if (c->wrong_blocks)
    g_string_append_printf(text, "; %zu parts of rows are further off than roundings explain",
                           c->wrong_blocks);
  g_string_append_c(text, '\n');
}

/* The operator, what it gives, and where it stands. */
static void tell_wider(GString *text, const GraphNode *node)
{
  const Mark *mark = &node->mark;
  g_string_append_printf(text, ": %s, which gives %s", node->op->name, node->outputs[0]->name);
  if (mark->source && mark->line)
    g_string_append_printf(text, " (%s:%u:%u)", mark->source->name, mark->line, mark->column);
  g_string_append(text, ", makes it so");
}

static void tell_wide(GString *text, const GraphTensor *output, const RunComparison *comparison)
{
  const Comparison *c = &comparison->whole;
  g_string_append_printf(text, "%s: ", output->name);
  if (number_class(output->type) != NUMBER_FLOAT)
    g_string_append_printf(text, "right results may differ in %zu elements, which proves nothing",
                           c->undetermined);
  else
    g_string_append_printf(text, "a limit of %.1e proves nothing, %.1e is the widest that does", c->limit,
                           c->widest);
  if (comparison->wider) tell_wider(text, comparison->wider);
  g_string_append(text, comparison->admitted
                            ? "; admitted\n"
                            : "; other data may prove more, --admit-wide takes it as it is\n");
}

char *run_comparison_reason(const GraphTensor *output, const RunComparison *comparison)
{
  const Comparison *c = &comparison->whole;
  if (c->ok && !c->wide) return NULL;
  GString *text = g_string_new(NULL);
  if (!c->ok) tell_worst(text, output, comparison);
  if (c->wide) tell_wide(text, output, comparison);
  return g_string_free(text, FALSE);
}

static json_t *number_json(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

json_t *run_comparison_json(const GraphTensor *output, const RunComparison *comparison)
{
  if (!comparison)
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n}", "name", output->name,
                     "error", "max_abs", "limit", "plain_limit", "widest_limit", "misplaced", "outliers",
                     "wrong_blocks", "undetermined", "status", "ok");
  const Comparison *c = &comparison->whole;
  json_t *object =
      json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:s, s:b}", "name", output->name, "error",
                number_json(c->error), "max_abs", number_json(c->max_abs), "limit", number_json(c->limit),
                "plain_limit", number_json(c->plain), "widest_limit", number_json(c->widest), "misplaced",
                (json_int_t)c->misplaced, "outliers", (json_int_t)c->outliers, "wrong_blocks",
                (json_int_t)c->wrong_blocks, "undetermined", (json_int_t)c->undetermined, "status",
                run_comparison_status(comparison), "ok", run_comparison_passes(comparison));
  if (comparison->wider)
    json_object_set_new(object, "wider",
                        json_pack("{s:s, s:s}", "op", comparison->wider->op->name, "output",
                                  comparison->wider->outputs[0]->name));
  return object;
}
