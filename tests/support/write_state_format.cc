// write_state_format: the dump of a store in today's format, for tests/data/state_formats. Run it
// once when kStoreFormat has grown, before the format changes again:
//   cmake --build build/release --target write_state_format
//   build/release/tests/write_state_format
// It writes no file over: what a released format was does not change.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "unit/features/state_format_fixture.h"

int main() {
  namespace features = sirenfeed::features;
  const std::string file = features::fixture_path(features::kStoreFormat);
  if (std::filesystem::exists(file)) {
    fmt::print(stderr, "{}: is there already\n", file);
    return 1;
  }
  const features::TempDir folder;
  {
    features::StateUnderTest s(features::config_in(folder.path()));
    s.apply(features::stream_of_everything(s.records));
  }
  features::StoreConfig config;
  config.dir = folder.path();
  const auto store = features::Store::open(config);
  if (!store) {
    fmt::print(stderr, "{}\n", store.error().message);
    return 1;
  }
  std::ofstream out(file);
  out << features::dump(**store);
  if (!out.flush()) {
    fmt::print(stderr, "{}: cannot be written\n", file);
    return 1;
  }
  fmt::print("{}\n", file);
  return 0;
}
