/* Between the files of fusion/ only. */
#pragma once
#include "generator/fusion/fusion.h"
#include "generator/fusion/rewrites.h"
#include "generator/program/division.h"

/* A group of nodes on its way to a fused operator. */
typedef struct Group {
  GraphNode *anchor; /* the product (of two the first) or row operator; NULL: its nodes are elementwise */
  GraphNode *second; /* two products of one operand: the other */
  GPtrArray *nodes;  /* GraphNode, in topological order */
  bool
      chained; /* its anchor is the last of two products, which takes what is computed of the first one's result */
  bool absorbed;                   /* its nodes went into another group */
  double work;                     /* operations of its elementwise nodes, for each element */
  unsigned level;                  /* above those of all groups it reads from */
  unsigned seen;                   /* the search that came by last */
  bool queued;                     /* fuser_settle_levels has still to look at it */
  const ProgramDivision *division; /* into several kernels; NULL: it is one */
  int64_t mean_of; /* a row's sum is divided by so many elements, of which parts were summed before; or 0 */
} Group;

struct Fuser {
  Arena *arena;
  const Graph *graph;
  const FusionOptions *options; /* may be NULL */
  const FusionRewrite *rewrite; /* that runs; NULL: none */
  GPtrArray
      *live; /* copies of the graph's nodes that are needed, in order; rewritten until operands lie well */
  GPtrArray *nodes;   /* these, with the copies that anchors need inserted; index = place here */
  GPtrArray *tensors; /* by GraphTensor.index: the graph's, then inserted ones */
  GPtrArray *stacks;  /* FusionStack *, of the arena */
  GPtrArray *groups;
  Group **group_of;       /* by node index */
  const char **joined_by; /* by node index: the rewrite that put it into its group; NULL: it opened that */
  GHashTable *
      later; /* tensor -> GPtrArray * of GraphNode * in `live` that read it, while nodes are visited in order; NULL: not known */
  GPtrArray **readers;   /* by tensor index: nodes that read it or a view of it, once each; NULL: not known */
  GraphNode **producers; /* by tensor index */
  bool *inside, *tainted; /* by node index: of close_branches, all false between closures */
  unsigned search;        /* number of the last one (Group.seen) */
  GPtrArray *notes;
  GHashTable *
      chains; /* node -> Group * whose nodes go into one kernel together, opened where its anchor is visited */
  unsigned max_steps, max_tensors;
  double max_work;
  bool alone; /* every node became a group again */
  bool walks; /* walk_times: one kernel may do all times of the loop */
};

/* The program of both groups as one kernel; NULL: it would read and write more tensors than a kernel may. */
const Program *fuser_joined_program(Fuser *fuser, const Group *a, const Group *b);
/* Does a node of the group read the tensor? */
bool group_reads(const Group *group, const GraphTensor *tensor);
static inline bool group_is_product(const Group *group)
{
  return group->anchor && group->anchor->op->class_ == OPERATOR_GEMM && !group->chained;
}

static inline bool group_is_row(const Group *group)
{
  return group->anchor && group->anchor->op->class_ == OPERATOR_ROW;
}

/* The nodes as they are at a stage, of which a fuser with groups has these; g_free. */
char *fuser_dump(const Fuser *fuser, FusionStage stage);

