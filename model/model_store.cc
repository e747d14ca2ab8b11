#include "model/model_store.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/hash.h"
#include "model/file_io.h"
#include "model/model_file.h"

namespace sirenfeed::model {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using base::ErrorCode;
using base::fail;

constexpr double kCanaryTolerance = 1e-3;

std::string versions_dir(const std::string& dir) { return dir + "/versions"; }
std::string version_dir(const std::string& dir, std::uint64_t version) {
  return versions_dir(dir) + "/" + std::to_string(version);
}

std::optional<std::uint64_t> parse_version(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc{} || end != text.data() + text.size() || version == 0) return std::nullopt;
  return version;
}

/// The version that a pointer file names; nullopt where the file is absent.
base::Result<std::optional<std::uint64_t>> read_pointer(const std::string& path) {
  const auto text = read_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::optional<std::uint64_t>();
  if (!text) return fail(text.error());
  const auto version = parse_version(*text);
  if (!version) return fail(ErrorCode::kCorrupt, "{}: not a version number", path);
  return version;
}

/// Version numbers that have a folder, ascending.
base::Result<std::vector<std::uint64_t>> list_versions(const std::string& dir) {
  std::vector<std::uint64_t> versions;
  std::error_code error;
  for (fs::directory_iterator entry(versions_dir(dir), error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto version = parse_version(entry->path().filename().string())) {
      versions.push_back(*version);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::kStorage, "{}: cannot list: {}", versions_dir(dir), error.message());
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

base::Result<void> make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return fail(ErrorCode::kStorage, "{}: cannot create: {}", path, error.message());
  return {};
}

std::string manifest_to_json(const Manifest& manifest) {
  json::object object;
  object["version"] = manifest.version;
  object["created_ms"] = manifest.created_ms;
  object["variant"] = manifest.variant;
  object["bytes"] = manifest.bytes;
  object["xxh3_64"] = fmt::format("{:016x}", manifest.xxh3);
  object["canary_logits"] = json::value_from(manifest.canary_logits);
  boost::system::error_code error;
  json::value metrics = json::parse(manifest.metrics_json, error);
  object["metrics"] = error ? json::value(json::object{}) : std::move(metrics);
  return json::serialize(object) + "\n";
}

base::Result<Manifest> manifest_from_json(const std::string& path, std::string_view text) {
  boost::system::error_code error;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  const json::object* object = error ? nullptr : value.if_object();
  if (object == nullptr) return fail(ErrorCode::kCorrupt, "{}: not a JSON object", path);
  const auto find = [&](const char* key) { return object->if_contains(key); };
  const json::value* canary = find("canary_logits");
  const json::value* hash = find("xxh3_64");
  const json::value* variant = find("variant");
  if (canary == nullptr || !canary->is_array() || hash == nullptr || !hash->is_string() ||
      variant == nullptr || !variant->is_string()) {
    return fail(ErrorCode::kCorrupt, "{}: expected canary_logits, xxh3_64 and variant", path);
  }
  Manifest manifest;
  manifest.variant = std::string(std::string_view(variant->get_string()));
  const std::string_view digits(hash->get_string());
  const auto parsed =
      std::from_chars(digits.data(), digits.data() + digits.size(), manifest.xxh3, 16);
  bool good = parsed.ec == std::errc{} && parsed.ptr == digits.data() + digits.size();
  const auto number = [&](const char* key, auto& out) {
    const json::value* field = find(key);
    boost::system::error_code failed;
    if (field != nullptr) out = field->to_number<std::decay_t<decltype(out)>>(failed);
    good = good && field != nullptr && !failed;
  };
  number("version", manifest.version);
  number("created_ms", manifest.created_ms);
  number("bytes", manifest.bytes);
  for (const json::value& logit : canary->get_array()) {
    boost::system::error_code failed;
    manifest.canary_logits.push_back(logit.to_number<double>(failed));
    good = good && !failed;
  }
  if (!good) return fail(ErrorCode::kCorrupt, "{}: a number is missing or malformed", path);
  if (const json::value* metrics = find("metrics"))
    manifest.metrics_json = json::serialize(*metrics);
  return manifest;
}

base::Result<Manifest> read_manifest(const std::string& dir, std::uint64_t version) {
  const std::string path = version_dir(dir, version) + "/manifest.json";
  SF_ASSIGN(const std::string text, read_file(path));
  SF_ASSIGN(Manifest manifest, manifest_from_json(path, text));
  if (manifest.version != version) {
    return fail(ErrorCode::kCorrupt, "{}: is of version {}", path, manifest.version);
  }
  return manifest;
}

/// Calibrated logits of the canary slates; kCorrupt when one is not finite.
base::Result<std::vector<double>> score_canaries(const Model& model, const Ranker& ranker) {
  Workspace workspace;
  std::vector<double> all;
  for (const Slate& slate : canary_slates(model)) {
    std::vector<float> logits(slate.candidates.size() * model.config.n_tasks());
    SF_TRY(score(ranker, model, slate, workspace, logits));
    for (const float logit : logits) {
      if (!std::isfinite(logit)) {
        return fail(ErrorCode::kCorrupt, "canary scoring gives a logit that is not finite");
      }
      all.push_back(static_cast<double>(logit));
    }
  }
  return all;
}

base::Result<void> check_canaries(const std::vector<double>& expected,
                                  const std::vector<double>& actual) {
  if (expected.size() != actual.size()) {
    return fail(ErrorCode::kCorrupt, "canary scoring gives {} logits, the manifest has {}",
                actual.size(), expected.size());
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double allowed = kCanaryTolerance * std::max(1.0, std::abs(expected[i]));
    if (!(std::abs(actual[i] - expected[i]) <= allowed)) {
      return fail(ErrorCode::kCorrupt, "canary logit {} is {}, the manifest has {}", i, actual[i],
                  expected[i]);
    }
  }
  return {};
}

}  // namespace

