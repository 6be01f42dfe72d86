// The precision ladder above double-double.
#ifndef LETHE_CORE_SVDD_LADDER_H_
#define LETHE_CORE_SVDD_LADDER_H_

namespace lethe::svdd {

// Bits of the rungs. The first decides near-duplicates down to about 1e-12; each doubles the last;
// the top one separates anything that a double can hold from a tie for all but contrived keys.
inline constexpr int kLadder[] = {320, 640, 1280, 2560, 5120};
inline constexpr int kTopRung = 5120;

// What is closer to a tie than 2^-kTieBits of its scale, with an error bound below that, is a tie.
inline constexpr int kTieBits = 256;

// Reported as the precision of a state that double-double decided.
inline constexpr int kDoubleDoubleBits = 106;

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_LADDER_H_
