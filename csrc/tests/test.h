// The part of GoogleTest's vocabulary these tests use, so that they build
// without a download. main() is in test_main.cc.
#ifndef FEDPLUG_TESTS_TEST_H_
#define FEDPLUG_TESTS_TEST_H_

#include <functional>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace fedplug::testing {

struct TestCase {
  std::string name;
  std::function<void()> body;
};

// All tests of this executable, in the order of the file.
std::vector<TestCase>& AllTests();

bool Register(std::string name, std::function<void()> body);

// Records a failure of the running test, with its traces. The test continues.
void Fail(const char* file, int line, const std::string& what);

// Adds `text` (a size, a seed, a type) to failures during its lifetime.
class ScopedTrace {
 public:
  explicit ScopedTrace(std::string text);
  ~ScopedTrace();
  ScopedTrace(const ScopedTrace&) = delete;
  ScopedTrace& operator=(const ScopedTrace&) = delete;
};

template <typename T, typename = void>
struct IsStreamable : std::false_type {};
template <typename T>
struct IsStreamable<T, std::void_t<decltype(std::declval<std::ostream&>()
                                            << std::declval<const T&>())>>
    : std::true_type {};

template <typename T>
std::string Show(const T& value) {
  if constexpr (IsStreamable<T>::value) {
    std::ostringstream out;
    out << std::setprecision(std::numeric_limits<double>::max_digits10)
        << +value;
    return out.str();
  } else {
    return "<" + std::to_string(sizeof(T)) + " bytes>";
  }
}
inline std::string Show(const std::string& value) { return '"' + value + '"'; }
inline std::string Show(const char* value) { return Show(std::string(value)); }
inline std::string Show(bool value) { return value ? "true" : "false"; }

template <typename A, typename B>
bool CheckEqual(const A& a, const B& b, const char* a_text, const char* b_text,
                const char* file, int line) {
  if (a == b) return true;
  Fail(file, line,
       std::string(a_text) + " == " + b_text + "\n      left:  " + Show(a) +
           "\n      right: " + Show(b));
  return false;
}

// Compares element by element, so that a failure names the first that differs.
template <typename A, typename B>
bool CheckEqual(const std::vector<A>& a, const std::vector<B>& b,
                const char* a_text, const char* b_text, const char* file,
                int line) {
  if (a == b) return true;
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const std::string left = i < a.size() ? Show(a[i]) : "(its end)";
  const std::string right = i < b.size() ? Show(b[i]) : "(its end)";
  Fail(file, line,
       std::string(a_text) + " == " + b_text + "\n      differ at element " +
           std::to_string(i) + "\n      left:  " + left +
           "\n      right: " + right);
  return false;
}

inline bool CheckTrue(bool value, const char* text, const char* file,
                      int line) {
  if (!value) Fail(file, line, text);
  return value;
}

}  // namespace fedplug::testing

#define FEDPLUG_JOIN_(a, b) a##b
#define FEDPLUG_JOIN(a, b) FEDPLUG_JOIN_(a, b)

#define TEST(suite, name)                                             \
  static void suite##_##name();                                       \
  static const bool suite##_##name##_registered =                     \
      ::fedplug::testing::Register(#suite "." #name, suite##_##name); \
  static void suite##_##name()

#define SCOPED_TRACE(text) \
  const ::fedplug::testing::ScopedTrace FEDPLUG_JOIN(trace_, __LINE__)(text)

#define EXPECT_EQ(a, b) \
  ::fedplug::testing::CheckEqual(a, b, #a, #b, __FILE__, __LINE__)
#define EXPECT_TRUE(a) \
  ::fedplug::testing::CheckTrue(static_cast<bool>(a), #a, __FILE__, __LINE__)
#define EXPECT_FALSE(a) \
  ::fedplug::testing::CheckTrue(!(a), "not " #a, __FILE__, __LINE__)
#define ASSERT_EQ(a, b) \
  if (!EXPECT_EQ(a, b)) return
#define ASSERT_TRUE(a) \
  if (!EXPECT_TRUE(a)) return

#endif  // FEDPLUG_TESTS_TEST_H_