/* For --explain, behind the name of the rewrite that runs: note.c. */
void fuser_note(Fuser *fuser, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* ---- the ends: open.c, finish.c ---- */

/* Copies the nodes that are needed to fuser->live. Refuses what no kernel exists for. */
bool fuser_open(Fuser *fuser, GError **error);
/* A vector of scales becomes a view that broadcasts along the axis it is for, by a live node in front where the graph computes it. The
 * node is the fuser's copy, which is not among the live ones yet. */
void fuser_place_scales(Fuser *fuser, GraphNode *node);
/* Fused operators of the groups, in order. */
bool fuser_finish(Fuser *fuser, Fusion *fusion, GError **error);

/* ---- copies: copy.c ---- */

/* A tensor for a copy of `source`, whose elements lie side by side along dimension `inner`, in rows of a
 * multiple of so many elements, at addresses of as many; not inserted yet. */
GraphTensor *fuser_make_copy(Fuser *fuser, const GraphNode *reader, const GraphTensor *source,
                             const Symbolic *const *shape, unsigned rank, unsigned inner, unsigned multiple);
/* A further tensor that nodes compute, row after row. */
GraphTensor *fuser_new_tensor(Fuser *fuser, const char *name, NumberType type, Mark mark,
                              const Symbolic *const *shape, unsigned rank);
/* A further constant of one element. */
GraphTensor *fuser_new_number(Fuser *fuser, NumberType type, double value);
/* What an operator's attributes are where nobody gives them; the arena's. */
GraphAttribute *fuser_default_attributes(Fuser *fuser, const Operator *op);
/* Puts a node in front of one that is live. */
void fuser_insert_before(Fuser *fuser, const GraphNode *next, GraphNode *node);
/* A node that copies for another one; not inserted. */
GraphNode *fuser_copy_node(Fuser *fuser, const GraphNode *for_, GraphTensor *from, GraphTensor *to);
/* The node that copies, in front of its reader, which is not in fuser->nodes yet. */
void fuser_insert_copy(Fuser *fuser, const GraphNode *reader, GraphTensor *source, GraphTensor *copy,
                       const char *why);

/* ---- equal nodes: equal.c ---- */

/* Of two nodes of one operator, neither of which has a body. */
bool fuser_same_attributes(const GraphNode *a, const GraphNode *b);

/* ---- rows of row operators: rows.c, row_groups.c ---- */

/* Would join_rows have the row operator's group and the other one share a kernel? */
bool fuser_joins_rows(Fuser *fuser, Group *group, Group *other);

/* Of what a row operator reads or gives, broadcast to its input: the reduced dims merge into one, and so do
 * the others. */
bool fuser_walks_rows(Fuser *fuser, const GraphTensor *tensor, const GraphNode *node);

/* ---- views: view_of.c, view.c, reshape.c ---- */

/* A view of a whole tensor, for the caller to change. */
GraphTensor *fuser_view_of(Fuser *fuser, const GraphTensor *tensor);
/* A copy of the graph's tensor in its place, for a node that fusion makes to give: the graph, which others may read at the
 * same time and which outlives the nodes of fusion, is left as it is. */
GraphTensor *fuser_own_tensor(Fuser *fuser, const GraphTensor *tensor);
/* Elements that repeat along the dimensions that the tensor lacks. */
GraphTensor *fuser_expanded(Fuser *fuser, const GraphTensor *tensor, const GraphTensor *like);
/* Readers of the node's result read its input, and NULL; or the node that writes the result. */
GraphNode *fuser_reshape(Fuser *fuser, const GraphNode *node);
/* A copy of the view that makes the node's result, in the shape in which it was computed: who computes it then stores it there. */
GraphNode *fuser_write_view(Fuser *fuser, const GraphNode *node, GraphTensor *view);

/* Part of a tensor along a dimension: `extent` indices from `first` on. */
GraphTensor *fuser_part_of(Fuser *fuser, const GraphTensor *tensor, unsigned dimension, const Symbolic *first,
                           const Symbolic *extent);
/* Is the tensor a view of what the graph computes or is given? It is read from memory, whatever group its
 * reader is in. */
bool fuser_is_view(const GraphTensor *tensor);
/* Some node, done or among `live` (which may be NULL), reads the tensor through a view. */
bool fuser_is_viewed(const Fuser *fuser, const GPtrArray *live, const GraphTensor *tensor);

/* ---- readers of live nodes: later.c ---- */

/* Readers of `old`, all of which come later, read `by`. */
void fuser_replace_input(Fuser *fuser, const GraphTensor *old, GraphTensor *by);
/* Who of the live nodes reads the tensor itself, once or several times each, and maybe nodes that are gone, which stood in front of its
 * readers; NULL: nobody. Who changes live nodes says so: a node that came, one tensor in place of another
 * (fuser_replace_input()), or that all may be otherwise. */
GPtrArray *fuser_later_readers(Fuser *fuser, const GraphTensor *tensor);
void fuser_add_reader(Fuser *fuser, GraphNode *node);
void fuser_forget_readers(Fuser *fuser);

/* ---- who computes and reads what: index.c ---- */

void fuser_index(Fuser *fuser);
/* Who computes each tensor, by its index, of the nodes that rewrites still change: g_free. */
GraphNode **fuser_live_producers(const Fuser *fuser);
/* Who of them computes the tensor where it lies; NULL: nobody, or it is a view or made of parts. */
GraphNode *fuser_computes(GraphNode *const *producers, const GraphTensor *tensor);
void fuser_unindex(Fuser *fuser);
/* first .. last - 1 of a tensor's readers, which are in the order of nodes: all, or, where there are very many, those nearest to the node. */
void fuser_nearest_readers(const GPtrArray *readers, const GraphNode *node, unsigned *first, unsigned *last);
/* The group of a node; NULL: it has none yet. */
Group *fuser_group(const Fuser *fuser, const GraphNode *node);
/* Nodes that write a tensor, which may be NULL: one, none, or one for each of its parts. writer() is NULL for what the
 * graph is given. */
unsigned fuser_n_writers(const GraphTensor *tensor);
GraphNode *fuser_writer(const Fuser *fuser, const GraphTensor *tensor, unsigned i);
/* Must the node that reads the tensor wait until the kernel of its producer has written it? So it is with views,
 * with elements at other indices, and with further results, such as a row's mean: elementwise steps go on from the
 * first one only. */
bool fuser_in_memory_only(const GraphNode *reader, const GraphTensor *tensor, const GraphNode *producer);
/* Does the node take the tensor's elements at other points than its own? Of what it gathers with an index for each of its
 * points the indices are at the point. */
bool fuser_points_elsewhere(const GraphNode *reader, const GraphTensor *tensor);
/* The node reads what must have left the group's kernel before. */
bool fuser_reads_back(const Fuser *fuser, const GraphNode *node, const Group *group);
/* Nobody but `node` reads the tensor, and the graph does not give it. */
bool fuser_is_private(const Fuser *fuser, const GraphTensor *tensor, const GraphNode *node);

/* ---- groups: groups.c ---- */

/* A group of this node alone. */
Group *fuser_open_group(Fuser *fuser, GraphNode *node);
/* A group of several nodes that were found to be one kernel before others had groups. */
void fuser_open_chain(Fuser *fuser, Group *group);
/* Does the node go into such a group? */
bool fuser_is_chained(const Fuser *fuser, const GraphNode *node);
/* The node is the group's, last in its list. */
void fuser_join(Fuser *fuser, Group *group, GraphNode *node);
/* All nodes of another group, in order; that is gone. */
void fuser_absorb(Fuser *fuser, Group *group, Group *other);
/* In the order of the nodes. */
void fuser_sort(GPtrArray *nodes);
/* A further node, which joins a group next. */
void fuser_add_node(Fuser *fuser, GraphNode *node);
/* Calls `visit` for each group that the group reads from, for each tensor. */
void fuser_visit_sources(Fuser *fuser, Group *group, void (*visit)(Fuser *, Group *, Group *, void *),
                         void *data);
/* The group has new nodes: it, and what depends on it, rises above what it reads. Should groups wait for each
 * other, they stop at a level that no others reach. */
void fuser_settle_levels(Fuser *fuser, Group *group);
/* The group reads what the other one computes, itself or by way of groups between. */
bool fuser_waits_for(Fuser *fuser, Group *group, const Group *other);
/* Joining `node` to `group` closes no cycle: none of its other producers' groups depends on the group. */
bool fuser_is_acyclic(Fuser *fuser, const GraphNode *node, const Group *group, const Group *absorbed);
/* Shape over which a group's elementwise nodes work. */
const GraphTensor *group_shape(const Group *group);

/* ---- kernels beside each other: siblings.c ---- */

/* Has the group elementwise nodes only? */
bool fuser_is_elementwise(const Group *group);
/* Nothing of one kernel waits for the other. */
bool fuser_are_apart(Fuser *fuser, const Group *a, const Group *b);

/* ---- programs and their judge: judge.c ---- */

/* The program of a node alone; `result` leaves it even if nobody is known to read it yet. */
const Program *fuser_program(Fuser *fuser, GraphNode *node, const GraphTensor *result);
/* The judge's verdict on programs that would run one behind the other, and on the program of a group, of which
 * `result` (may be NULL) leaves in any case. */
ProgramVerdict fuser_judge_all(const Fuser *fuser, const Program *const *programs, unsigned n, bool priced);
ProgramVerdict fuser_judge(Fuser *fuser, const Group *group, const GraphTensor *result, bool priced);
/* Does the group's kernel also compute a reduction to parts, and `before`, what stands in front of it? If not a note says why
 * `what` has a kernel of its own. */
bool fuser_takes_reduction(Fuser *fuser, const Group *group, GPtrArray *before, GraphNode *parts,
                           const char *what);

/* ---- fused operators: assemble.c ---- */

/* The program of a group, called `name` (may be NULL), of which `result` (may be NULL) leaves in any case. */
Program *fuser_group_program(Fuser *fuser, const Group *group, const GraphTensor *result, const char *name);
/* The fused operator of a group's program, or of one of those that it is divided into. NULL and *error if no family
 * takes the program: then it may not be grouped so. */
FusedOperator *fuser_assemble(Fuser *fuser, const Group *group, const Program *program, GError **error);
