// Prints lethed(8); run by the build.
#include <cstdio>

#include "server/command_line.h"

int main() { return std::fputs(lethe::server::ManualPage().c_str(), stdout) < 0 ? 1 : 0; }
