#pragma once
// Metrics that a process exports. Each folder has a Probe: a struct of handles made from the one
// registry that main owns. Names: sirenfeed_<folder>_<noun>_<unit>[_total]; label values come from
// closed sets only. Keeps prometheus-cpp out of headers.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace sirenfeed::base {

using Labels = std::map<std::string, std::string>;

/// Handles point into the registry, which outlives them; every method may be called from any
/// thread.
class Counter {
 public:
  explicit Counter(prometheus::Counter& counter) : counter_(&counter) {}
  void add(std::uint64_t n = 1) const;
  [[nodiscard]] std::uint64_t value() const;

 private:
  prometheus::Counter* counter_;
};

class Gauge {
 public:
  explicit Gauge(prometheus::Gauge& gauge) : gauge_(&gauge) {}
  void set(double value) const;
  void add(double delta) const;
  [[nodiscard]] double value() const;

 private:
  prometheus::Gauge* gauge_;
};

class Histogram {
 public:
  explicit Histogram(prometheus::Histogram& histogram) : histogram_(&histogram) {}
  void observe(double value) const;

 private:
  prometheus::Histogram* histogram_;
};

/// Upper bounds in seconds for latencies from 50 µs to 10 s.
[[nodiscard]] const std::vector<double>& latency_buckets_s();

class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  /// The same name and labels give the same metric again.
  Counter counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram histogram(const std::string& name, const std::string& help, const Labels& labels,
                      const std::vector<double>& buckets);

  struct Sample {
    std::string name;
    Labels labels;
    double value = 0;  // a histogram gives its _sum and _count
  };
  [[nodiscard]] std::vector<Sample> samples() const;
  /// The Prometheus text format.
  [[nodiscard]] std::string exposition() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::base
