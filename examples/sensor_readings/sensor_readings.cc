// Forecasts a sensor's next reading from the site's earlier ones, with one attention layer: first
// with plain RoPE, then with SIREN-RoPE. The two differ in the line `config.rotation = …`.
//
// The data: 48 sites with sensors of four types (temperature, light, power, noise). A reading is
// cos(2π (hour − φ)/24 h) + noise, and every site and type has a phase φ of its own: the hour alone
// tells nothing, one has to find the same type's readings at the same hour on earlier days.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numbers>
#include <random>
#include <span>
#include <vector>

#include "model/sequence_attention.h"

using sirenfeed::model::Matrix;
using sirenfeed::model::SequenceAttention;
using sirenfeed::model::SequenceAttentionConfig;
using sirenfeed::model::SequenceToken;
using sirenfeed::model::Variant;
using sirenfeed::model::View;

namespace {

constexpr std::size_t kTypes = 4;
constexpr std::size_t kWidth = 16;
constexpr std::size_t kSites = 48;
constexpr std::size_t kTokens = 96;  // readings of one site, some four days
constexpr double kNoise = 0.2;
constexpr int kSteps = 400;

struct Site {
  std::vector<SequenceToken> tokens;
  std::vector<float> readings;
};

Site make_site(std::mt19937_64& random) {
  constexpr double kHourMs = 3'600'000;
  std::uniform_real_distribution<double> phase(0, 24);
  std::exponential_distribution<double> gap(1.0 / (0.25 * kTypes * kHourMs));
  std::normal_distribution<double> noise(0, kNoise);
  double phases[kTypes];
  for (double& p : phases) p = phase(random);
  Site site;
  double time_ms = 1'700'000'000'000;
  for (std::size_t i = 0; i < kTokens; ++i) {
    time_ms += gap(random);
    const auto type = static_cast<std::int32_t>(random() % kTypes);
    const double hour = std::fmod(time_ms / kHourMs, 24.0);
    const double turn = 2 * std::numbers::pi * (hour - phases[type]) / 24.0;
    site.tokens.push_back({static_cast<std::int64_t>(time_ms), type});
    site.readings.push_back(static_cast<float>(std::cos(turn) + noise(random)));
  }
  return site;
}

/// Adam over one buffer, without decay.
class Adam {
 public:
  void step(std::span<float> parameters, std::span<const float> gradient) {
    mean_.resize(parameters.size());
    square_.resize(parameters.size());
    ++steps_;
    const double rate = 5e-3 * std::sqrt(1 - std::pow(0.999, steps_)) / (1 - std::pow(0.9, steps_));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      mean_[i] += 0.1F * (gradient[i] - mean_[i]);
      square_[i] += 0.001F * (gradient[i] * gradient[i] - square_[i]);
      parameters[i] -= static_cast<float>(rate) * mean_[i] / (std::sqrt(square_[i]) + 1e-8F);
    }
  }

 private:
  std::vector<float> mean_;
  std::vector<float> square_;
  int steps_ = 0;
};

/// One attention layer between a vector for each type and a linear read-out:
///   x = E[type], values = x + reading · r, forecast = w · attention(x, values) + b.
class Forecaster {
 public:
  explicit Forecaster(SequenceAttention attention) : attention_(std::move(attention)) {
    std::mt19937_64 random(5);
    std::normal_distribution<float> normal(0, 0.5);
    for (float& p : outer_) p = normal(random);
  }

