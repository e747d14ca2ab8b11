#!/usr/bin/env python3
"""Alert rules and dashboards: valid, tested by promtool, and about metrics that a running pipeline has."""
import json
import re
import shutil
import subprocess
import unittest

from support.binary import ROOT
from support.case import EndToEndTest, main
from support.waiting import wait_for

RULES = sorted((ROOT / "deploy/prometheus/rules").glob("*.yml"))
DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
METRIC = re.compile(r"\bsirenfeed_[a-z0-9_]+")
RECORDED = re.compile(r"\bsirenfeed:[a-z0-9_:]+")


def dashboard_queries():
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield f"{file.name}, panel {panel['title']}", target["expr"]


def rule_lines():
    for file in RULES:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if not line.lstrip().startswith(("#", "summary:", "runbook:")):
                yield f"{file.name}:{number}", line


@unittest.skipUnless(shutil.which("promtool"), "promtool is not installed (Debian's package prometheus)")
class RulesTest(EndToEndTest):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_prometheus_takes_the_configuration_and_the_rules(self):
        self.promtool("check", "config", ROOT / "deploy/prometheus/prometheus.yml")
        self.promtool("check", "rules", *RULES)

    def test_every_alert_fires_for_its_fault_and_is_silent_without(self):
        self.promtool("test", "rules", ROOT / "tests/monitoring/alerts_test.yml")
        tested = (ROOT / "tests/monitoring/alerts_test.yml").read_text()
        for alert in re.findall(r"alert: (\w+)", (ROOT / "deploy/prometheus/rules/alerts.yml").read_text()):
            self.assertIn(f'"{alert}"', tested, "an alert without a test")


class MetricsTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        folder = cls.make_class_folder()
        cls.node = cls.start_for_class("up", "up", "--data", folder / "data", "--simulate", "--simulate.speed", "20000")
        wait_for(lambda: cls.node.metric("sirenfeed_trainer_examples_total") > 0, "the pipeline learns", 90,
                 explain=cls.node.output)
        cls.text = cls.node.get("/metrics").text
        cls.names = set(re.findall(r"^(sirenfeed_[a-z0-9_]+)", cls.text, re.MULTILINE))

    def test_every_query_of_rules_and_dashboards_names_a_metric_that_exists(self):
        recorded = {name for _, line in rule_lines() for name in re.findall(r"record: (\S+)", line)}
        for where, expression in [*dashboard_queries(), *rule_lines()]:
            for name in METRIC.findall(expression):
                self.assertIn(name, self.names, where)
            for name in RECORDED.findall(expression):
                self.assertIn(name, recorded, where)

    def test_every_metric_has_a_help_text_a_unit_suffix_where_it_is_due_and_few_series(self):
        helped = set(re.findall(r"^# HELP (\S+) \S", self.text, re.MULTILINE))
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)", self.text, re.MULTILINE))
        for name, kind in types.items():
            self.assertIn(name, helped)
            self.assertEqual(kind == "counter", name.endswith("_total"), f"{name} is a {kind}")
            if kind == "histogram":
                self.assertTrue(name.endswith(("_seconds", "_bytes", "_difference")), name)
            series = re.findall(rf"^{name}(?:\{{|_bucket\{{| )", self.text, re.MULTILINE)
            self.assertLess(len(series), 200, f"{name} has too many label values")

    def test_the_operations_guide_explains_every_alert_and_names_metrics_that_exist(self):
        guide = (ROOT / "docs/OPERATIONS.md").read_text()
        alerts = re.findall(r"alert: (\w+)", (ROOT / "deploy/prometheus/rules/alerts.yml").read_text())
        self.assertEqual(re.findall(r"^### (\w+)", guide, re.MULTILINE), alerts)
        for name in METRIC.findall(guide):
            if not name.endswith("_"):
                self.assertTrue(any(known.startswith(name) for known in self.names), name)


if __name__ == "__main__":
    main()
