/* One figure a class: classes are judged separately, and each names its worst case. */
#include "measure/case_run.h"
#include <string.h>

typedef struct Class {
  const char *name, *mode, *worst_case;
  unsigned n, n_peers;
  double log_ratio, log_roof, worst;
} Class;

static Class *find_class(GPtrArray *classes, const char *name, const char *mode)
{
  for (unsigned i = 0; i < classes->len; i++) {
    Class *class_ = classes->pdata[i];
    if (!strcmp(class_->name, name) && !strcmp(class_->mode, mode)) return class_;
  }
  Class *class_ = g_new0(Class, 1);
  class_->name = name;
  class_->mode = mode;
  class_->worst = INFINITY;
  g_ptr_array_add(classes, class_);
  return class_;
}

static const char *text_of(const json_t *object, const char *key)
{
  return json_string_value(json_object_get(object, key));
}

const char *bench_kind_of(const json_t *c, const char *name)
{
  size_t i;
  json_t *candidate;
  json_array_foreach(json_object_get(c, "candidates"), i, candidate)
  {
    if (!strcmp(text_of(candidate, "name"), name)) return text_of(candidate, "kind");
  }
  return "";
}

/* The fastest peer's time over ours; NAN without a peer. */
static double peer_ratio(const json_t *c, const json_t *times)
{
  double best = NAN;
  size_t i;
  json_t *time;
  json_array_foreach(times, i, time)
  {
    double ratio = json_number_value(json_object_get(time, "ratio"));
    if (bench_is_peer(bench_kind_of(c, text_of(time, "candidate"))) && !(ratio >= best)) best = ratio;
  }
  return best;
}

static void add_mode(GPtrArray *classes, const json_t *c, const char *mode, const json_t *times)
{
  const json_t *first = json_array_get(times, 0);
  if (!first || strcmp(bench_kind_of(c, text_of(first, "candidate")), "adlgen") != 0) return;
  Class *class_ = find_class(classes, text_of(c, "class"), mode);
  double ratio = peer_ratio(c, times);
  class_->n++;
  class_->log_roof += log(json_number_value(json_object_get(first, "roof_fraction")));
  if (isnan(ratio)) return;
  class_->n_peers++;
  class_->log_ratio += log(ratio);
  if (ratio >= class_->worst) return;
  class_->worst = ratio;
  class_->worst_case = text_of(c, "name");
}

static json_t *class_json(const Class *class_)
{
  json_t *json = json_pack("{s:s, s:s, s:i, s:i, s:f}", "class", class_->name, "mode", class_->mode, "cases",
                           (int)class_->n, "with_peer", (int)class_->n_peers, "roof_fraction",
                           exp(class_->log_roof / class_->n));
  if (!class_->n_peers) return json;
  json_object_set_new(json, "peer_ratio", json_real(exp(class_->log_ratio / class_->n_peers)));
  json_object_set_new(json, "worst_ratio", json_real(class_->worst));
  json_object_set_new(json, "worst_case", json_string(class_->worst_case));
  return json;
}

json_t *bench_classes(const json_t *cases)
{
  g_autoptr(GPtrArray) classes = g_ptr_array_new_with_free_func(g_free);
  size_t i;
  json_t *c, *value, *list = json_array();
  const char *mode;
  json_array_foreach(cases, i, c) json_object_foreach(json_object_get(c, "modes"), mode, value)
      add_mode(classes, c, mode, json_object_get(value, "times"));
  for (unsigned j = 0; j < classes->len; j++)
    json_array_append_new(list, class_json(classes->pdata[j]));
  return list;
}
