// The reader in C (decode/fedplug_decode.h) on untrusted containers: it stays
// inside its buffers, accepts the same payloads as the core, and decodes them to
// the same bits. Containers and sparse bodies that the core accepts have one
// form.
#include <cstring>
#include <optional>
#include <string>

#include "core/base/floats.h"
#include "core/base/parallel.h"
#include "core/container.h"
#include "core/crc32.h"
#include "core/index_code.h"
#include "core/sparse_form.h"
#include "core/symbol_code.h"
#include "core/value_code.h"
#include "decode/fedplug_decode.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using fedplug::testing::Require;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kMostBytes = 1 << 16;  // of an array

// Mostly valid, so that inputs pass the first checks.
void Mend(Bytes* data) {
  if (data->size() < 8) return;
  const std::size_t at = 8 + (*data)[6] + std::size_t{4} * (*data)[7];
  if (data->size() < at + 12) return;
  const std::uint64_t length = data->size() - at - 12;
  std::memcpy(data->data() + at, &length, 8);
  const auto end = static_cast<std::int64_t>(data->size()) - 4;
  const std::uint32_t checksum = fedplug::Crc32(data->data(), end);
  std::memcpy(data->data() + end, &checksum, 4);
}

// Takes `name` from the front of a wire id, up to a "+" or the end.
bool Take(const std::string& name, std::string* id) {
  if (id->empty() || (*id + "+").rfind(name + "+", 0) != 0) return false;
  const bool is_last = *id == name;
  *id = is_last ? "" : id->substr(name.size() + 1);
  return is_last || !id->empty();
}

// The values of a vector. Nothing if the core refuses them.
template <typename T>
std::optional<std::vector<T>> ValuesOf(Bytes code, std::int64_t count,
                                       const std::string& form, bool coded) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (form == "raw") {
    if (code.size() != values.size() * sizeof(T)) return {};
    std::copy(code.begin(), code.end(),
              reinterpret_cast<std::uint8_t*>(values.data()));
    for (const T& value : values) {
      if (!fedplug::IsFinite(value)) return {};
    }
    return values;
  }
  fedplug::ValueCode how{};
  Require(fedplug::FindValueForm(form, &how.form), "the core has the form");
  int bits = 1;
  if (form == "qsgd" || form == "bfp") {
    if (code.size() < 2 || code[1] > 20) return {};
    bits = how.bits = code[0];
    how.block_size = std::int64_t{1} << code[1];
  }
  if (!fedplug::CheckValueCode(how, count).ok()) return {};
  if (coded) {
    Bytes packed(
        static_cast<std::size_t>(fedplug::PackedSymbolBytes(count, bits)));
    const auto all = static_cast<std::size_t>(
        fedplug::ValueCodeBytes(how, count, sizeof(T)));
    const std::size_t begin = all - packed.size();
    if (code.size() < begin ||
        !fedplug::DecodeSymbols(code.data() + begin,
                                static_cast<std::int64_t>(code.size() - begin),
                                count, bits, packed.data())
             .ok()) {
      return {};
    }
    code.resize(begin);
    code.insert(code.end(), packed.begin(), packed.end());
  }
  fedplug::Serial serial;
  if (!fedplug::DecodeValues<T>(code.data(),
                                static_cast<std::int64_t>(code.size()), count,
                                how, serial, values.data())
           .ok()) {
    return {};
  }
  return values;
}

