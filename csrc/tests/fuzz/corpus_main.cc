// Replaces libFuzzer where it is missing: runs the target over the seeds in the
// given folder, over changed seeds, and over random inputs. All inputs follow
// from a fixed seed, so that every build runs the same.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

constexpr int kRounds = 100000;

std::vector<Bytes> ReadSeeds(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file),
                       std::istreambuf_iterator<char>());
  }
  return seeds;
}

// Few distinct bytes give runs and repetitions, and so valid codes.
Bytes MakeUp(Random& random) {
  const std::uint64_t distinct = std::uint64_t{1} << (1 + random() % 8);
  Bytes bytes(random() % 200);
  for (auto& byte : bytes)
    byte = static_cast<std::uint8_t>(random() % distinct);
  return bytes;
}

// One to three bytes are others, or the end is missing.
Bytes Change(Bytes bytes, Random& random) {
  if (bytes.empty()) return bytes;
  if (random() % 8 == 0) bytes.resize(random() % bytes.size());
  for (auto changes = random() % 4; changes > 0 && !bytes.empty(); --changes) {
    std::uint8_t& byte = bytes[random() % bytes.size()];
    byte = static_cast<std::uint8_t>(
        random() % 2 == 0 ? random() : byte ^ (1u << random() % 8));
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const auto seeds = argc > 1 ? ReadSeeds(argv[1]) : std::vector<Bytes>();
  for (const Bytes& seed : seeds) {
    LLVMFuzzerTestOneInput(seed.data(), seed.size());
  }
  Random random(1);
  for (int round = 0; round < kRounds; ++round) {
    const Bytes bytes = round % 2 == 0 || seeds.empty()
                            ? MakeUp(random)
                            : Change(seeds[random() % seeds.size()], random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}
