#pragma once
// Bytes of stored values (docs/FORMATS.md): little-endian fixed integers, LEB128 varints, zigzag
// for signed ones. Decoding never reads past the end: it sets ok() to false and returns zeros.
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace sirenfeed::features {

static_assert(std::endian::native == std::endian::little, "stored values are little-endian");

class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}

  template <class T>
  requires std::is_arithmetic_v<T>
  void fixed(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof value);
  }
  void byte(std::uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void varint(std::uint64_t value) {
    while (value >= 0x80) {
      byte(static_cast<std::uint8_t>(value | 0x80));
      value >>= 7;
    }
    byte(static_cast<std::uint8_t>(value));
  }
  void zigzag(std::int64_t value) {
    varint((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  void bytes(std::string_view value) {
    varint(value.size());
    out_.append(value);
  }
  void optional_bytes(const std::optional<std::string>& value) {
    byte(value.has_value() ? 1 : 0);
    if (value) bytes(*value);
  }
  void optional_time(const std::optional<std::int64_t>& value) {
    byte(value.has_value() ? 1 : 0);
    if (value) zigzag(*value);
  }

 private:
  std::string& out_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view in) : in_(in) {}

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return in_.empty(); }
  /// Everything was there and nothing was left over.
  [[nodiscard]] bool finished() const { return ok_ && in_.empty(); }
  [[nodiscard]] std::size_t left() const { return in_.size(); }

  template <class T>
  requires std::is_arithmetic_v<T> T fixed() {
    T value{};
    if (in_.size() < sizeof value) return fail<T>();
    std::memcpy(&value, in_.data(), sizeof value);
    in_.remove_prefix(sizeof value);
    return value;
  }
  std::uint8_t byte() { return fixed<std::uint8_t>(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint64_t part = byte();
      if (!ok_) return 0;
      value |= (part & 0x7F) << shift;
      if (part < 0x80) return value;
    }
    return fail<std::uint64_t>();
  }
  std::int64_t zigzag() {
    const std::uint64_t raw = varint();
    return static_cast<std::int64_t>(raw >> 1) ^ -static_cast<std::int64_t>(raw & 1);
  }
  /// Points into the decoded value.
  std::string_view bytes() {
    const std::uint64_t size = varint();
    if (size > in_.size()) return fail<std::string_view>();
    const std::string_view value = in_.substr(0, size);
    in_.remove_prefix(size);
    return value;
  }
  /// A count of things of at least `bytes_each` bytes: bounded by what is left.
  std::size_t count(std::size_t bytes_each = 1) {
    const std::uint64_t value = varint();
    return value > in_.size() / bytes_each ? fail<std::size_t>() : value;
  }
  std::optional<std::string> optional_bytes() {
    if (byte() == 0) return std::nullopt;
    return std::string(bytes());
  }
  std::optional<std::int64_t> optional_time() {
    if (byte() == 0) return std::nullopt;
    return zigzag();
  }

 private:
  template <class T>
  T fail() {
    ok_ = false;
    in_ = {};
    return T{};
  }

  std::string_view in_;
  bool ok_ = true;
};

}  // namespace sirenfeed::features
