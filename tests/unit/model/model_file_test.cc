#include "model/model_file.h"

#include <cstring>
#include <limits>
#include <set>

#include "model/file_io.h"
#include "model/safetensors.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

Model sample(Variant variant = Variant::kSiren) {
  Model model = *make_model(test::small_config(variant));
  test::perturb(model, 31);
  return model;
}

/// The error of reading `bytes`, or "" when it is accepted.
std::string refusal(std::string_view bytes) {
  const auto model = decode_model(bytes);
  return model ? "" : model.error().message;
}

/// The file with its parsed content changed by `edit`.
template <class Edit>
std::string edited(const std::string& bytes, Edit edit) {
  SafetensorsView content = *parse_safetensors(bytes);
  edit(content);
  return write_safetensors(content);
}

TEST(ModelFile, RoundTripKeepsEveryByteAndScore) {
  for (const Variant variant : {Variant::kSiren, Variant::kOrdinal, Variant::kSirenAlibiTime}) {
    const Model model = sample(variant);
    const std::string bytes = encode_model(model);
    const auto read = decode_model(bytes);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(encode_model(*read), bytes);
    EXPECT_EQ(read->dense, model.dense);
    EXPECT_EQ(read->statistics.context_examples, 1000U);
    const auto ranker = *make_ranker(model.config);
    const auto slates = test::seeded_slates(model.config, 4, 32);
    Workspace workspace;
    const auto z = ranker->forward(model, test::pointers(slates), workspace);
    const std::vector<float> before(z.begin(), z.end());
    const auto again = ranker->forward(*read, test::pointers(slates), workspace);
    EXPECT_EQ(std::vector<float>(again.begin(), again.end()), before);
  }
}

TEST(ModelFile, TheOraclesFilesSurviveARewrite) {
  const std::string bytes =
      test::read_text(test::golden_path("model_siren_small/model.safetensors"));
  const auto model = decode_model(bytes);
  ASSERT_TRUE(model) << model.error().message;
  const std::string rewritten = encode_model(*model);
  const SafetensorsView theirs = *parse_safetensors(bytes);
  const SafetensorsView ours = *parse_safetensors(rewritten);
  ASSERT_EQ(theirs.tensors.size(), ours.tensors.size());
  for (const auto& [name, tensor] : theirs.tensors) {
    ASSERT_TRUE(ours.tensors.contains(name)) << name;
    EXPECT_EQ(ours.tensors.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(ours.tensors.at(name).bytes, tensor.bytes) << name;
  }
}

TEST(ModelFile, ATruncatedFileIsRefusedAtEveryLength) {
  const std::string bytes = encode_model(sample());
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 37) {
    EXPECT_NE(refusal(std::string_view(bytes).substr(0, size)), "") << size;
  }
  EXPECT_NE(refusal(bytes + "x"), "");
  EXPECT_EQ(refusal(bytes), "");
}

TEST(ModelFile, FlippedHeaderBytesNeverCrash) {
  const std::string bytes = encode_model(sample());
  for (std::size_t at = 0; at < 3000; at += 7) {
    std::string broken = bytes;
    broken[at] = static_cast<char>(broken[at] ^ 0x15);
    (void)refusal(broken);
  }
}

TEST(ModelFile, NamesTheTensorThatIsWrong) {
  const std::string bytes = encode_model(sample());
  const auto missing = edited(bytes, [](auto& c) { c.tensors.erase("rotary.lambda"); });
  EXPECT_EQ(refusal(missing), "tensor 'rotary.lambda' is missing");
  const auto unknown =
      edited(bytes, [](auto& c) { c.tensors["extra"] = c.tensors["rotary.omega"]; });
  EXPECT_EQ(refusal(unknown), "unknown tensor 'extra' for this variant");
  const auto shape = edited(bytes, [](auto& c) { c.tensors["head.1.weight"].shape = {32, 128}; });
  EXPECT_NE(refusal(shape).find("'head.1.weight' has shape [32, 128], expected [64, 64]"),
            std::string::npos);
  const auto dtype = edited(
      bytes, [](auto& c) { c.tensors["calibration.scale"] = c.tensors["embedding.item.keys"]; });
  EXPECT_NE(refusal(dtype).find("'calibration.scale' has the wrong dtype"), std::string::npos);
}

