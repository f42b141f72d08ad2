/* What the files of instruction handlers share: their decode functions, which the opcode table names. */
#pragma once
#include "simulator/flow.h"

Space take_space(Decoder *d);
/* Memory order and scope of the instruction, into Inst.order and Inst.scope. */
void take_order(Decoder *d, MemoryOrder otherwise);
/* operations of atomics and reductions */
enum { ATOM_ADD, ATOM_MIN, ATOM_MAX, ATOM_AND, ATOM_OR, ATOM_XOR, ATOM_EXCH, ATOM_CAS, ATOM_INC, ATOM_DEC };
uint64_t atomic_value(PtxType type, int operation, uint64_t a, uint64_t b, uint64_t c);
Step run_nop(Warp *w, const Inst *in, uint32_t mask);

/* exec_span.c: an access of all 32 lanes at once; false: nothing has been done, it must go lane by lane */
bool load_span(Warp *w, const Inst *in);
bool store_span(Warp *w, const Inst *in);

/* exec_memory.c */
void decode_load_store(Decoder *d, int is_store);
void decode_atomic(Decoder *d, int is_reduction);
void decode_cvta(Decoder *d, int argument);
void decode_isspacep(Decoder *d, int argument);
void decode_mapa(Decoder *d, int is_rank);
void decode_hint(Decoder *d, int argument);

/* exec_integer.c: operations, also the arguments of their rows in the opcode table */
enum {
  OP_ADD,
  OP_SUB,
  OP_MUL,
  OP_MAD,
  OP_MIN,
  OP_MAX,
  OP_DIV,
  OP_REM,
  OP_ABS,
  OP_NEG,
  OP_AND,
  OP_OR,
  OP_XOR,
  OP_NOT,
  OP_CNOT,
  OP_SAD,
  OP_MULHI,
  OP_MADHI,
  OP_SHL,
  OP_SHR,
  OP_COUNT
};
enum { BIT_POPC, BIT_CLZ, BIT_BFIND, BIT_BREV };
enum {
  FIELD_BFE,
  FIELD_BFI,
  FIELD_PRMT,
  FIELD_SHF,
  FIELD_LOP3,
  FIELD_BMSK,
  FIELD_SZEXT,
  FIELD_FNS,
  FIELD_DP4A,
  FIELD_DP2A
};
bool decode_integer(Decoder *d, int operation, PtxType type); /* false: not an integer type */
bool decode_carry(Decoder *d, int operation, PtxType type, bool carry_in, bool carry_out);
void decode_logic(Decoder *d, int operation);
void decode_mul24(Decoder *d, int has_addend);
void decode_with_carry(Decoder *d, int operation);
void decode_bits(Decoder *d, int operation);
void decode_field(Decoder *d, int operation);

/* exec_float.c, exec_move.c, exec_convert.c */
void decode_arithmetic(Decoder *d, int operation);
void decode_function(Decoder *d, int which);
void decode_copysign(Decoder *d, int argument);
void decode_testp(Decoder *d, int argument);
void decode_mov(Decoder *d, int argument);
void decode_selp(Decoder *d, int argument);
void decode_slct(Decoder *d, int argument);
void decode_compare(Decoder *d, int is_set);
void decode_convert(Decoder *d, int argument);
void decode_convert_pack(Decoder *d, int argument);

/* exec_warp.c, barrier.c */
void decode_shuffle(Decoder *d, int argument);
void decode_vote(Decoder *d, int argument);
void decode_match(Decoder *d, int argument);
void decode_redux(Decoder *d, int argument);
void decode_elect(Decoder *d, int argument);
void decode_activemask(Decoder *d, int argument);
void decode_warp_barrier(Decoder *d, int argument);
void decode_barrier(Decoder *d, int always_aligned);
void decode_cluster_barrier(Decoder *d, int argument);
void decode_mbarrier(Decoder *d, int argument);
void decode_fence(Decoder *d, int argument);

/* exec_copy.c */
void decode_copy(Decoder *d, int argument);
void decode_copy_group(Decoder *d, int operation);
void decode_copy_arrive(Decoder *d, int argument);
/* exec_bulk.c */
void decode_bulk(Decoder *d, int is_reduction);
void decode_bulk_tensor(Decoder *d, int is_reduction);
void decode_bulk_group(Decoder *d, int operation);
/* exec_store_async.c */
void decode_store_async(Decoder *d, int is_reduction);

/* exec_video.c */
void decode_video(Decoder *d, int argument);

/* tensormap_replace.c */
void decode_tensormap_replace(Decoder *d, int argument);
void decode_tensormap_copy(Decoder *d, int argument);

/* exec_matrix.c, exec_product.c */
void decode_matrix_move(Decoder *d, int is_store);
void decode_movmatrix(Decoder *d, int argument);
void decode_mma(Decoder *d, int argument);
void decode_mma_general(Decoder *d, int is_sparse); /* exec_mma_general.c */
void decode_group_product(Decoder *d, int argument);
void decode_product_group(Decoder *d, int operation);
/* exec_wmma.c */
void decode_wmma_memory(Decoder *d, int is_store);
void decode_wmma(Decoder *d, int argument);
void decode_setmaxnreg(Decoder *d, int argument);
void decode_dependency(Decoder *d, int argument);
