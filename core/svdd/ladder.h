// The precision ladder above double-double.
#ifndef LETHE_CORE_SVDD_LADDER_H_
#define LETHE_CORE_SVDD_LADDER_H_

namespace lethe::svdd {

// Bits of the rungs. The first decides near-duplicates down to about 1e-12; each doubles the last.
inline constexpr int kLadder[] = {320, 640, 1280, 2560, 5120, 10240};

// What is closer to a tie than 2^-kTieBits of its scale, with an error bound below that, is a tie.
// The products of two of the smallest kernel values that a double can hold are above 2^-2200.
// Near-duplicates need more (Solver::TieBits). What the top rung leaves open is not published.
inline constexpr int kTieBits = 2400;

// Reported as the precision of a state that double-double decided.
inline constexpr int kDoubleDoubleBits = 106;

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_LADDER_H_
