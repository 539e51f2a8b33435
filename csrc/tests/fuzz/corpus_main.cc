// Stands in for libFuzzer where there is none: the files named on the command
// line, or else inputs from a fixed seed, so that every build runs the targets.
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                           bytes.size());
  }
  if (argc > 1) return 0;
  std::mt19937_64 random(1);
  for (int round = 0; round < 200000; ++round) {
    // Few distinct bytes make runs and repetitions, and so codes that are
    // valid.
    const std::uint64_t distinct = std::uint64_t{1} << (1 + random() % 8);
    std::vector<std::uint8_t> bytes(random() % 200);
    for (auto& byte : bytes) {
      byte = static_cast<std::uint8_t>(random() % distinct);
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}
