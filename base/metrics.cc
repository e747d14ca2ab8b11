#include "base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace sirenfeed::base {

struct MetricsRegistry::Impl {
  prometheus::Registry registry;
};

void Counter::add(std::uint64_t n) const { counter_->Increment(static_cast<double>(n)); }
std::uint64_t Counter::value() const { return static_cast<std::uint64_t>(counter_->Value()); }
void Gauge::set(double value) const { gauge_->Set(value); }
void Gauge::add(double delta) const { gauge_->Increment(delta); }
double Gauge::value() const { return gauge_->Value(); }
void Histogram::observe(double value) const { histogram_->Observe(value); }

const std::vector<double>& latency_buckets_s() {
  static const std::vector<double> buckets = {0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002,
                                              0.005,   0.01,   0.02,   0.05,   0.1,   0.2,
                                              0.5,     1,      2,      5,      10};
  return buckets;
}

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter MetricsRegistry::counter(const std::string& name, const std::string& help,
                                 const Labels& labels) {
  return Counter(
      prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry).Add(labels));
}

Gauge MetricsRegistry::gauge(const std::string& name, const std::string& help,
                             const Labels& labels) {
  return Gauge(
      prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry).Add(labels));
}

Histogram MetricsRegistry::histogram(const std::string& name, const std::string& help,
                                     const Labels& labels, const std::vector<double>& buckets) {
  return Histogram(prometheus::BuildHistogram()
                       .Name(name)
                       .Help(help)
                       .Register(impl_->registry)
                       .Add(labels, buckets));
}

std::vector<MetricsRegistry::Sample> MetricsRegistry::samples() const {
  std::vector<Sample> samples;
  for (const prometheus::MetricFamily& family : impl_->registry.Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      Labels labels;
      for (const auto& label : metric.label) labels[label.name] = label.value;
      switch (family.type) {
        case prometheus::MetricType::Counter:
          samples.push_back({family.name, labels, metric.counter.value});
          break;
        case prometheus::MetricType::Gauge:
          samples.push_back({family.name, labels, metric.gauge.value});
          break;
        case prometheus::MetricType::Histogram:
          samples.push_back({family.name + "_sum", labels, metric.histogram.sample_sum});
          samples.push_back(
              {family.name + "_count", labels, static_cast<double>(metric.histogram.sample_count)});
          break;
        default:
          break;
      }
    }
  }
  return samples;
}

std::string MetricsRegistry::exposition() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace sirenfeed::base
