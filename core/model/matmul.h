// Products of matrices, the same bits in every run.
//
//     Multiply             c = a b       or c += a b
//     MultiplyTransposed   c = a b'      or c += a b'
//     TransposedMultiply   c = a'b       or c += a'b
//
// Requires shapes that fit (checked) and that c overlaps neither a nor b.
//
// Deterministic: Eigen's product depends on the sizes of its blocks alone once its reduction is
// never split by the size of a cache and no entry is reached by a path that looks at addresses.
// Both are kept from happening here: reductions go in pieces of kDepth, products too small for
// Eigen's blocks are plain loops, and c is cut into tiles of one fixed size, whichever thread takes
// them.
//
// Cost: 2 rows columns depth operations, near the machine's limit from about 32 rows on.
// Threads: with a team, its members share the tiles; without one the caller does them.
#ifndef LETHE_CORE_MODEL_MATMUL_H_
#define LETHE_CORE_MODEL_MATMUL_H_

#include "core/base/team.h"
#include "core/model/matrix.h"

namespace lethe::model {

enum class Store { kSet, kAdd };

template <typename T>
void Multiply(Team* team, In<T> a, In<T> b, Matrix<T> c, Store store);
template <typename T>
void MultiplyTransposed(Team* team, In<T> a, In<T> b, Matrix<T> c, Store store);
template <typename T>
void TransposedMultiply(Team* team, In<T> a, In<T> b, Matrix<T> c, Store store);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_MATMUL_H_
