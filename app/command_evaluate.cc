#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "app/command_line.h"
#include "app/evaluation.h"
#include "app/evaluation_output.h"
#include "app/progress_line.h"
#include "app/replay_arguments.h"
#include "app/replay_convention.h"
#include "model/model_file.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

struct EvaluateOptions {
  EvaluationOptions run;
  ReportOptions report;
  ReplayArguments replay;
  std::vector<std::string> windows;
  std::string predictions;
  std::string json_file;
  std::string html_file;
  std::string markdown_file;
  std::string dump_examples;
  std::size_t dump_limit = 1000;
  std::string save_model;
  bool as_it_came = false;  // lines of an events file need not be in time order
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

base::Result<void> write_models(const EvaluateOptions& options, const Settings& settings,
                                const Evaluation& evaluation) {
  const bool several = evaluation.models.size() > 1;
  for (std::size_t i = 0; i < evaluation.models.size(); ++i) {
    const EvaluatedModel& model = evaluation.models[i];
    if (!options.predictions.empty()) {
      SF_TRY(write_predictions(named_for(options.predictions, model, several), evaluation, i,
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
  if (options.dump_examples.empty()) return {};
  std::string lines;
  for (const std::string& line : evaluation.example_lines) lines += line + '\n';
  return write_text(options.dump_examples, lines);
}

base::Result<void> write_report(const EvaluateOptions& options, const Evaluation& evaluation,
                                const EvaluationReport& report) {
  if (!options.markdown_file.empty()) {
    SF_TRY(write_text(options.markdown_file, report_table(report, TableStyle::kMarkdown)));
  }
  if (!options.json_file.empty() || !options.html_file.empty()) {
    const ReportOrigin origin{options.run.file, options.replay.format, options.run.shuffle_times};
    const std::string text = report_json(origin, evaluation, report);
    if (!options.html_file.empty()) SF_TRY(write_text(options.html_file, report_html(text)));
    if (options.json_file == "-") {
      fmt::print("{}\n", text);
    } else if (!options.json_file.empty()) {
      SF_TRY(write_text(options.json_file, text + '\n'));
    }
  }
  if (options.json_file == "-") return {};
  fmt::print("{} exposures in {:.1f} s, {} records rejected\n{}{}", evaluation.rows.size(),
             evaluation.seconds, evaluation.records_rejected,
             report_table(report, TableStyle::kText), report_signals(evaluation));
  return {};
}

base::Result<void> check_options(const EvaluateOptions& options, bool baseline_given) {
  if (options.run.seeds == 0) {
    return fail(ErrorCode::kInvalidArgument, "--seeds: expected at least 1");
  }
  const auto& variants = options.run.variants;
  std::set<std::string> distinct;
  for (const std::string& variant : variants) {
    if (!distinct.insert(variant).second) {
      return fail(ErrorCode::kInvalidArgument, "--variant: {} is named twice", variant);
    }
  }
  if (baseline_given && !distinct.contains(options.report.baseline)) {
    return fail(ErrorCode::kInvalidArgument, "--baseline: {} is not among the variants ({})",
                options.report.baseline, fmt::join(variants, ", "));
  }
  return options.report.slices.validate();
}

base::Result<void> run_evaluate(EvaluateOptions& options, const Settings& settings,
                                bool baseline_given) {
  for (const std::string& text : options.windows) {
    SF_ASSIGN(const EvaluationWindow window, parse_window(text));
    options.report.windows.push_back(window);
  }
  SF_TRY(check_options(options, baseline_given));
  options.run.dump_examples = options.dump_examples.empty() ? 0 : options.dump_limit;
  options.report.tasks = settings.model.tasks;
  options.report.slices.zone_offset_ms = settings.model.zone_offset_ms;
  ProgressLine progress("evaluating");
  SF_ASSIGN(const Evaluation evaluation,
            evaluate(options.run, settings, [&](double share, std::uint64_t exposures) {
              progress.update(share, exposures, "exposures");
            }));
  progress.finish();
  SF_TRY(write_models(options, settings, evaluation));
  if (options.report.windows.empty()) options.report.windows = default_windows(evaluation);
  ProgressLine measuring("measuring");
  const EvaluationReport report = make_report(evaluation, options.report, [&](double share) {
    measuring.update(share, static_cast<std::uint64_t>(100 * share), "%");
  });
  measuring.finish();
  return write_report(options, evaluation, report);
}

/// What the table is about; returns --baseline.
CLI::Option* add_report_options(CLI::App& command, ReportOptions& report) {
  CLI::Option* baseline =
      command
          .add_option("--baseline", report.baseline, "Variant that the others are compared with")
          ->capture_default_str();
  command
      .add_option("--bootstrap", report.resamples,
                  "Resamples of the users for the intervals of differences; 0: none")
      ->check(CLI::Range(std::size_t{0}, kResamplesMax))
      ->capture_default_str();
  command.add_option("--bootstrap-seed", report.resample_seed, "Seed of the resamples")
      ->capture_default_str();
  command
      .add_option("--cold-item", report.slices.cold_item_exposures,
                  "Items shown less often before are cold")
      ->capture_default_str();
  command
      .add_option("--cold-user", report.slices.cold_user_exposures,
                  "Users shown fewer items before are cold")
      ->capture_default_str();
  command
      .add_option("--head-share", report.slices.head_item_share,
                  "Share of the items, the most shown ones, that is not the long tail")
      ->capture_default_str();
  return baseline;
}

}  // namespace

void add_evaluate_command(CommandLine& line) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App& command = add_command(
      line, "evaluate",
      "One causal pass over a recorded input: every exposure is predicted before it is learned",
      "  sirenfeed evaluate impressions.csv.gz --format kuairand --json out.json\n"
      "  sirenfeed evaluate ml-25m/ratings.csv --format movielens --click-min 4\n"
      "  sirenfeed evaluate events.ndjson.gz --variant ordinal,siren --seeds 3 --html report.html "
      "\\\n    --window 2022-04-30T16:00Z..2022-05-04T16:00Z\n"
      "  sirenfeed evaluate events.ndjson.gz --shuffle-times --predictions p.csv");
  command.add_option("file", options->run.file, "The input, may be gzipped; - is standard input")
      ->required();
  add_replay_arguments(command, options->replay);
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
  command.add_option("--html", options->html_file, "The report as one HTML file with plots");
  command.add_option("--markdown", options->markdown_file, "The table as Markdown");
  command.add_flag("--shuffle-times", options->run.shuffle_times,
                   "Control: permute the times within each history, so that time tells nothing");
  command.add_flag("--frozen-users", options->run.frozen_users,
                   "Also predict for each user as at the day's first impression: a fair GAUC");
  command.add_option("--jobs", options->run.jobs, "Models worked on at once; 0: all cores")
      ->capture_default_str();
  command.add_flag("--as-it-came", options->as_it_came,
                   "events: apply the lines in their order; one that comes late is late, and a "
                   "late action corrects its example");
  CLI::Option* baseline = add_report_options(command, options->report);
  command.add_option("--dump-examples", options->dump_examples,
                     "The newest scored examples as `score` reads them, JSON lines");
  command.add_option("--limit", options->dump_limit, "How many of them")->capture_default_str();
  command.add_option("--save-examples", options->run.examples_file,
                     "Every closed example as in topic examples (u32 length, protobuf)");
  command.add_option("--save-model", options->save_model, "Folder for the final model");
  command.callback([&line, options, baseline] {
    line.prepare = [&line, options] {
      return apply_replay_convention(line.root, options->replay.format, line.settings);
    };
    line.action = [&line, options, baseline]() -> base::Result<void> {
      SF_ASSIGN(ReplayChoice choice, replay_choice(options->replay, line.settings));
      options->run.format = choice.format;
      options->run.replay = std::move(choice.options);
      options->run.replay.order_required = !options->as_it_came;
      return run_evaluate(*options, line.settings, baseline->count() > 0);
    };
  });
}

}  // namespace sirenfeed::app
