/* Things that wait for one another, in an order that lets each go. */
#pragma once
#include <glib.h>

/* `second` waits for `first`; both are places in a list. */
typedef struct OrderEdge {
  unsigned first, second;
} OrderEdge;

/* The order in which one takes n things that goes over their list again and again and takes what waits for
 * nothing that is not taken: a list that is in order keeps it. Fills `order`, which has room for n, and returns
 * how many were taken: fewer than n if some wait in a circle. Takes time in proportion to things and edges,
 * however often one would have to go over the list. */
unsigned order_by_rounds(unsigned n, const OrderEdge *edges, unsigned n_edges, unsigned *order);
