// Test cases of the CUDA value codes. A Machine (cuda_check_cases.h) has
//   Encode(input)         ->  ValueOutput of cuda::EncodeValues
//   DecodeCode<T, Out>(data, count, code, factor)  ->  out of DecodeValues
#ifndef FEDPLUG_TESTS_CUDA_CHECK_VALUE_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_VALUE_CASES_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "core/value_code.h"
#include "cuda/value_code.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {

template <typename T>
struct ValueInput {
  using Wide = value_loops::WideOf<T>;

  std::vector<T> values;
  std::vector<Wide> residual;  // empty for none
  ValueCode code;
  std::uint64_t seed = 7;
  std::size_t shift = 0;  // see TopKInput

  std::int64_t count() const {
    return static_cast<std::int64_t>(values.size());
  }
};

template <typename T>
struct ValueOutput {
  std::vector<std::uint8_t> data;
  std::vector<value_loops::WideOf<T>> residual;
  Status status;
};

inline constexpr ValueCode kDeviceCodes[] = {
    {ValueForm::kFloat16},         {ValueForm::kBFloat16},
    {ValueForm::kNearest, 8, 256}, {ValueForm::kNearest, 5, 4},
    {ValueForm::kQsgd, 8, 512},    {ValueForm::kQsgd, 3, 1},
    {ValueForm::kQsgd, 2, 4096},   {ValueForm::kSign},
    {ValueForm::kBfp, 8, 512},     {ValueForm::kBfp, 5, 8},
    {ValueForm::kBfp, 2, 8192}};

// A vector as the core encodes it. `exact` are the sums with a residual.
template <typename T>
ValueOutput<T> EncodedByTheCore(const ValueInput<T>& input) {
  using Wide = value_loops::WideOf<T>;
  Serial serial;
  std::int64_t non_finite = 0;
  ValueOutput<T> output;
  std::vector<T> values = input.values;
  std::vector<Wide> exact;
  if (!input.residual.empty()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      exact.push_back(value_loops::Wide(values[i]) + input.residual[i]);
    }
    if constexpr (std::is_same_v<T, Wide>) {
      values = exact;
    } else {
      const ValueCode cast{std::is_same_v<T, Half> ? ValueForm::kFloat16
                                                   : ValueForm::kBFloat16};
      // A variable, because nvcc takes an assignment of a template's result for
      // an ignored one.
      const Status rounded = EncodeValues(
          exact.data(), input.count(), cast, 0, serial,
          reinterpret_cast<std::uint8_t*>(values.data()), &non_finite);
      output.status = rounded;
      if (!output.status.ok()) return output;
    }
  }
  output.data.resize(static_cast<std::size_t>(
      ValueCodeBytes(input.code, input.count(), sizeof(T))));
  const Status encoded =
      EncodeValues(values.data(), input.count(), input.code, input.seed, serial,
                   output.data.data(), &non_finite);
  output.status = encoded;
  if (!output.status.ok() || exact.empty()) return output;
  const Status decoded = DecodeValues(
      output.data.data(), static_cast<std::int64_t>(output.data.size()),
      input.count(), input.code, serial, values.data());
  EXPECT_EQ(decoded.message(), "");
  for (std::size_t i = 0; i < values.size(); ++i) {
    output.residual.push_back(exact[i] - value_loops::Wide(values[i]));
  }
  return output;
}

template <typename T, typename Machine>
void ExpectSameAsCore(const ValueInput<T>& input, Machine& machine) {
  const ValueOutput<T> expected = EncodedByTheCore(input);
  const ValueOutput<T> actual = machine.Encode(input);
  EXPECT_EQ(actual.status.message(), expected.status.message());
  if (!expected.status.ok()) return;
  EXPECT_EQ(actual.data, expected.data);
  EXPECT_EQ(BitsOf(actual.residual), BitsOf(expected.residual));
}

