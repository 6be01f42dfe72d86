// Rows of a table by number:  y_i = table[ids_i].
//
// Shapes: table entries x width, ids below `entries` (checked), y ids.size() x width. The gradient
// is added to the table's, in the order of the ids whichever thread does it.
#ifndef LETHE_CORE_MODEL_EMBEDDING_H_
#define LETHE_CORE_MODEL_EMBEDDING_H_

#include <cstdint>
#include <span>

#include "core/model/matmul.h"
#include "core/model/matrix.h"

namespace lethe::model {

template <typename T>
void EmbeddingForward(Team* team,
                      In<T> table,
                      std::span<const uint32_t> ids,
                      Matrix<T> y,
                      Store store);

template <typename T>
void EmbeddingBackward(Team* team, std::span<const uint32_t> ids, In<T> y_bar, Matrix<T> table_bar);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_EMBEDDING_H_
