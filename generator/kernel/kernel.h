/* One kernel of a fused operator: template + choice -> instantiated TILE module.
 *
 * The generator adds to a template what only the graph knows: the tensors of the signature, the prologue,
 * epilogue or body sub-kernels (the fused steps as TILE operations), and the run-time scalars. */
#pragma once
#include "adl/gpu.h"
#include "generator/fusion/fusion.h"
#include "generator/kernel/steps.h"
#include "generator/program/family.h"
#include "ir/ir.h"

#define CHOICE_MAX_PARAMETERS  40
#define CHOICE_MAX_ASSUMPTIONS 24

/* What a variant's guard has checked beyond the graph's facts. */
typedef struct Assumption {
  const Symbolic *expression; /* is a multiple of `multiple` and, if maximum > 0, at most `maximum` */
  int64_t multiple, maximum;
} Assumption;

/* A tensor's address is a multiple of so many bytes, as the guard has checked. */
typedef struct ChoiceAlign {
  const GraphTensor *tensor;
  unsigned align;
  const struct ChoiceAlign *next;
} ChoiceAlign;

typedef struct ChoiceParameter {
  const char *name;
  IrExprKind kind; /* EXPR_INT, EXPR_FLOAT, EXPR_NAME (types too) */
  int64_t integer;
  double number;
  const char *text;
  bool own; /* read by the generator: the template has no such parameter */
} ChoiceParameter;

/* How one variant is generated. */
typedef struct Choice {
  const char *template_name;
  const char *suffix; /* of the kernel's name: "128x128x64" */
  ChoiceParameter parameters[CHOICE_MAX_PARAMETERS];
  unsigned n_parameters;
  const Symbolic *guard; /* NULL: always */
  Assumption assumptions[CHOICE_MAX_ASSUMPTIONS];
  unsigned n_assumptions;
  const FusedOperator *direct; /* GEMM: it reads operands as they lie, which others read copies of; NULL: the
                                  fused operator itself */
  const ChoiceAlign
      *aligned; /* tensors of which more is known than the graph says; of one the first counts */
  bool
      bytes; /* 8-bit floats are read and written as bytes, which steps convert: the GPU has no instruction */
  bool warpgroups; /* GEMM: by TMA copies and warpgroup MMAs */
  bool keep_a;     /* GEMM: A is to stay in L2 while B streams through it */
  bool exact;      /* dry runs of it count registers, too: all passes are run, of a kernel that is verified */
  bool alone;      /* it gains nothing from starting while the launch before it runs */
  bool overlap;    /* other launches of the plan may run beside it */
  unsigned kernel_of;    /* position of the variant whose kernel it launches: its own, or an earlier one */
  unsigned vector;       /* ELEMENTWISE: outputs a thread takes at once */
  bool ragged;           /* of a row; the last of a row may be fewer, and inputs lie anywhere */
  uint64_t single;       /* bit per input whose elements are read one by one, whatever others are read by */
  bool narrow;           /* ELEMENTWISE: 32 bits hold all indices, as the guard has checked */
  bool narrow_inputs;    /* and all places in what it walks through */
  const char *apart;     /* a parameter: who forces it means a variant whose template has it; NULL: none */
  unsigned stages;       /* for people */
  const char *tile_text; /* for people */
} Choice;

void choice_set_int(Choice *choice, const char *name, int64_t value);
/* A parameter of the generator itself, beside the template's. */
void choice_set_own(Choice *choice, const char *name, int64_t value);
void choice_set_own_name(Choice *choice, const char *name, const char *value);
void choice_set_float(Choice *choice, const char *name, double value);
void choice_set_name(Choice *choice, const char *name, const char *value);
/* Are the input's elements read one by one? */
static inline bool choice_reads_single(const Choice *choice, unsigned input)
{
  return input < CHAR_BIT * sizeof choice->single && (choice->single >> input & 1);
}
/* Bytes that the tensor's address is a multiple of, by the graph or the guard. */
unsigned choice_align(const Choice *choice, const GraphTensor *tensor);
const ChoiceParameter *choice_parameter(const Choice *choice, const char *name);
/* An integer parameter's value, or `otherwise` if the choice has no such parameter. */
int64_t choice_int(const Choice *choice, const char *name, int64_t otherwise);

