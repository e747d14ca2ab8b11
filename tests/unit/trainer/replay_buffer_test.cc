#include "trainer/replay_buffer.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

namespace sirenfeed::trainer {
namespace {

constexpr ReplayBuffer::Shape kShape{.contexts = 2, .tasks = 1};
constexpr std::size_t kRowBytes = 4 * sizeof(float);

void add_number(ReplayBuffer& buffer, float number) {
  const std::array<float, 2> c{number, 0};
  const std::array<float, 1> one{1};
  buffer.add(c, one, one);
}

std::string bytes_of(const ReplayBuffer& buffer) {
  std::string bytes;
  buffer.append_to(bytes);
  return bytes;
}

TEST(ReplayBuffer, StaysWithinItsBytes) {
  ReplayBuffer buffer(kShape, 100 * kRowBytes + 3, 0.1, 1);
  EXPECT_EQ(buffer.rows_max(), 100U);
  for (int i = 0; i < 5'000; ++i) add_number(buffer, static_cast<float>(i));
  EXPECT_EQ(buffer.rows(), 100U);
  EXPECT_EQ(buffer.rows_seen(), 5'000U);
  EXPECT_LE(bytes_of(buffer).size(), 100 * kRowBytes + 32);
}

TEST(ReplayBuffer, WithoutAFloorItIsAUniformSampleOfEverything) {
  ReplayBuffer buffer(kShape, 2'000 * kRowBytes, 0.0, 7);
  for (int i = 0; i < 20'000; ++i) add_number(buffer, static_cast<float>(i));
  std::array<int, 4> quarters{};
  for (std::size_t row = 0; row < buffer.rows(); ++row) {
    ++quarters[static_cast<std::size_t>(buffer.c(row)[0] / 5'000)];
  }
  for (const int quarter : quarters) EXPECT_NEAR(quarter, 500, 100);  // 5 σ
}

TEST(ReplayBuffer, WithAFloorItForgets) {
  ReplayBuffer buffer(kShape, 100 * kRowBytes, 0.5, 7);
  for (int i = 0; i < 20'000; ++i) add_number(buffer, static_cast<float>(i));
  double sum = 0;
  for (std::size_t row = 0; row < buffer.rows(); ++row) sum += 20'000 - buffer.c(row)[0];
  EXPECT_NEAR(sum / 100, 200, 100);  // capacity / floor
}

TEST(ReplayBuffer, ALateLabelFindsItsRowAndNoOther) {
  ReplayBuffer buffer(kShape, 40 * kRowBytes, 1.0, 3);
  const std::array<float, 1> zero{0};
  const std::array<float, 1> one{1};
  const auto row_of = [](float number) { return std::array<float, 2>{number, 0}; };
  for (int i = 0; i < 400; ++i) buffer.add(row_of(static_cast<float>(i)), zero, one);
  std::string bytes;
  buffer.append_to(bytes);
  ReplayBuffer restored(kShape, 40 * kRowBytes, 1.0, 99);
  std::string_view rest = bytes;
  ASSERT_TRUE(restored.restore(rest));
  for (ReplayBuffer* held : {&buffer, &restored}) {
    for (int i = 0; i < 400; i += 2) held->relabel(row_of(static_cast<float>(i)), 0);  // most gone
    for (std::size_t row = 0; row < held->rows(); ++row) {
      const bool even = static_cast<int>(held->c(row)[0]) % 2 == 0;
      EXPECT_EQ(held->label(row)[0], even ? 1.0F : 0.0F) << held->c(row)[0];
    }
  }
}

TEST(ReplayBuffer, OfEqualRowsOneIsRelabelledAtATime) {
  ReplayBuffer buffer(kShape, 40 * kRowBytes, 1.0, 3);
  const std::array<float, 2> c{7, 7};
  const std::array<float, 1> zero{0};
  for (int i = 0; i < 3; ++i) buffer.add(c, zero, zero);
  buffer.relabel(c, 0);
  buffer.relabel(c, 0);
  EXPECT_EQ(buffer.label(0)[0] + buffer.label(1)[0] + buffer.label(2)[0], 2.0F);
  EXPECT_EQ(buffer.label(2)[0], 0.0F);
}

TEST(ReplayBuffer, ARestoredBufferGoesOnAlike) {
  ReplayBuffer buffer(kShape, 50 * kRowBytes, 0.1, 3);
  for (int i = 0; i < 130; ++i) add_number(buffer, static_cast<float>(i));
  (void)buffer.random.below(50);
  const std::string bytes = bytes_of(buffer);
  ReplayBuffer other(kShape, 50 * kRowBytes, 0.1, 99);
  std::string_view rest = bytes;
  ASSERT_TRUE(other.restore(rest));
  EXPECT_TRUE(rest.empty());
  for (int i = 130; i < 400; ++i) {
    add_number(buffer, static_cast<float>(i));
    add_number(other, static_cast<float>(i));
  }
  EXPECT_EQ(bytes_of(buffer), bytes_of(other));
  EXPECT_EQ(buffer.random.below(1'000), other.random.below(1'000));
}

TEST(ReplayBuffer, AnotherSizeOrACutIsRefused) {
  ReplayBuffer buffer(kShape, 50 * kRowBytes, 0.1, 3);
  for (int i = 0; i < 60; ++i) add_number(buffer, static_cast<float>(i));
  const std::string bytes = bytes_of(buffer);
  ReplayBuffer smaller(kShape, 40 * kRowBytes, 0.1, 3);
  std::string_view rest = bytes;
  EXPECT_FALSE(smaller.restore(rest));
  rest = std::string_view(bytes).substr(0, bytes.size() - 1);
  EXPECT_FALSE(buffer.restore(rest));
}

}  // namespace
}  // namespace sirenfeed::trainer
