#include "model/safetensors.h"

#include <algorithm>
#include <bit>
#include <boost/json.hpp>
#include <cstring>

#include "base/check.h"

namespace sirenfeed::model {
namespace {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::size_t kLengthBytes = 8;

std::size_t element_bytes(Dtype dtype) { return dtype == Dtype::kF32 ? 4 : 8; }
const char* dtype_name(Dtype dtype) { return dtype == Dtype::kF32 ? "F32" : "I64"; }

base::Result<std::uint64_t> unsigned_number(const json::value& value) {
  boost::system::error_code error;
  const auto number = value.to_number<std::uint64_t>(error);
  if (error) return fail(ErrorCode::kDecode, "not an unsigned integer");
  return number;
}

struct Entry {
  std::string name;
  TensorView tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

base::Result<Entry> parse_entry(std::string_view name, const json::value& value,
                                std::string_view data) {
  const auto malformed = [&](const char* what) {
    return fail(ErrorCode::kDecode, "safetensors: tensor '{}': {}", name, what);
  };
  const json::object* object = value.if_object();
  if (object == nullptr) return malformed("its entry is not an object");
  const json::value* dtype = object->if_contains("dtype");
  const json::value* shape = object->if_contains("shape");
  const json::value* offsets = object->if_contains("data_offsets");
  if (dtype == nullptr || shape == nullptr || offsets == nullptr || !dtype->is_string() ||
      !shape->is_array() || !offsets->is_array() || offsets->get_array().size() != 2) {
    return malformed("expected dtype, shape and two data_offsets");
  }
  Entry entry;
  entry.name = std::string(name);
  if (dtype->get_string() == "F32") {
    entry.tensor.dtype = Dtype::kF32;
  } else if (dtype->get_string() == "I64") {
    entry.tensor.dtype = Dtype::kI64;
  } else {
    return malformed("its dtype is neither F32 nor I64");
  }
  std::uint64_t bytes = element_bytes(entry.tensor.dtype);
  for (const json::value& extent : shape->get_array()) {
    const auto number = unsigned_number(extent);
    if (!number || __builtin_mul_overflow(bytes, *number, &bytes)) return malformed("bad shape");
    entry.tensor.shape.push_back(*number);
  }
  const auto begin = unsigned_number(offsets->get_array()[0]);
  const auto end = unsigned_number(offsets->get_array()[1]);
  if (!begin || !end || *begin > *end) return malformed("bad data_offsets");
  if (*end > data.size()) return malformed("its data ends after the file: truncated");
  if (*end - *begin != bytes) return malformed("its data has not the size of its shape");
  entry.begin = *begin;
  entry.end = *end;
  entry.tensor.bytes = data.substr(*begin, bytes);
  return entry;
}

base::Result<void> parse_metadata(const json::value& value, SafetensorsView& view) {
  if (!value.is_object()) return fail(ErrorCode::kDecode, "safetensors: bad __metadata__");
  for (const auto& [key, text] : value.get_object()) {
    if (!text.is_string()) return fail(ErrorCode::kDecode, "safetensors: bad __metadata__");
    view.metadata[std::string(std::string_view(key))] =
        std::string(std::string_view(text.get_string()));
  }
  return {};
}

}  // namespace

std::size_t TensorView::elements() const { return bytes.size() / element_bytes(dtype); }

base::Result<SafetensorsView> parse_safetensors(std::string_view file) {
  std::uint64_t header_bytes = 0;
  if (file.size() < kLengthBytes) {
    return fail(ErrorCode::kDecode, "safetensors: {} bytes, too short for a header", file.size());
  }
  std::memcpy(&header_bytes, file.data(), kLengthBytes);
  if (header_bytes > kSafetensorsHeaderMax || header_bytes > file.size() - kLengthBytes) {
    return fail(ErrorCode::kDecode, "safetensors: header of {} bytes does not fit a file of {}",
                header_bytes, file.size());
  }
  boost::system::error_code error;
  const json::value header =
      json::parse(json::string_view(file.data() + kLengthBytes, header_bytes), error);
  if (error || !header.is_object()) {
    return fail(ErrorCode::kDecode, "safetensors: the header is not a JSON object");
  }
  const std::string_view data = file.substr(kLengthBytes + header_bytes);
  SafetensorsView view;
  std::vector<Entry> entries;
  for (const auto& [key, value] : header.get_object()) {
    const std::string_view name(key);
    if (name == "__metadata__") {
      SF_TRY(parse_metadata(value, view));
      continue;
    }
    SF_ASSIGN(Entry entry, parse_entry(name, value, data));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      return fail(ErrorCode::kDecode, "safetensors: tensor '{}' begins at {}, expected {}",
                  entry.name, entry.begin, at);
    }
    at = entry.end;
    view.tensors[entry.name] = entry.tensor;
  }
  if (at != data.size()) {
    return fail(ErrorCode::kDecode, "safetensors: {} bytes of data, tensors cover {}", data.size(),
                at);
  }
  return view;
}

std::string write_safetensors(const SafetensorsView& content) {
  json::object header;
  json::object metadata;
  for (const auto& [key, text] : content.metadata) metadata[key] = text;
  header["__metadata__"] = std::move(metadata);
  std::vector<std::string_view> data;  // in the file's order; joined once, as it may be large
  std::size_t data_bytes = 0;
  for (const Dtype dtype : {Dtype::kI64, Dtype::kF32}) {
    for (const auto& [name, tensor] : content.tensors) {
      if (tensor.dtype != dtype) continue;
      json::array shape;
      for (const std::size_t extent : tensor.shape) shape.emplace_back(extent);
      const std::size_t begin = data_bytes;
      data.push_back(tensor.bytes);
      data_bytes += tensor.bytes.size();
      header[name] = {{"dtype", dtype_name(dtype)},
                      {"shape", std::move(shape)},
                      {"data_offsets", json::array{begin, data_bytes}}};
    }
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const std::uint64_t header_bytes = text.size();
  std::string file(kLengthBytes, '\0');
  std::memcpy(file.data(), &header_bytes, kLengthBytes);
  file.reserve(kLengthBytes + text.size() + data_bytes);
  file += text;
  for (const std::string_view bytes : data) file += bytes;
  return file;
}

}  // namespace sirenfeed::model