/* Sub-kernels that kernels link: read once, then only read from. Marks of what was linked point into their
 * sources, so they outlive every kernel that was built with them. */
typedef struct KernelLibraries {
  IrModule *math, *math_narrow, *math_wide, *operators, *reducers, *groups;
  IrModule *math_fast; /* NULL unless fast forms are allowed */
  GMutex mutex;
  GHashTable *templates; /* IrModule * by name, read when the first kernel asks; under the mutex */
} KernelLibraries;

KernelLibraries *kernel_libraries_read(bool fast, GError **error);
void kernel_libraries_free(KernelLibraries *libraries);
/* Copies into the module what it calls and lacks. */
bool kernel_libraries_link(const KernelLibraries *libraries, IrModule *module, GError **error);
/* The same for a text of somebody's own: the libraries are read only if it lacks something. */
bool kernel_link_text(IrModule *module, bool fast, GError **error);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(KernelLibraries, kernel_libraries_free)

/* The kernel being built; lives in the module's arena. */
typedef struct KernelBuild {
  const FusedOperator *op;
  const Graph *graph;
  const Choice *choice;
  Arena *expressions; /* of symbolic expressions: outlives the build, for the plan keeps them */
  IrModule *module;
  IrFunction *kernel;
  bool fast;            /* fast forms of functions are allowed */
  GHashTable *bindings; /* parameter of the template -> IrExpr*; writers add to what the choice has */
  GHashTable *dims;     /* name of a kernel dim -> const Symbolic* over the graph's symbols */
  GHashTable *tensors;  /* name of a tensor parameter -> const GraphTensor*; NULL: the kernel has none */
  IrValue **inputs;     /* by op->inputs: the kernel's tensor parameter, or NULL */
  IrValue **outputs;    /* by op->outputs */
  const IrModule *math, *math_narrow, *math_wide, *math_fast, *operators; /* of the libraries */
  const KernelLibraries *libraries;
  GError **error;
} KernelBuild;

/* Instantiates; `name` becomes the entry. New symbolic expressions live in `expressions`. NULL and *error on
 * failure. Free with kernel_build_free. */
KernelBuild *kernel_build(const FusedOperator *op, const Graph *graph, const Choice *choice, const char *name,
                          KernelLibraries *libraries, Arena *expressions, GError **error);
void kernel_build_free(KernelBuild *build);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(KernelBuild, kernel_build_free)
/* An integer expression over the kernel's dims as one over the graph's symbols, in `arena`; NULL if it has no
 * form. */
const Symbolic *kernel_symbolic(const KernelBuild *build, Arena *arena, const IrExpr *expr);

/* ---- between kernel*.c only ---- */

/* A kernel expression for a graph expression: a constant, a dim of the kernel that stands for it, or a new
 * dim `hint`. */
IrExpr *kernel_dim(KernelBuild *build, const Symbolic *expression, const char *hint, NumberType type);
/* The same, a dim even where it is a constant. */
IrExpr *kernel_named_dim(KernelBuild *build, const Symbolic *expression, const char *hint, NumberType type);
/* The template's tile loop. */
IrOp *kernel_tiles(const KernelBuild *build);
/* Another extent in place of a dim that the template declares: in an op with its regions, and in a type; either may be NULL. */
void kernel_replace_dim(KernelBuild *build, IrOp *op, IrType *type, const char *name, IrExpr *with);
/* Binds a dim that the template declares: constants replace it, else it stays. */
void kernel_bind_dim(KernelBuild *build, const char *name, const Symbolic *expression);
/* Tensors of a kernel are named by their positions among the fused operator's inputs and outputs ("in_c",
 * "out_a"), a product's operands as its template does: nothing in a kernel's text names the graph that it was
 * made for, so graphs and layers share it. */
#define KERNEL_INPUT  "in"
#define KERNEL_OUTPUT "out"
/* Adds a tensor parameter. dims and strides: rank expressions over graph symbols (stride constant 0 =
 * broadcast: extent 1). */
