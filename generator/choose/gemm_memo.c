#include "generator/choose/gemm_memo.h"
#include "ir/resources.h"

#define MOST_BLOCKS 8 /* of the clusters that are tried */

typedef struct Completed {
  GemmCandidate tile, completed;
  bool legal;
} Completed;

struct GemmMemo {
  CostGemm shapes[2]; /* the operator's, and with operands swapped (swap-AB), where it can be turned */
  unsigned clusters[MOST_BLOCKS + 1]; /* that run at once, by the blocks of one */
  GMutex mutex;
  GHashTable *known; /* Completed *, by its tile */
};

/* By what candidates differ in most. */
static guint hash_tile(gconstpointer memory)
{
  const GemmCandidate *tile = memory;
  guint shape = tile->bm * 257 + tile->bn,
        sharing = tile->cluster_m * 31 + tile->cluster_n * 7 + tile->stream_k + tile->slices * 61;
  return ((shape * 31 + sharing) * 31 + tile->split_k * 16 + tile->blocks) * 4 + tile->pingpong * 2 +
         tile->swapped;
}

static gboolean same_tile(gconstpointer a, gconstpointer b)
{
  return gemm_candidate_same(a, b);
}

GemmMemo *gemm_memo_new(const Problem *problem)
{
  GemmMemo *memo = g_new0(GemmMemo, 1);
  for (unsigned swapped = 0; swapped <= (problem->turned != NULL); swapped++)
    memo->shapes[swapped] = gemm_operator_shape(problem, swapped);
  for (unsigned blocks = 1; blocks <= MOST_BLOCKS; blocks++)
    memo->clusters[blocks] = resident_clusters(problem->gpu, blocks, gemm_candidate_sms(problem));
  g_mutex_init(&memo->mutex);
  memo->known = g_hash_table_new_full(hash_tile, same_tile, NULL, g_free);
  return memo;
}

void gemm_memo_free(GemmMemo *memo)
{
  if (!memo) return;
  g_hash_table_unref(memo->known);
  g_mutex_clear(&memo->mutex);
  g_free(memo);
}

CostGemm gemm_memo_shape(const Problem *problem, bool swapped)
{
  return problem->memo ? problem->memo->shapes[swapped] : gemm_operator_shape(problem, swapped);
}

unsigned gemm_memo_clusters(const Problem *problem, unsigned blocks)
{
  bool known = problem->memo && blocks <= MOST_BLOCKS;
  return known ? problem->memo->clusters[blocks]
               : resident_clusters(problem->gpu, blocks, gemm_candidate_sms(problem));
}

bool gemm_memo_complete(const Problem *problem, GemmCandidate tile, GemmCandidate *completed)
{
  GemmMemo *memo = problem->memo;
  if (memo) g_mutex_lock(&memo->mutex);
  Completed *known = memo ? g_hash_table_lookup(memo->known, &tile) : NULL;
  bool legal = known && known->legal;
  if (known) *completed = known->completed;
  if (!known) {
    *completed = gemm_candidate(problem, tile, true);
    legal = gemm_candidate_legal(problem, completed);
  }
  if (memo && !known) {
    known = g_new(Completed, 1);
    *known = (Completed){tile, *completed, legal};
    g_hash_table_insert(memo->known, &known->tile, known);
  }
  if (memo) g_mutex_unlock(&memo->mutex);
  return legal;
}
