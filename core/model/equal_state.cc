#include "core/model/equal_state.h"

#include <algorithm>
#include <cmath>

namespace lethe::model {

double StateBytes(const MixerOptions& options, size_t n, double kept, size_t number_bytes) {
  const double width = static_cast<double>(options.width);
  const double heads = static_cast<double>(options.heads);
  const double token = 2 * width;
  double numbers = 0;
  switch (options.kind) {
    case AttentionKind::kFull:
      numbers = static_cast<double>(n) * token;
      break;
    case AttentionKind::kWindow:
      numbers = static_cast<double>(std::min(options.window, n)) * token;
      break;
    case AttentionKind::kHybrid:
      numbers = static_cast<double>(std::min(options.chunk, n)) * token + kept * (token + heads);
      break;
    case AttentionKind::kDeltaNet:
      numbers = width * width / heads;
      break;
    case AttentionKind::kLinear:
    case AttentionKind::kLinearDecay:
      numbers = width * width / heads + width;
      break;
  }
  return numbers * static_cast<double>(number_bytes);
}

size_t WindowOfBytes(const MixerOptions& options, double bytes, size_t number_bytes) {
  const double token = 2 * static_cast<double>(options.width) * static_cast<double>(number_bytes);
  return static_cast<size_t>(std::max(1.0, std::ceil(bytes / token)));
}

}  // namespace lethe::model
