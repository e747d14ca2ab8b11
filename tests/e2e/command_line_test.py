#!/usr/bin/env python3
"""The command line: help with examples, exit codes, configuration from options, file and environment, and `score`."""
import csv
import gzip
import json
import math
import re
import statistics
import struct

from support import inputs
from support.binary import run
from support.case import EndToEndTest, main

COMMANDS = ["up", "serve", "train", "publish", "topics", "simulate", "evaluate", "score", "inspect", "model", "erase",
            "takedown", "close-windows", "dead-letters", "config", "health"]


class CommandLineTest(EndToEndTest):
    def test_help_lists_every_command_and_each_has_help_with_examples(self):
        overview = run("--help").stdout
        listed = re.findall(r"^  ([a-z][a-z-]*) +\S", overview[overview.index("Subcommands"):], re.MULTILINE)
        self.assertEqual(set(COMMANDS) - set(listed), set())
        for command in listed:
            with self.subTest(command):
                text = run(command, "--help").stdout
                self.assertIn("Examples:", text)
                self.assertIn(f"sirenfeed {command}", text)
        self.assertRegex(run("--version").stdout, r"^sirenfeed \d+\.\d+\.\d+ \(")

    def test_every_example_in_help_has_options_that_exist(self):
        def options(text):
            return set(re.findall(r"--[a-zA-Z][\w.-]*", text))

        settings, known, examples = options(run("--help").stdout), {}, ""
        for command in COMMANDS:
            text, example = run(command, "--help").stdout.split("Examples:")
            examples += example
            known[command] = settings | options(text)
            for subcommand in self.subcommands(text):
                known[command] |= options(run(command, subcommand, "--help").stdout.split("Examples:")[0])
        used = re.findall(r"sirenfeed ([a-z-]+)((?:\\\n|[^\n&])*)", examples)
        self.assertGreater(len(used), len(COMMANDS))
        for command, words in used:
            self.assertEqual(options(words) - known[command], set(), f"{command}{words}")

    @staticmethod
    def subcommands(text):
        part = text[text.find("Subcommands"):] if "Subcommands" in text else ""
        return re.findall(r"^  ([a-z][a-z-]*) +\S", part, re.MULTILINE)

    def test_wrong_use_ends_with_2_and_says_what_is_wrong(self):
        for words, hint in [([], "subcommand"), (["fly"], "fly"), (["evaluate"], "file"), (["score"], "--model"),
                            (["up", "--no-such-option"], "--no-such-option"), (["inspect"], "subcommand"),
                            (["evaluate", "x", "--format", "parquet"], "--format"),
                            (["publish", "x", "--speed", "slow"], "--speed"),
                            (["evaluate", inputs.SLICE, "--format", "kuairand", "--variant", "no-such"], "no-such"),
                            (["evaluate", "x", "--window", "monday"], "window"),
                            (["evaluate", "x", "--bootstrap", "-5"], "--bootstrap"),
                            (["evaluate", "x", "--seeds", "-1"], "--seeds"),
                            (["up", "--ingest.items_max", "-1"], "--ingest.items_max"),
                            (["inspect", "log", "no-such-topic"], "no-such-topic"),
                            (["serve", "--data", self.folder / "d"], "--brokers")]:
            with self.subTest(words):
                self.assertIn(hint, run(*words, code=2).stderr)

    def test_a_failure_ends_with_1_and_names_the_file(self):
        missing = self.folder / "no-such-file"
        for words in [["evaluate", missing], ["score", "--model", missing], ["publish", missing, "--data", self.folder],
                      ["evaluate", missing, "--format", "kuairand"]]:
            with self.subTest(words):
                self.assertIn("no-such-file", run(*words, code=1).stderr)
        self.assertIn("no process", run("takedown", "item-1", "--data", self.folder / "d", code=1).stderr)

    def test_what_config_prints_can_be_read_back(self):
        changed = ["--features.join_window_ms", "123456", "--features.context_surfaces", "a,b", "--model.heads", "2",
                   "--trainer.dense_rate", "0.002", "--log_json", "true", "--ingest.idle_flush_after_ms", "-1"]
        printed = run("config", *changed).stdout
        self.assertIn('features.join_window_ms = "123456"', printed)
        file = self.folder / "sirenfeed.toml"
        file.write_text(printed)
        self.assertEqual(run("config", "--config", file).stdout, printed)
        self.assertEqual(run("config", env={"SIRENFEED_CONFIG": str(file)}).stdout, printed)

    def test_a_configuration_file_that_is_not_there_is_named(self):
        for words, env in [(["--config", "no-such.toml"], {}), ([], {"SIRENFEED_CONFIG": "no-such.toml"})]:
            self.assertIn("no-such.toml", run("config", *words, env=env, code=2).stderr)

    def test_options_win_over_the_environment_and_that_over_the_file(self):
        file = self.folder / "sirenfeed.toml"
        file.write_text("[features]\njoin_window_ms = 111\n\n[trainer]\nbatch_examples = 32\n")

        def window(*words, env=None):
            text = run("config", *words, env=env).stdout
            return re.search(r'^features.join_window_ms = "(\d+)"', text, re.MULTILINE).group(1)

        environment = {"SIRENFEED_FEATURES_JOIN_WINDOW_MS": "222"}
        self.assertEqual(window("--config", file), "111")
        self.assertEqual(window("--config", file, env=environment), "222")
        self.assertEqual(window("--config", file, "--features.join_window_ms", "333", env=environment), "333")
        self.assertIn('trainer.batch_examples = "32"', run("config", "--config", file).stdout)

    def test_secrets_are_masked(self):
        printed = run("config", "--kafka.property", "sasl.password=hunter2").stdout
        self.assertNotIn("hunter2", printed)

    def test_score_on_dumped_examples_agrees_with_what_was_predicted(self):
        file = inputs.cut_kuairand(self.folder / "cut.csv.gz", 4000)
        limit = 200
        run("evaluate", file, "--format", "kuairand", "--dump-examples", self.folder / "ex.jsonl", "--limit", limit,
            "--save-model", self.folder / "m", "--predictions", self.folder / "p.csv", "--json", self.folder / "r.json")
        model = self.folder / "m/model.safetensors"
        scored = run("score", "--model", model, "--examples", self.folder / "ex.jsonl").stdout
        examples = [json.loads(line) for line in (self.folder / "ex.jsonl").read_text().splitlines()]
        logits = [json.loads(line)["logits"] for line in scored.splitlines()]
        self.assertEqual(len(logits), limit)
        again = run("score", "--model", model, stdin=(self.folder / "ex.jsonl").read_text()).stdout
        self.assertEqual(again, scored)

        with open(self.folder / "p.csv", newline="", encoding="utf-8") as table:
            predicted = {(int(row["time_ms"]), row["item_id"]): float(row["probability"])
                         for row in csv.DictReader(table) if row["task"] == "click"}
        pairs = []
        for example, rows in zip(examples, logits):
            self.assertEqual([len(rows), len(rows[0])], [len(example["candidates"]), 3])
            times = [token["time"] for token in example["history"]]
            self.assertEqual(times, sorted(times))
            for candidate, row in zip(example["candidates"], rows):
                pairs.append((predicted[(example["time"], candidate["item"])], 1 / (1 + math.exp(-row[0]))))
        # The predictions were made up to a few batches before the final model.
        self.assertGreater(statistics.correlation(*zip(*pairs)), 0.9)
        self.assertLess(statistics.fmean(abs(a - b) for a, b in pairs), 0.08)
        report = json.loads((self.folder / "r.json").read_text())
        self.assertTrue(report)

    def test_a_model_file_that_gives_no_finite_logit_is_refused(self):
        file = inputs.cut_kuairand(self.folder / "cut.csv.gz", 500)
        run("evaluate", file, "--format", "kuairand", "--dump-examples", self.folder / "ex.jsonl", "--limit", 3,
            "--save-model", self.folder / "m")
        model = bytearray((self.folder / "m/model.safetensors").read_bytes())
        begin = 8 + struct.unpack("<Q", model[:8])[0]
        first, last = json.loads(model[8:begin])["head.0.weight"]["data_offsets"]
        model[begin + first:begin + last] = struct.pack("<f", 3e38) * ((last - first) // 4)
        poisoned = self.folder / "poisoned.safetensors"
        poisoned.write_bytes(model)
        done = run("score", "--model", poisoned, "--examples", self.folder / "ex.jsonl", code=1)
        self.assertIn("ex.jsonl:1", done.stderr)
        self.assertIn("not finite", done.stderr)
        self.assertNotIn("nan", done.stdout.lower())

    def test_a_file_of_written_defaults_leaves_a_commands_own_defaults_alone(self):
        file = inputs.cut_kuairand(self.folder / "cut.csv.gz", 500)
        (self.folder / "defaults.toml").write_text(run("config").stdout)
        for name, more in (("plain", []), ("written", ["--config", self.folder / "defaults.toml"])):
            run("evaluate", file, "--format", "kuairand", "--predictions", self.folder / f"{name}.csv", *more)
        self.assertEqual((self.folder / "plain.csv").read_bytes(), (self.folder / "written.csv").read_bytes())

    def test_a_simulated_log_can_be_evaluated_and_its_report_read(self):
        log, truth = self.folder / "log.ndjson.gz", self.folder / "truth.csv.gz"
        written = json.loads(run("simulate", "--write", log, "--truth", truth, "--simulate.users", 40,
                                 "--simulate.days", 2, "--items-per-visit", 3, "--json").stdout)
        with gzip.open(truth, "rt", encoding="utf-8") as table:
            rows = list(csv.DictReader(table))
        self.assertEqual(len(rows), written["shown"])
        self.assertGreater(written["bayes_auc"], 0.7)
        run("evaluate", log, "--variant", "ordinal,siren", "--seeds", 2, "--json", self.folder / "r.json", "--html",
            self.folder / "r.html", "--bootstrap", 50, "--frozen-users")
        report = json.loads((self.folder / "r.json").read_text())
        self.assertEqual(report["records_rejected"], 0)
        whole = [part for part in report["parts"] if part["slice"] == "all" and part["task"] == "click"]
        self.assertEqual(max(part["rows"] for part in whole), written["shown"])
        for variant in whole[0]["variants"]:
            for key in ("ne", "auc", "gauc_user_day_frozen", "auc_within_impression", "ndcg10", "map", "mrr"):
                self.assertIsNotNone(variant["mean"][key], key)
        compared = whole[0]["variants"][1]["comparison"]
        self.assertLess(compared["low"]["auc"], compared["high"]["auc"])
        self.assertEqual([cost["variant"] for cost in report["costs"]], ["ordinal", "siren"])
        page = (self.folder / "r.html").read_text()
        self.assertNotIn("src=", page.split("<script")[0])
        self.assertIn(report["commit"], page)

    def test_score_names_the_line_that_is_wrong(self):
        file = inputs.cut_kuairand(self.folder / "cut.csv.gz", 300)
        run("evaluate", file, "--format", "kuairand", "--dump-examples", self.folder / "ex.jsonl", "--limit", 3,
            "--save-model", self.folder / "m")
        with open(self.folder / "ex.jsonl", "a", encoding="utf-8") as lines:
            lines.write('{"time": 1}\n')
        done = run("score", "--model", self.folder / "m/model.safetensors", "--examples", self.folder / "ex.jsonl",
                   code=1)
        self.assertIn("ex.jsonl:4", done.stderr)

    def test_evaluate_writes_one_file_of_predictions_for_each_variant(self):
        file = inputs.cut_kuairand(self.folder / "cut.csv.gz", 500)
        run("evaluate", file, "--format", "kuairand", "--variant", "siren,ordinal",
            "--predictions", self.folder / "p.csv")
        rows = {}
        for variant in ("siren", "ordinal"):
            with open(self.folder / f"p.{variant}.1.csv", newline="", encoding="utf-8") as table:
                rows[variant] = list(csv.DictReader(table))
        self.assertEqual(len(rows["siren"]), 3 * 500)
        self.assertEqual([{**row, "probability": ""} for row in rows["siren"]],
                         [{**row, "probability": ""} for row in rows["ordinal"]])
        self.assertNotEqual(rows["siren"], rows["ordinal"])


if __name__ == "__main__":
    main()