std::vector<Slate> canary_slates(const Model& model) {
  constexpr std::size_t kKeys = 8;
  const auto keys_of = [&](TableId id) {
    // In key order, which does not depend on how the table came to be.
    const EmbeddingTable& table = model.table(id);
    std::vector<Key> keys;
    for (const std::uint32_t index : table.sorted_indices()) {
      if (keys.size() == kKeys) break;
      keys.push_back(table.key_at(index));
    }
    keys.push_back(1);  // and one that has no row, most likely
    return keys;
  };
  const std::vector<Key> items = keys_of(TableId::kItem);
  const std::vector<Key> tags = keys_of(TableId::kTag);
  const std::vector<Key> authors = keys_of(TableId::kAuthor);
  std::vector<Slate> slates(2);  // with a history and without
  for (std::size_t s = 0; s < slates.size(); ++s) {
    Slate& slate = slates[s];
    slate.time_ms = model.config.time_reference_ms + model.config.time_span_ms / 4;
    const auto item = [&](std::size_t i) {
      const auto begin = static_cast<std::uint32_t>(slate.tags.size());
      slate.tags.push_back(tags[i % tags.size()]);
      slate.tags.push_back(tags[(i + 1) % tags.size()]);
      return ItemRef{items[i % items.size()], authors[i % authors.size()], begin, begin + 2};
    };
    const std::size_t tokens =
        s == 0 ? 0 : std::min<std::size_t>(12, static_cast<std::size_t>(model.config.history_max));
    for (std::size_t i = 0; i < tokens; ++i) {
      const auto age_ms = static_cast<std::int64_t>((tokens - i) * (tokens - i)) * 1'234'567;
      slate.history.push_back({item(i), slate.time_ms - age_ms, static_cast<std::uint32_t>(i)});
    }
    for (std::size_t c = 0; c < 4; ++c) slate.candidates.push_back(item(c + 5));
    for (std::size_t i = 0; i < 4 * model.config.context_row_width(); ++i) {
      slate.context.push_back(static_cast<float>(std::sin(static_cast<double>(i))));
    }
  }
  return slates;
}

