// Runs every registered test, or those whose names contain an argument, prints
// failures, and exits with 1 if there are any, or with 77 (skipped) if
// FEDPLUG_SIMD names an unavailable level.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "core/simd/level.h"
#include "tests/test.h"

namespace fedplug::testing {
namespace {

int failures_of_test = 0;

std::vector<std::string>& Traces() {
  static std::vector<std::string> traces;
  return traces;
}

bool Passes(const TestCase& test) {
  failures_of_test = 0;
  try {
    test.body();
  } catch (const std::exception& error) {
    Fail(test.name.c_str(), 0,
         std::string("an exception escaped: ") + error.what());
  }
  return failures_of_test == 0;
}

bool IsAskedFor(const TestCase& test, const std::vector<std::string>& parts) {
  return parts.empty() ||
         std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
           return test.name.find(part) != std::string::npos;
         });
}

// The requested tests.
std::vector<TestCase> Tests(const std::vector<std::string>& parts) {
  std::vector<TestCase> tests;
  for (const TestCase& test : AllTests()) {
    if (IsAskedFor(test, parts)) tests.push_back(test);
  }
  return tests;
}

}  // namespace

std::vector<TestCase>& AllTests() {
  static std::vector<TestCase> tests;
  return tests;
}

bool Register(std::string name, std::function<void()> body) {
  AllTests().push_back({std::move(name), std::move(body)});
  return true;
}

void Fail(const char* file, int line, const std::string& what) {
  ++failures_of_test;
  std::printf("  %s:%d: expected %s\n", file, line, what.c_str());
  for (const std::string& trace : Traces())
    std::printf("      where  %s\n", trace.c_str());
}

ScopedTrace::ScopedTrace(std::string text) {
  Traces().push_back(std::move(text));
}

ScopedTrace::~ScopedTrace() { Traces().pop_back(); }

}  // namespace fedplug::testing

int main(int count, char** arguments) {
  // Keeps freed memory: a third of the time would go into fresh pages.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  fedplug::SimdLevel level;
  if (const auto status = fedplug::FindSimdLevel(&level); !status.ok()) {
    std::printf("skipped: %s\n", status.message().c_str());
    return 77;
  }
  const auto tests = fedplug::testing::Tests(
      {arguments + std::min(count, 1), arguments + count});
  std::vector<std::string> failed;
  for (const auto& test : tests) {
    const bool passes = fedplug::testing::Passes(test);
    std::printf("[%s] %s\n", passes ? "  OK  " : "FAILED", test.name.c_str());
    if (!passes) failed.push_back(test.name);
  }
  std::printf("%zu of %zu tests failed\n", failed.size(), tests.size());
  for (const auto& name : failed) std::printf("  %s\n", name.c_str());
  return failed.empty() && !tests.empty() ? 0 : 1;
}