template <typename T, typename Machine, typename Sizes>
void EncodedValuesEqualTheCore(Machine& machine, const Sizes& sizes) {
  Random random(21);
  for (const std::int64_t n : sizes) {
    for (const Fill fill : {Fill::kNormal, Fill::kAnyFinite, Fill::kDenormal,
                            Fill::kZeros, Fill::kAnyBits}) {
      for (const ValueCode& code : kDeviceCodes) {
        const bool adds = Below(random, 2) == 0;
        SCOPED_TRACE("n " + std::to_string(n) + ", fill " +
                     std::to_string(static_cast<int>(fill)) + ", form " +
                     std::to_string(static_cast<int>(code.form)) + ", bits " +
                     std::to_string(code.bits) + ", block " +
                     std::to_string(code.block_size) + ", residual " +
                     std::to_string(adds));
        ValueInput<T> input{RandomVector<T>(n, fill, random), {}, code};
        input.seed = random();
        input.shift = static_cast<std::size_t>(Below(random, 3));
        if (adds) {
          input.residual = RandomVector<value_loops::WideOf<T>>(
              n, fill == Fill::kAnyBits ? Fill::kNormal : fill, random);
        }
        ExpectSameAsCore(input, machine);
      }
    }
  }
}

// decode(Out{}, factor) is the decoded values times the factor, in Out.
template <typename Out, typename T, typename Decode>
void ExpectProductsIn(const std::vector<T>& decoded, const Decode& decode) {
  const double factor = sizeof(Out) == 2 ? 1 : 0.3f;
  std::vector<Out> expected;
  for (const T value : decoded) {
    if constexpr (sizeof(Out) == 2) {
      expected.push_back(value);
    } else {
      expected.push_back(static_cast<Out>(factor) *
                         static_cast<Out>(value_loops::Wide(value)));
    }
  }
  EXPECT_EQ(BitsOf(decode(Out{}, factor)), BitsOf(expected));
}

// In T, and in every wider type of a sum.
template <typename T, typename Decode>
void ExpectProducts(const std::vector<T>& decoded, const Decode& decode) {
  ExpectProductsIn<T>(decoded, decode);
  if constexpr (sizeof(T) < 8) ExpectProductsIn<double>(decoded, decode);
  if constexpr (sizeof(T) == 2) ExpectProductsIn<float>(decoded, decode);
}

template <typename T, typename Machine, typename Sizes>
void DecodedValuesEqualTheCore(Machine& machine, const Sizes& sizes) {
  Random random(23);
  Serial serial;
  for (const std::int64_t n : sizes) {
    for (const Fill fill : {Fill::kNormal, Fill::kAnyFinite, Fill::kZeros}) {
      for (const ValueCode& code : kDeviceCodes) {
        SCOPED_TRACE("n " + std::to_string(n) + ", fill " +
                     std::to_string(static_cast<int>(fill)) + ", form " +
                     std::to_string(static_cast<int>(code.form)) + ", bits " +
                     std::to_string(code.bits));
        std::vector<T> values = RandomVector<T>(n, fill, random);
        const ValueInput<T> input{values, {}, code};
        const auto data = EncodedByTheCore(input).data;
        const Status decoded =
            DecodeValues(data.data(), static_cast<std::int64_t>(data.size()), n,
                         code, serial, values.data());
        EXPECT_EQ(decoded.message(), "");
        ExpectProducts(values, [&](auto out, double factor) {
          return machine.template DecodeCode<T, decltype(out)>(data, n, code,
                                                               factor);
        });
      }
    }
  }
}

// Several tiles of the checksum, several launches of the mean.
template <typename T, typename Machine>
void ManyEncodedValuesEqualTheCore(Machine& machine, std::int64_t n) {
  Random random(22);
  const auto values = RandomVector<T>(n, Fill::kNormal, random);
  for (const ValueCode& code :
       {ValueCode{ValueForm::kQsgd, 8, 512}, ValueCode{ValueForm::kSign}}) {
    ExpectSameAsCore(ValueInput<T>{values, {}, code}, machine);
  }
}

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_VALUE_CASES_H_
