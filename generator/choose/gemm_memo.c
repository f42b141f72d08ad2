#include "generator/choose/gemm_memo.h"

typedef struct Completed {
  GemmCandidate tile, completed;
  bool legal;
} Completed;

struct GemmMemo {
  GMutex mutex;
  GHashTable *known; /* Completed *, by its tile */
};

/* By what candidates differ in most. */
static guint hash_tile(gconstpointer memory)
{
  const GemmCandidate *tile = memory;
  guint shape = tile->bm * 257 + tile->bn,
        sharing = tile->cluster * 31 + tile->across * 7 + tile->stream + tile->slices * 61;
  return ((shape * 31 + sharing) * 31 + tile->split * 16 + tile->blocks) * 4 + tile->alternate * 2 +
         tile->swapped;
}

static gboolean same_tile(gconstpointer a, gconstpointer b)
{
  return gemm_candidate_same(a, b);
}

GemmMemo *gemm_memo_new(void)
{
  GemmMemo *memo = g_new0(GemmMemo, 1);
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

bool gemm_memo_complete(const Chooser *chooser, GemmCandidate tile, GemmCandidate *completed)
{
  GemmMemo *memo = chooser->memo;
  if (memo) g_mutex_lock(&memo->mutex);
  Completed *known = memo ? g_hash_table_lookup(memo->known, &tile) : NULL;
  bool legal = known && known->legal;
  if (known) *completed = known->completed;
  if (!known) {
    *completed = gemm_candidate(chooser, tile, true);
    legal = gemm_candidate_legal(chooser, completed);
  }
  if (memo && !known) {
    known = g_new(Completed, 1);
    *known = (Completed){tile, *completed, legal};
    g_hash_table_insert(memo->known, &known->tile, known);
  }
  if (memo) g_mutex_unlock(&memo->mutex);
  return legal;
}