TEST(ModelFile, RefusesNumbersThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Model model = sample();
    model.table(TableId::kItem).row_at(0)[1] = bad;
    EXPECT_NE(refusal(encode_model(model)).find("embedding.item.weight"), std::string::npos);
    Model other = sample();
    other.tensor("pooling.empty")[0] = bad;
    EXPECT_NE(refusal(encode_model(other)).find("pooling.empty"), std::string::npos);
  }
}

TEST(ModelFile, RefusesTablesOutOfOrder) {
  const std::string bytes = encode_model(sample());
  const std::vector<std::int64_t> keys = {3, 2, 1, 4, 5, 6, 7, 8};
  const auto broken = edited(bytes, [&](SafetensorsView& c) {
    c.tensors["embedding.item.keys"].bytes = {reinterpret_cast<const char*>(keys.data()), 64};
  });
  EXPECT_NE(refusal(broken).find("ascending"), std::string::npos);
}

TEST(ModelFile, MissingFilesAreNotFound) {
  const auto model = load_model("/nonexistent/model.safetensors");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, base::ErrorCode::kNotFound);
  EXPECT_NE(model.error().message.find("/nonexistent/model.safetensors"), std::string::npos);
}

TEST(ModelConfig, RoundTripsThroughJson) {
  ModelConfig config = test::small_config(Variant::kSirenTimeBias);
  config.context_surfaces = {"0", "home"};
  config.residual_learned = true;
  config.zone_offset_ms = -3'600'000;
  const auto parsed = config_from_json(config_to_json(config, 77));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(config_to_json(parsed->config, parsed->context_examples), config_to_json(config, 77));
}

TEST(ModelConfig, EveryKeyThatIsNotOptionalIsRequired) {
  const std::string text = config_to_json(test::small_config(Variant::kSiren), 0);
  const boost::json::value value = boost::json::parse(text);
  for (const auto& [key, ignored] : value.get_object()) {
    const std::string name(std::string_view{key});
    static const std::set<std::string> kOptional = {
        "context_surfaces", "residual_learned",    "residual_start",   "lambda_learned",
        "omega_learned",    "paper_init",          "per_layer_angles", "history_kind",
        "towers",           "tower_context_names", "tower_tasks",      "isotonic_knots",
        "key_hash"};
    if (kOptional.contains(name)) continue;
    boost::json::object without = value.get_object();
    without.erase(name);
    const auto parsed = config_from_json(boost::json::serialize(without));
    ASSERT_FALSE(parsed) << name;
    EXPECT_NE(parsed.error().message.find("'" + name + "'"), std::string::npos);
  }
}

TEST(ModelConfig, KeysOfAnotherHashAreRefused) {
  boost::json::object config =
      boost::json::parse(config_to_json(test::small_config(Variant::kSiren), 0)).as_object();
  EXPECT_EQ(config.at("key_hash"), "xxh3_64");
  config["key_hash"] = "murmur3_64";
  const auto refused = config_from_json(boost::json::serialize(config));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("ids were hashed with 'murmur3_64'"), std::string::npos);
  config.erase("key_hash");  // files from before it was said
  EXPECT_TRUE(config_from_json(boost::json::serialize(config)));
}

TEST(ModelConfig, ValidateNamesTheBadField) {
  const auto fault = [](auto change) {
    ModelConfig config;
    change(config);
    const auto valid = config.validate();
    return valid ? std::string() : valid.error().message;
  };
  EXPECT_EQ(fault([](ModelConfig&) {}), "");
  EXPECT_NE(fault([](ModelConfig& c) { c.heads = 3; }).find("heads"), std::string::npos);
  EXPECT_NE(fault([](ModelConfig& c) { c.omega0 = 0; }).find("omega0"), std::string::npos);
  EXPECT_NE(fault([](ModelConfig& c) { c.tasks = {"a", "a"}; }).find("tasks"), std::string::npos);
  EXPECT_NE(fault([](ModelConfig& c) { c.history_max = 0; }).find("history_max"),
            std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::model
