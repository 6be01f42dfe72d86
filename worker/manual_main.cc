// Prints lethe-worker(8).
#include <cstdio>

#include "worker/options.h"

int main() { return std::fputs(lethe::worker::ManualPage().c_str(), stdout) < 0; }