// The array of a payload as the core decodes it. Nothing if it refuses.
template <typename T>
std::optional<std::vector<T>> ArrayOf(Bytes body, std::int64_t elements,
                                      std::string id) {
  const bool sparse = Take("sparse/1", &id);
  std::string form = "raw";
  bool coded = false;
  if (!sparse && Take("identity/1", &id)) {
    return ValuesOf<T>(body, elements, form, coded);
  }
  for (const char* name : {"float16", "bfloat16", "qsgd", "bfp", "sign"}) {
    if (!Take(name + std::string("/1"), &id)) continue;
    form = name;
    coded = Take("rans/1", &id);
    break;
  }
  Require(id.empty(), "only these wire ids are known");
  if (!sparse) return ValuesOf<T>(body, elements, form, coded);

  fedplug::SparseBodyParts parts;
  if (!fedplug::ReadSparseBody(body.data(),
                               static_cast<std::int64_t>(body.size()), elements,
                               &parts)
           .ok()) {
    return {};
  }
  const std::int64_t code_bytes = parts.values_begin - parts.code_begin;
  Bytes again(body.size());
  fedplug::WriteSparseBody(
      parts.count, body.data() + parts.code_begin, code_bytes,
      body.data() + parts.values_begin,
      static_cast<std::int64_t>(body.size()) - parts.values_begin,
      again.data());
  Require(again == body, "a sparse body has one form");
  std::vector<std::int32_t> indices(static_cast<std::size_t>(parts.count));
  const auto values =
      ValuesOf<T>({body.begin() + parts.values_begin, body.end()}, parts.count,
                  form, coded);
  if (!values || !fedplug::DecodeIndices(
                      body.data() + parts.code_begin, code_bytes, parts.count,
                      elements, fedplug::IndexForm::kRice, indices.data())
                      .ok()) {
    return {};
  }
  std::vector<T> array(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    array[static_cast<std::size_t>(indices[i])] = (*values)[i];
  }
  return array;
}

template <typename T>
void Compare(const fedplug_payload& payload, bool accepted,
             const Bytes& decoded) {
  const auto expected =
      ArrayOf<T>({payload.body, payload.body + payload.body_bytes},
                 static_cast<std::int64_t>(payload.elements), payload.wire_id);
  Require(accepted == expected.has_value(), "the core accepts the same");
  Require(!accepted || std::equal(decoded.begin(), decoded.end(),
                                  reinterpret_cast<const std::uint8_t*>(
                                      expected->data())),
          "the core decodes the same bits");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input_data,
                                      std::size_t input_size) {
  fedplug::testing::FuzzInput input(input_data, input_size);
  auto data = input.TakeVector<std::uint8_t>(input.size());
  Mend(&data);
  fedplug::ContainerHeader header;
  fedplug::BodyRange body;
  const bool is_container =
      fedplug::ReadContainer(
          data.data(), static_cast<std::int64_t>(data.size()), &header, &body)
          .ok();
  if (is_container) {
    const std::int64_t head_bytes = body.begin - fedplug::BodyBegin(0);
    fedplug::BodyRange same;
    Require(
        fedplug::ReadContainerOf(data.data(), head_bytes, data.data(),
                                 static_cast<std::int64_t>(data.size()), &same)
                .ok() &&
            same.begin == body.begin && same.bytes == body.bytes,
        "its header is the one it should have");
    Bytes again(data.size());
    fedplug::WriteContainer(data.data(), head_bytes, data.data() + body.begin,
                            body.bytes, again.data());
    Require(again == data, "a container has one form");
  }
  fedplug_payload payload;
  if (fedplug_open(data.data(), data.size(), &payload) != FEDPLUG_OK) return 0;
  Require(is_container && payload.body == data.data() + body.begin &&
              payload.wire_id == header.wire_id,
          "the core reads the same container");
  if (payload.array_bytes > kMostBytes) return 0;
  Bytes array(static_cast<std::size_t>(payload.array_bytes));
  const auto status = fedplug_decode(&payload, array.data(), array.size());
  Require(status != FEDPLUG_TOO_SMALL, "the array has the announced size");
  if (status == FEDPLUG_UNKNOWN) return 0;
  const bool accepted = status == FEDPLUG_OK;
  switch (payload.dtype) {
    case FEDPLUG_FLOAT32:
      Compare<float>(payload, accepted, array);
      break;
    case FEDPLUG_FLOAT64:
      Compare<double>(payload, accepted, array);
      break;
    case FEDPLUG_FLOAT16:
      Compare<fedplug::Half>(payload, accepted, array);
      break;
    case FEDPLUG_BFLOAT16:
      Compare<fedplug::BFloat16>(payload, accepted, array);
      break;
    default:  // the core decodes floats
      break;
  }
  return 0;
}
