#include <fmt/chrono.h>

#include <boost/json.hpp>
#include <cstdio>
#include <memory>

#include "app/command_line.h"
#include "model/model_store.h"

namespace sirenfeed::app {
namespace {

namespace json = boost::json;

struct ModelOptions {
  bool json_output = false;
  std::uint64_t version = 0;
  std::string export_dir;
};

std::string utc(std::int64_t unix_ms) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(static_cast<std::time_t>(unix_ms / 1000)));
}

std::string files(const model::Manifest& manifest) {
  if (!manifest.delta) return "full";
  return fmt::format("{}delta of {}", manifest.full ? "full, " : "", manifest.delta->base);
}

base::Result<void> list_versions(const model::ModelStoreReader& store, bool json_output) {
  SF_ASSIGN(const auto manifests, store.list());
  SF_ASSIGN(const auto wanted, store.wanted());
  SF_ASSIGN(const auto pinned, store.pinned());
  SF_ASSIGN(const auto unreadable, store.unreadable());
  for (const base::Error& error : unreadable) {
    fmt::print(stderr, "sirenfeed: damaged and not listed: {}\n", error.message);
  }
  if (!json_output && manifests.empty()) fmt::print("no versions yet\n");
  for (const model::Manifest& manifest : manifests) {
    const bool served = wanted == manifest.version;
    const bool held = pinned == manifest.version;
    if (json_output) {
      const json::object line{
          {"version", manifest.version},
          {"created_ms", manifest.created_ms},
          {"variant", manifest.variant},
          {"bytes", manifest.bytes()},
          {"full", manifest.full.has_value()},
          {"delta_of", manifest.delta ? json::value(manifest.delta->base) : json::value(nullptr)},
          {"wanted", served},
          {"pinned", held},
          {"metrics", json::parse(manifest.metrics_json)}};
      fmt::print("{}\n", json::serialize(line));
    } else {
      fmt::print("{:>8}  {}  {:<14} {:>10} bytes  {}{}{}\n", manifest.version,
                 utc(manifest.created_ms), manifest.variant, manifest.bytes(), files(manifest),
                 served ? "  <- served" : "", held ? " (pinned)" : "");
    }
  }
  return {};
}

}  // namespace

void add_model_command(CommandLine& line) {
  auto options = std::make_shared<ModelOptions>();
  CLI::App& command = add_command(line, "model", "The versions of the model: list, pin, roll back",
                                  "  sirenfeed model list --data data\n"
                                  "  sirenfeed model rollback --models /models\n"
                                  "  sirenfeed model export out --data data");
  command.require_subcommand(1);
  const auto store = [&line] { return model::ModelStoreReader(line.settings.models_dir()); };

  CLI::App* list = command.add_subcommand("list", "Every version kept, oldest first");
  list->add_flag("--json", options->json_output, "One JSON object a line");
  list->callback([&line, store, options] {
    line.action = [store, options] { return list_versions(store(), options->json_output); };
  });

  CLI::App* pin = command.add_subcommand("pin", "Hold serving at a version");
  pin->add_option("version", options->version, "Its number")->required();
  pin->callback([&line, store, options] {
    line.action = [store, options]() -> base::Result<void> {
      SF_TRY(store().pin(options->version));
      fmt::print("pinned at version {}; `sirenfeed model unpin` follows the newest again\n",
                 options->version);
      return {};
    };
  });

  CLI::App* unpin = command.add_subcommand("unpin", "Let serving follow the newest version again");
  unpin->callback([&line, store] { line.action = [store] { return store().unpin(); }; });

  CLI::App* rollback = command.add_subcommand("rollback", "Pin the version before the served one");
  rollback->callback([&line, store] {
    line.action = [store]() -> base::Result<void> {
      SF_ASSIGN(const auto rollback, store().rollback());
      for (const std::string& skipped : rollback.skipped) fmt::print(stderr, "{}\n", skipped);
      fmt::print("pinned at version {}\n", rollback.version);
      return {};
    };
  });

  CLI::App* export_to =
      command.add_subcommand("export", "Write the served version to a folder, as one file");
  export_to->add_option("dir", options->export_dir, "The folder")->required();
  export_to->callback([&line, store, options] {
    line.action = [store, options]() -> base::Result<void> {
      SF_ASSIGN(const std::uint64_t version, store().export_to(options->export_dir));
      fmt::print("version {} is in {}\n", version, options->export_dir);
      return {};
    };
  });

  for (CLI::App* each : {list, pin, unpin, rollback, export_to}) each->fallthrough();
}

}  // namespace sirenfeed::app
