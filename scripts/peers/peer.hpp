// What the libraries of this folder share: a table of variants behind the C interface of adlgen/peer.h.
#pragma once
#include <adlgen/peer.h>
#include <cstdio>
#include <cuda_runtime.h>
#include <memory>
#include <string>
#include <vector>

namespace peers {

// A variant ready for some addresses.
struct Prepared {
  virtual ~Prepared() = default;
  // Empty: it was queued.
  virtual std::string launch(cudaStream_t stream) = 0;
};

using Problem = adlgen_peer_problem;
using Operands = adlgen_peer_operands;

struct Variant {
  std::string name;
  bool (*takes)(const Problem &problem, int parameter);
  // nullptr, with a reason in `message`.
  std::unique_ptr<Prepared> (*prepare)(const Problem &problem, const Operands &operands, int parameter,
                                       std::string &message);
  int parameter; // what the variant was registered with: a split of k, say
};

// Each library defines these.
extern const char *const name;
extern const char *const library;
std::vector<Variant> variants_of(const Problem &problem);

inline bool along_columns(const adlgen_peer_matrix &matrix) { return matrix.column_step == 1; }
inline bool along_rows(const adlgen_peer_matrix &matrix) { return matrix.row_step == 1; }
// The step that is not 1, in elements.
inline int64_t leading(const adlgen_peer_matrix &matrix)
{
  return along_columns(matrix) ? matrix.row_step : matrix.column_step;
}

// A row-major, B by columns (k contiguous in both) or by rows, D row-major, one product, rows aligned.
inline bool is_plain(const Problem &p, int type, int type_d, bool b_by_columns, int alignment)
{
  return p.batch == 1 && p.a.type == type && p.b.type == type && p.d.type == type_d && along_columns(p.a) &&
         along_columns(p.d) && (b_by_columns ? along_rows(p.b) : along_columns(p.b)) &&
         leading(p.a) % alignment == 0 && leading(p.b) % alignment == 0 && leading(p.d) % alignment == 0 &&
         p.k % alignment == 0 && p.n % alignment == 0;
}

} // namespace peers