  /// Mean squared error over all readings but each site's first; learns them when asked to.
  double run(const std::vector<Site>& sites, bool learn) {
    lay_out(sites);
    const auto done = attention_.forward(tokens_, lengths_, x_.view(), values_.view(), y_.view());
    if (!done) {
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
      std::exit(1);
    }
    std::vector<float> d_outer(outer_.size(), 0.0F);
    float* const d_w = d_outer.data() + kTypes * kWidth + kWidth;
    double error = 0;
    const auto count = static_cast<float>(sites.size() * (kTokens - 1));
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      float forecast = read_out()[kWidth];
      for (std::size_t c = 0; c < kWidth; ++c) forecast += read_out()[c] * y_.row(i)[c];
      const bool first = i % kTokens == 0;  // has nothing to look back on
      const float residual = first ? 0.0F : forecast - readings_[i];
      error += residual * residual / count;
      for (std::size_t c = 0; c < kWidth; ++c) {
        d_w[c] += 2 * residual / count * y_.row(i)[c];
        d_y_.row(i)[c] = 2 * residual / count * read_out()[c];
      }
      d_w[kWidth] += 2 * residual / count;
    }
    if (!learn) return error;
    attention_.backward(d_y_.view(), d_x_.view(), d_values_.view());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      float* const d_type = d_outer.data() + static_cast<std::size_t>(tokens_[i].kind) * kWidth;
      float* const d_reading = d_outer.data() + kTypes * kWidth;
      for (std::size_t c = 0; c < kWidth; ++c) {
        d_type[c] += d_x_.row(i)[c] + d_values_.row(i)[c];
        d_reading[c] += readings_[i] * d_values_.row(i)[c];
      }
    }
    attention_adam_.step(attention_.parameters(), attention_.gradient());
    outer_adam_.step(outer_, d_outer);
    return error;
  }

 private:
  [[nodiscard]] const float* read_out() const { return outer_.data() + (kTypes + 1) * kWidth; }

  void lay_out(const std::vector<Site>& sites) {
    tokens_.clear();
    readings_.clear();
    lengths_.assign(sites.size(), kTokens);
    for (const Site& site : sites) {
      tokens_.insert(tokens_.end(), site.tokens.begin(), site.tokens.end());
      readings_.insert(readings_.end(), site.readings.begin(), site.readings.end());
    }
    for (Matrix<float>* matrix : {&x_, &values_, &y_, &d_y_, &d_x_, &d_values_}) {
      matrix->resize(tokens_.size(), kWidth);
    }
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const float* const type = outer_.data() + static_cast<std::size_t>(tokens_[i].kind) * kWidth;
      const float* const reading = outer_.data() + kTypes * kWidth;
      for (std::size_t c = 0; c < kWidth; ++c) {
        x_.row(i)[c] = type[c];
        values_.row(i)[c] = type[c] + readings_[i] * reading[c];
      }
    }
  }

  SequenceAttention attention_;
  // E [types, width], r [width], w [width], b.
  std::vector<float> outer_ = std::vector<float>((kTypes + 2) * kWidth + 1);
  Adam attention_adam_;
  Adam outer_adam_;
  std::vector<SequenceToken> tokens_;
  std::vector<float> readings_;
  std::vector<std::size_t> lengths_;
  Matrix<float> x_, values_, y_, d_y_, d_x_, d_values_;
};

/// Share of the readings' variance that the forecasts explain, on sites that were not learned.
double explained_variance(Variant rotation, bool print_progress) {
  SequenceAttentionConfig config;
  config.rotation = rotation;  // the one line: Variant::kOrdinal is plain RoPE
  config.width = kWidth;
  config.heads = 2;
  config.kinds = kTypes;
  config.time_reference_ms = 1'700'000'000'000;
  auto attention = SequenceAttention::create(config);
  if (!attention) {
    std::fprintf(stderr, "%s\n", attention.error().message.c_str());
    std::exit(1);
  }
  std::mt19937_64 random(17);
  Forecaster forecaster(std::move(*attention));
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<Site> batch;
    for (std::size_t s = 0; s < 16; ++s) batch.push_back(make_site(random));
    const double error = forecaster.run(batch, true);
    if (print_progress && step % 100 == 0) std::printf("  step %d: error %.3f\n", step, error);
  }
  std::vector<Site> unseen;
  for (std::size_t s = 0; s < kSites; ++s) unseen.push_back(make_site(random));
  return 1 - forecaster.run(unseen, false) / (0.5 + kNoise * kNoise);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quiet = argc > 1 && std::strcmp(argv[1], "--quiet") == 0;
  if (!quiet) std::printf("plain RoPE\n");
  const double plain = explained_variance(Variant::kOrdinal, !quiet);
  if (!quiet) std::printf("SIREN-RoPE\n");
  const double siren = explained_variance(Variant::kSiren, !quiet);
  std::printf("explained variance: plain RoPE %.3f, SIREN-RoPE %.3f (the noise leaves %.3f)\n",
              plain, siren, 1 - kNoise * kNoise / (0.5 + kNoise * kNoise));
}