base::Result<void> ModelStoreConfig::validate() const {
  if (dir.empty()) return fail(ErrorCode::kInvalidArgument, "model store: dir is empty");
  if (keep_max == 0) return fail(ErrorCode::kInvalidArgument, "model store: keep_max is 0");
  return {};
}

base::Result<ModelStoreWriter> ModelStoreWriter::open(ModelStoreConfig config) {
  SF_TRY(config.validate());
  SF_TRY(make_folder(versions_dir(config.dir)));
  SF_ASSIGN(const std::vector<std::uint64_t> versions, list_versions(config.dir));
  SF_ASSIGN(const auto current, read_pointer(config.dir + "/CURRENT"));
  // What a crash left half written.
  std::error_code ignored;
  fs::remove_all(versions_dir(config.dir) + "/writing", ignored);
  ModelStoreWriter writer(std::move(config));
  writer.last_version_ = std::max(versions.empty() ? 0 : versions.back(), current.value_or(0));
  return writer;
}

base::Result<std::uint64_t> ModelStoreWriter::publish(const Model& model, std::int64_t now_ms,
                                                      const std::string& metrics_json) {
  const std::string bytes = encode_model(model);
  // What readers will refuse is not published: the same checks, on the bytes themselves.
  auto decoded = decode_model(bytes);
  if (!decoded) {
    return fail(ErrorCode::kInternal, "not published: {}", decoded.error().message);
  }
  SF_ASSIGN(const auto ranker, make_ranker(decoded->config));
  auto canary_logits = score_canaries(*decoded, *ranker);
  if (!canary_logits) {
    return fail(ErrorCode::kInternal, "not published: {}", canary_logits.error().message);
  }
  Manifest manifest;
  manifest.version = last_version_ + 1;
  manifest.created_ms = now_ms;
  manifest.variant = variant_name(model.config.variant);
  manifest.bytes = bytes.size();
  manifest.xxh3 = base::xxh3_64(bytes);
  manifest.canary_logits = *std::move(canary_logits);
  manifest.metrics_json = metrics_json;

  const std::string writing = versions_dir(config_.dir) + "/writing";
  SF_TRY(make_folder(writing));
  SF_TRY(write_file(writing + "/model.safetensors", bytes));
  SF_TRY(write_file(writing + "/manifest.json", manifest_to_json(manifest)));
  SF_TRY(sync_folder(writing));
  std::error_code error;
  fs::rename(writing, version_dir(config_.dir, manifest.version), error);
  if (error) {
    return fail(ErrorCode::kStorage, "{}: cannot rename into place: {}", writing, error.message());
  }
  SF_TRY(sync_folder(versions_dir(config_.dir)));
  last_version_ = manifest.version;
  SF_TRY(replace_file(config_.dir + "/CURRENT", std::to_string(manifest.version) + "\n"));
  prune();
  return manifest.version;
}

/// A version that cannot be removed now is tried again after the next publication.
void ModelStoreWriter::prune() {
  const auto versions = list_versions(config_.dir);
  const auto pinned = read_pointer(config_.dir + "/PINNED");
  if (!versions || !pinned) return;
  for (std::size_t i = 0; i + config_.keep_max < versions->size(); ++i) {
    if (*pinned == (*versions)[i]) continue;
    std::error_code ignored;
    fs::remove_all(version_dir(config_.dir, (*versions)[i]), ignored);
  }
}

base::Result<std::optional<std::uint64_t>> ModelStoreReader::pinned() const {
  return read_pointer(dir_ + "/PINNED");
}

base::Result<std::optional<std::uint64_t>> ModelStoreReader::wanted() const {
  SF_ASSIGN(const auto pin, pinned());
  if (pin) return pin;
  return read_pointer(dir_ + "/CURRENT");
}

