#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "app/command_line.h"
#include "app/evaluation.h"
#include "app/evaluation_report.h"
#include "app/progress_line.h"
#include "app/replay_convention.h"
#include "model/model_file.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

struct EvaluateOptions {
  EvaluationOptions run;
  std::string format = "events";
  std::vector<std::string> windows;
  std::string predictions;
  std::string json_file;
  std::string dump_examples;
  std::size_t dump_limit = 1000;
  std::string save_model;
};

base::Result<void> write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return fail(ErrorCode::kStorage, "{}: cannot be written", path);
  return {};
}

/// OUT.csv, or OUT.VARIANT.SEED.csv where there are several models.
std::string named_for(const std::string& path, const EvaluatedModel& model, bool several) {
  if (!several) return path;
  const std::filesystem::path whole(path);
  const std::string extension = whole.extension().string();
  return path.substr(0, path.size() - extension.size()) + "." + model.variant + "." +
         std::to_string(model.seed) + extension;
}

base::Result<void> write_outputs(const EvaluateOptions& options, const Settings& settings,
                                 const Evaluation& evaluation,
                                 const std::vector<WindowReport>& reports) {
  const bool several = evaluation.models.size() > 1;
  for (const EvaluatedModel& model : evaluation.models) {
    if (!options.predictions.empty()) {
      SF_TRY(write_predictions(named_for(options.predictions, model, several), model.result,
                               settings.model.tasks));
    }
    if (!options.save_model.empty()) {
      const std::string dir =
          several ? options.save_model + "/" + model.variant + "." + std::to_string(model.seed)
                  : options.save_model;
      std::error_code error;
      std::filesystem::create_directories(dir, error);
      if (error) return fail(ErrorCode::kStorage, "{}: {}", dir, error.message());
      SF_TRY(model::save_model(model.model, dir + "/model.safetensors"));
    }
  }
  if (!options.dump_examples.empty()) {
    std::string lines;
    for (const std::string& line : evaluation.example_lines) lines += line + '\n';
    SF_TRY(write_text(options.dump_examples, lines));
  }
  if (!options.json_file.empty()) {
    const std::string text = report_json(options.run, evaluation, reports) + '\n';
    if (options.json_file == "-") {
      fmt::print("{}", text);
    } else {
      SF_TRY(write_text(options.json_file, text));
    }
  }
  return {};
}

base::Result<void> run_evaluate(EvaluateOptions& options, const Settings& settings) {
  std::vector<EvaluationWindow> windows;
  for (const std::string& text : options.windows) {
    SF_ASSIGN(const EvaluationWindow window, parse_window(text));
    windows.push_back(window);
  }
  if (options.run.seeds == 0) {
    return fail(ErrorCode::kInvalidArgument, "--seeds: expected at least 1");
  }
  options.run.dump_examples = options.dump_examples.empty() ? 0 : options.dump_limit;
  ProgressLine progress("evaluating");
  SF_ASSIGN(const Evaluation evaluation,
            evaluate(options.run, settings, [&](double share, std::uint64_t exposures) {
              progress.update(share, exposures, "exposures");
            }));
  progress.finish();
  if (windows.empty()) windows = default_windows(evaluation);
  const auto reports = report_windows(evaluation, settings.model.tasks, windows);
  SF_TRY(write_outputs(options, settings, evaluation, reports));
  if (options.json_file != "-") {
    fmt::print("{} exposures in {:.1f} s, {} records rejected\n{}",
               evaluation.models.front().result.rows.size(), evaluation.seconds,
               evaluation.records_rejected, report_table(reports));
  }
  return {};
}

}  // namespace

void add_evaluate_command(CommandLine& line) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App& command = add_command(
      line, "evaluate",
      "One causal pass over a recorded input: every exposure is predicted before it is learned",
      "  sirenfeed evaluate impressions.csv.gz --format kuairand --json out.json\n"
      "  sirenfeed evaluate events.ndjson.gz --variants siren,ordinal --seeds 3 \\\n"
      "    --window 2022-04-30T16:00Z..2022-05-04T16:00Z --predictions p.csv");
  command.add_option("file", options->run.file, "The input, may be gzipped; - is standard input")
      ->required();
  command.add_option("--format", options->format, "events or kuairand")->capture_default_str();
  command
      .add_option("--variant,--variants", options->run.variants,
                  "Model variants, comma separated, over the same features")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--seeds", options->run.seeds, "Runs of each variant, from --seed upwards")
      ->capture_default_str();
  command.add_option("--window", options->windows,
                     "FROM..TO to report on (repeatable; default: all, and the last 4 days)");
  command.add_option("--predictions", options->predictions, "CSV of every prediction");
  command.add_option("--json", options->json_file, "The report as JSON; - is standard output");
  command.add_option("--dump-examples", options->dump_examples,
                     "The newest scored examples as `score` reads them, JSON lines");
  command.add_option("--limit", options->dump_limit, "How many of them")->capture_default_str();
  command.add_option("--save-examples", options->run.examples_file,
                     "Every closed example as in topic examples (u32 length, protobuf)");
  command.add_option("--save-model", options->save_model, "Folder for the final model");
  command.callback([&line, options] {
    line.prepare = [&line, options] {
      return apply_replay_convention(line.root, options->format, line.settings);
    };
    line.action = [&line, options]() -> base::Result<void> {
      const auto format = ingest::replay_format_from_name(options->format);
      if (!format) {
        return fail(ErrorCode::kInvalidArgument, "--format: expected events or kuairand, got '{}'",
                    options->format);
      }
      options->run.format = *format;
      return run_evaluate(*options, line.settings);
    };
  });
}

}  // namespace sirenfeed::app
