#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "app/command_line.h"
#include "model/model_file.h"
#include "model/ranker.h"
#include "model/slate_json.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

struct ScoreOptions {
  std::string model_file;
  std::string examples_file = "-";
};

base::Result<void> score_lines(const model::Model& model, std::istream& lines,
                               const std::string& name) {
  SF_ASSIGN(const auto ranker, model::make_ranker(model.config));
  model::Workspace workspace;
  std::vector<float> logits;
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const auto slate = model::slate_from_json(model.config, line);
    if (!slate) {
      return fail(slate.error().code, "{}:{}: {}", name, number, slate.error().message);
    }
    logits.assign(slate->candidates.size() * model.config.n_tasks(), 0.0F);
    if (auto scored = model::score(*ranker, model, *slate, workspace, logits); !scored) {
      return fail(scored.error().code, "{}:{}: {}", name, number, scored.error().message);
    }
    const auto bad =
        std::find_if(logits.begin(), logits.end(), [](float z) { return !std::isfinite(z); });
    if (bad != logits.end()) {
      const auto candidate =
          static_cast<std::size_t>(bad - logits.begin()) / model.config.n_tasks();
      return fail(ErrorCode::kCorrupt,
                  "{}:{}: the model's logit of candidates[{}] is not finite: the model is damaged, "
                  "or the example far outside what it has learned",
                  name, number, candidate);
    }
    std::cout << model::logits_to_json(logits, model.config.n_tasks()) << '\n';
  }
  if (lines.bad()) return fail(ErrorCode::kStorage, "{}: cannot be read to its end", name);
  std::cout.flush();
  if (!std::cout) return fail(ErrorCode::kStorage, "cannot write to standard output");
  return {};
}

base::Result<void> run_score(const ScoreOptions& options) {
  SF_ASSIGN(const model::Model model, model::load_model(options.model_file));
  if (options.examples_file == "-") return score_lines(model, std::cin, "standard input");
  std::ifstream file(options.examples_file);
  if (!file || std::filesystem::is_directory(options.examples_file)) {
    return fail(ErrorCode::kNotFound, "{}: cannot be read; expected a file of JSON lines",
                options.examples_file);
  }
  return score_lines(model, file, options.examples_file);
}

}  // namespace

void add_score_command(CommandLine& line) {
  auto options = std::make_shared<ScoreOptions>();
  CLI::App& command = add_command(
      line, "score", "Score examples with a model file: one JSON line of logits a line of examples",
      "  sirenfeed score --model model.safetensors --examples examples.jsonl\n"
      "  sirenfeed evaluate log.csv.gz --format kuairand --dump-examples ex.jsonl --limit 100 \\\n"
      "    --save-model m && sirenfeed score --model m/model.safetensors --examples ex.jsonl");
  command.add_option("--model", options->model_file, "model.safetensors")->required();
  command.add_option("--examples", options->examples_file, "JSON lines; - is standard input")
      ->capture_default_str();
  command.callback([&line, options] { line.action = [options] { return run_score(*options); }; });
}

}  // namespace sirenfeed::app
