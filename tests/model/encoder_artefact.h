// Artefacts of encoders as they are before training: random projections, or the identity where the
// dimensions are equal.
#ifndef LETHE_TESTS_MODEL_ENCODER_ARTEFACT_H_
#define LETHE_TESTS_MODEL_ENCODER_ARTEFACT_H_

#include <string>

#include "core/model/encoder_trainer.h"

namespace lethe::model {

template <typename T = float>
std::string EncoderArtefact(const EncoderOptions& encoder, uint64_t seed = 1) {
  EncoderTrainerOptions options;
  options.encoder = encoder;
  options.seed = seed;
  return EncoderTrainer<T>::Create(options, options.memory + options.local).value().Artefact();
}

}  // namespace lethe::model

#endif  // LETHE_TESTS_MODEL_ENCODER_ARTEFACT_H_
