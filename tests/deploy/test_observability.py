"""The dashboard and the alert rules: that Prometheus takes them, and that what they ask for is offered."""

import json
import re

import yaml

from support import ROOT, Case, Served, read

OBSERVABILITY = ROOT / "deploy/observability"
# What Prometheus itself adds.
OWN = {"up", "ALERTS"}
# What other exporters offer.
OTHERS = ["node_filesystem_", "kubelet_volume_stats_"]


def panels():
    return json.loads((OBSERVABILITY / "dashboard.json").read_text())["panels"]


def expressions():
    """Every PromQL expression with where it stands."""
    rules = yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text())["groups"]
    found = {it["alert"]: it["expr"] for group in rules for it in group["rules"]}
    for panel in panels():
        for target in panel.get("targets", []):
            found[f"{panel['title']} {target['refId']}"] = target["expr"]
    return found


def selectors(expression):
    """Each metric that is asked for, with the matchers of its labels."""
    without_texts = re.sub(r"\{[^}]*\}", lambda it: " " * len(it[0]), expression)
    for match in re.finditer(r"\b(?:courtesy|process)_\w+", without_texts):
        matchers = re.match(r"\{([^}]*)\}", expression[match.end() :])
        matchers = re.findall(r'(\w+)(=~?)"([^"]*)"', matchers[1]) if matchers else []
        yield match[0], matchers


class Rules(Case):
    def test_promtool_takes_them_and_they_fire_when_they_should(self):
        self.succeed("promtool", "check", "rules", "--lint=all", "--lint-fatal", OBSERVABILITY / "alerts.yaml")
        self.succeed("promtool", "test", "rules", OBSERVABILITY / "alerts.test.yaml")

    def test_each_is_tried_and_on_the_page(self):
        tried = (OBSERVABILITY / "alerts.test.yaml").read_text()
        page = read("docs/operate/observability.md")
        rows = re.findall(r"^\| (`Courtesy.*) \| .* \| (page|ticket) \|$", page, re.MULTILINE)
        listed = {name: severity for names, severity in rows for name in re.findall(r"`(\w+)`", names)}
        for group in yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text())["groups"]:
            for rule in group["rules"]:
                self.assertIn(rule["alert"], tried)
                self.assertEqual(set(rule["annotations"]), {"summary", "description"})
                self.assertEqual(listed.pop(rule["alert"], None), rule["labels"]["severity"], rule["alert"])
        self.assertEqual(listed, {})


class Dashboard(Case):
    def test_it_has_five_rows_and_its_data_source_is_a_variable(self):
        rows = [it["title"] for it in panels() if it["type"] == "row"]
        self.assertEqual(rows, ["Decisions", "Politeness", "robots.txt", "Health", "Shared engine"])
        for panel in panels():
            if panel["type"] != "row":
                self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                self.assertTrue(panel["description"])
        self.assertEqual(len({it["id"] for it in panels()}), len(panels()))

    def test_no_panel_lies_over_another(self):
        taken = set()
        for panel in panels():
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24)
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells

    def test_prometheus_can_read_every_expression(self):
        rules = []
        for number, expression in enumerate(expressions().values()):
            expression = expression.replace("$__rate_interval", "5m").replace("$instance", ".*")
            # But for a group of label_replace.
            self.assertNotIn("$", expression.replace('"$1"', ""))
            rules.append({"record": f"panel:{number}", "expr": expression})
        file = self.directory / "rules.yaml"
        file.write_text(yaml.dump({"groups": [{"name": "all", "rules": rules}]}))
        self.succeed("promtool", "check", "rules", file)


class Offered(Case):
    def test_every_metric_and_label_that_is_asked_for_is_offered(self):
        environment = {"STATE_DIRECTORY": str(self.directory), "COURTESY__TLS__ROOTS": "bundled"}
        # Its metrics are offered where there is one, if it can be reached or not.
        environment["COURTESY__ENGINE__URL"] = f"redis+unix://{self.directory}/engine.sock"
        environment["COURTESY__EGRESS__PARENT"] = "http://127.0.0.1:3128"
        lines = [it for it in Served(self, environment).metrics().splitlines() if not it.startswith("#")]
        offered = {}
        for line in lines:
            name, labels = re.match(r"(\w+)(?:\{(.*)\})? ", line).groups()
            offered.setdefault(name, []).append(dict(re.findall(r'(\w+)="([^"]*)"', labels or "")))
        self.assertGreater(len(offered), 20)
        for place, expression in expressions().items():
            asked = [(name, labels) for name, labels in selectors(expression) if name not in OWN]
            elsewhere = "up{" in expression or any(it in expression for it in OTHERS)
            self.assertTrue(asked or elsewhere, f"{place} asks for nothing")
            for name, matchers in asked:
                self.assertIn(name, offered, place)
                for label, _, values in matchers:
                    if label in ("instance", "job"):
                        continue
                    there = {it.get(label) for it in offered[name]}
                    self.assertLessEqual(set(values.split("|")), there, f"{place}: {name}, {label}")
            for label in re.findall(r"by \(([^)]*)\)", expression):
                for label in set(re.split(r", *", label)) - {"instance", "job", "le", "namespace"}:
                    self.assertTrue(any(label in it for name, _ in asked for it in offered[name]), f"{place}: {label}")