base::Result<std::shared_ptr<const ModelSnapshot>> ModelStoreReader::load(
    std::uint64_t version) const {
  const auto refuse = [version](const base::Error& error) {
    return fail(error.code, "model version {} refused: {}", version, error.message);
  };
  auto snapshot = std::make_shared<ModelSnapshot>();
  auto manifest = read_manifest(dir_, version);
  if (!manifest) return refuse(manifest.error());
  snapshot->manifest = *std::move(manifest);
  const auto bytes = read_file(version_dir(dir_, version) + "/model.safetensors");
  if (!bytes) return refuse(bytes.error());
  if (bytes->size() != snapshot->manifest.bytes ||
      base::xxh3_64(*bytes) != snapshot->manifest.xxh3) {
    return refuse(
        {ErrorCode::kCorrupt, "the check-sum of model.safetensors is not the manifest's"});
  }
  auto model = decode_model(*bytes);
  if (!model) return refuse(model.error());
  snapshot->model = *std::move(model);
  auto ranker = make_ranker(snapshot->model.config);
  if (!ranker) return refuse(ranker.error());
  snapshot->ranker = *std::move(ranker);
  const auto logits = score_canaries(snapshot->model, *snapshot->ranker);
  if (!logits) return refuse(logits.error());
  if (auto same = check_canaries(snapshot->manifest.canary_logits, *logits); !same) {
    return refuse(same.error());
  }
  return snapshot;
}

base::Result<std::shared_ptr<const ModelSnapshot>> ModelStoreReader::poll() {
  SF_ASSIGN(const auto version, wanted());
  if (!version || *version == last_polled_) return std::shared_ptr<const ModelSnapshot>();
  auto snapshot = load(*version);
  // A version may be pruned between the two reads; the next poll sees its successor.
  if (!snapshot && snapshot.error().code == ErrorCode::kNotFound) {
    const auto again = wanted();
    if (again && *again && **again != *version) return std::shared_ptr<const ModelSnapshot>();
  }
  // What the disk would not give now it may give next time; a version that is wrong stays wrong.
  if (snapshot || snapshot.error().code != ErrorCode::kStorage) last_polled_ = *version;
  return snapshot;
}

base::Result<std::vector<Manifest>> ModelStoreReader::list() const {
  SF_ASSIGN(const std::vector<std::uint64_t> versions, list_versions(dir_));
  std::vector<Manifest> manifests;
  for (const std::uint64_t version : versions) {
    if (auto manifest = read_manifest(dir_, version)) manifests.push_back(*std::move(manifest));
  }
  return manifests;
}

base::Result<void> ModelStoreReader::pin(std::uint64_t version) {
  SF_TRY(load(version));
  return replace_file(dir_ + "/PINNED", std::to_string(version) + "\n");
}

base::Result<void> ModelStoreReader::unpin() {
  std::error_code error;
  const bool was_pinned = fs::remove(dir_ + "/PINNED", error);
  if (error) {
    return fail(ErrorCode::kStorage, "{}/PINNED: cannot remove: {}", dir_, error.message());
  }
  if (!was_pinned) return {};
  return sync_folder(dir_);
}

base::Result<std::uint64_t> ModelStoreReader::rollback() {
  SF_ASSIGN(const auto version, wanted());
  SF_ASSIGN(const std::vector<std::uint64_t> versions, list_versions(dir_));
  for (std::size_t i = versions.size(); version && i-- > 0;) {
    if (versions[i] >= *version) continue;
    // An older version that would be refused is no help; go on to the one before.
    if (pin(versions[i])) return versions[i];
  }
  return fail(ErrorCode::kNotFound, "{}: no older model version to roll back to", dir_);
}

base::Result<std::uint64_t> ModelStoreReader::export_to(const std::string& out_dir) const {
  SF_ASSIGN(const auto version, wanted());
  if (!version) return fail(ErrorCode::kNotFound, "{}: no model version yet", dir_);
  SF_TRY(load(*version));
  SF_TRY(make_folder(out_dir));
  for (const char* name : {"/model.safetensors", "/manifest.json"}) {
    SF_ASSIGN(const std::string bytes, read_file(version_dir(dir_, *version) + name));
    SF_TRY(write_file(out_dir + name, bytes));
  }
  return *version;
}

}  // namespace sirenfeed::model