IrValue *kernel_add_tensor(KernelBuild *build, const char *side, unsigned position, const GraphTensor *tensor,
                           unsigned rank, const Symbolic *const *dims, const Symbolic *const *strides);
/* Adds all inputs but operands of contractions, and outputs, over the operator's dims, `lead` more dims of 1 in
 * front. */
void kernel_add_operands(KernelBuild *build, unsigned lead);

#define MOST_ANCHORS 4

/* Writes steps [first, last) and what they need into a sub-kernel. */
typedef struct StepScope {
  KernelBuild *build;
  IrFunction *function;
  IrBuilder builder;
  IrExpr **step_values;          /* by op->steps */
  IrExpr **input_values;         /* by op->inputs, loaded at first use */
  IrExpr *anchors[MOST_ANCHORS]; /* by index: all products of one A; of attention both, and a value of rows */
  IrExpr **reduced;              /* of a row program: by OPERAND_REDUCED index */
  IrValue **tensors;             /* by op->inputs then op->outputs: the sub-kernel's tensor parameters */
  IrExpr *(*load)(struct StepScope *scope, unsigned input);
  IrExpr *(*index)(struct StepScope *scope, unsigned value); /* NULL: no operand is an index */
  /* An operand as wide as the step's value wants it; NULL: all broadcast as they are. */
  IrExpr *(*fit)(struct StepScope *scope, const FusedStep *step, IrExpr *operand);
  bool
      approximate; /* the hardware's approximations will do, and steps' results need be no better than `least` */
  StepPrecision least;
  void *data;
} StepScope;
bool scope_open(StepScope *scope, KernelBuild *build, const char *name);
/* From here on in a region of an `if`: steps and inputs are computed and read once more, so nothing of what was elsewhere is taken. */
void scope_enter(StepScope *scope, IrRegion *region);
/* scope_open() at the end of a region of the kernel itself, whose tensors have been added. */
void scope_open_region(StepScope *scope, KernelBuild *build, IrRegion *region);
/* Tensor parameters of the sub-kernel, after its other parameters; appends them to every call of it. */
void scope_add_tensors(StepScope *scope);
/* Ends the sub-kernel with its result (NULL: none) and lets it name the kernel's dims. */
void scope_close(StepScope *scope, IrExpr *result);
bool scope_write_steps(StepScope *scope, bool prologue);
bool scope_write_step(StepScope *scope, unsigned i);
IrExpr *scope_operand(StepScope *scope, const FusedOperand *operand);
/* The value as the tensor of output i holds it; immediates take the type of scope_output_type first. */
IrExpr *scope_stored(StepScope *scope, unsigned i, IrExpr *value);
NumberType scope_output_type(const StepScope *scope, unsigned i);
/* The program may put an output into the memory of an input that lies as it does (docs/runtime.md). */
bool kernel_may_share_memory(const FusedOperator *op, const GraphTensor *input);
/* Rows of a tile of so many that are loaded of an input whose rows repeat: one, but all where there is one row in all, which an
 * output may be: threads of the others, which store nothing, read nothing then. */
int64_t scope_rows_loaded(const StepScope *scope, unsigned input, int64_t rows);
/* Loads a tile of two extents of an input at `access`. */
IrExpr *scope_load_tile(StepScope *scope, unsigned input, IrExpr *access, const int64_t *extent);

StepWriter kernel_steps(KernelBuild *build, IrBuilder *builder);
/* Writers, one for each family: what the template leaves to the graph. */
#define FAMILY(name, ...) bool kernel_write_##name(KernelBuild *build);
#include "generator/program/families.def"
#undef FAMILY
/* The prologue of a template of rows: the steps in front of reductions, or behind, and the tile of `source` in type `compute`. */
bool kernel_write_row_prologue(KernelBuild *build, const FusedOperand *source, NumberType compute,
                               bool in_front);
/* Its epilogue: the steps behind, and stores. */
bool kernel_write_row_epilogue(KernelBuild *build, NumberType compute);
bool kernel_write_transpose(KernelBuild *build); /* elementwise by tiles of two dimensions */
