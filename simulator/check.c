/* The rare paths of check.h: something is wrong, find out what. */
#include "simulator/check.h"
#include "simulator/product.h"

void check_undefined_guard(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t lanes = undefined_lanes(w, in->guard) & mask;
  fault(w, in, first_lane(lanes), SIM_FAULT_UNDEFINED, 0, "the predicate has never been given a value");
  set_undefined(w, in->guard, FULL, 0); /* report the cause once */
}

void check_value(Warp *w, const Inst *in, uint32_t id, uint32_t mask, const char *what)
{
  uint32_t lanes = undefined_lanes(w, id) & mask;
  if (!lanes) return;
  fault(w, in, first_lane(lanes), SIM_FAULT_UNDEFINED, 0, "%s is computed from a value nobody has written",
        what);
}

void check_in_flight(Warp *w, const Inst *in, uint32_t mask)
{
  if (in->flags & INST_COPY && in->n_reads && in->n_writes) {
    bool destination_free = true;
    for (unsigned i = 0; i < in->n_writes; i++)
      destination_free &=
          !w->in_flight[in->writes[i]] || w->in_flight[in->writes[i]] == w->in_flight[in->reads[0]];
    if (destination_free && in->n_writes == in->n_reads) {
      for (unsigned i = 0; i < in->n_writes; i++)
        w->in_flight[in->writes[i]] = w->in_flight[in->reads[i]];
      return;
    }
  }
  for (unsigned i = 0; i < (unsigned)in->n_reads + in->n_writes; i++) {
    uint32_t slot = i < in->n_reads ? in->reads[i] : in->writes[i - in->n_reads];
    uint8_t token = w->in_flight[slot];
    if (!token) continue;
    const Inst *product = product_of_token(w, token);
    fault_cause(w, in, first_lane(mask), SIM_FAULT_WGMMA, product,
                "a register of a product still in flight is %s before wgmma.wait_group",
                i < in->n_reads ? "read" : "written");
    return;
  }
}
