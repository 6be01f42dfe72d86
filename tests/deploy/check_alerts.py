#!/usr/bin/env python3
"""check_alerts.py FILE RUNBOOK TESTS: the alert rules parse, and each says what a person needs; the runbook has a
row for each of them and for no other, and TESTS (alerts_test.yaml) has a case in which it comes.

Metrics that they name are held against a running server by tests/server/lethed_operation_test.cc, those of workers
and of others by manifests.py. With promtool on the machine (tests/deploy/promtool.sh gets it) it parses the
expressions, runs TESTS, and must see rules that are broken on purpose. Prints a line a fault; exits 1 on any.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

# What promtool must see: a text of the rules, and what a careless hand would make of it.
BROKEN = (("sum by (instance) (rate(", "sum by (instance (rate("),
          ("and on (job, instance) last_over_time(lethe_serving[7d])", ""),
          ('lethe_tenants{state="quarantined"} > 0', 'lethe_tenants{state="quarantined"} > 1'))


def faults(document):
    """Yields what is wrong with the rules."""
    if not isinstance(document, dict) or set(document) != {"groups"}:
        yield "must be a mapping with groups alone"
        return
    names = set()
    for group in document["groups"]:
        if set(group) - {"name", "rules", "interval"}:
            yield f"group {group.get('name')}: unknown keys"
        for rule in group["rules"]:
            name = rule.get("alert", "")
            if not name.startswith("Lethe") or name in names:
                yield f"alert {name!r}: names begin with Lethe and are there once"
            names.add(name)
            if set(rule) - {"alert", "expr", "for", "labels", "annotations"}:
                yield f"{name}: unknown keys"
            expression = str(rule.get("expr", ""))
            if not expression or expression.count("(") != expression.count(")"):
                yield f"{name}: has no expression, or parentheses that do not match"
            if rule.get("labels", {}).get("severity") not in ("critical", "warning"):
                yield f"{name}: severity must be critical or warning"
            for annotation in ("summary", "description"):
                if not rule.get("annotations", {}).get(annotation, "").strip():
                    yield f"{name}: has no {annotation}"
    if not names:
        yield "has no alert"


def come_in(tests):
    """The alerts that a case expects."""
    found = set()
    for case in tests["tests"]:
        for query in case["promql_expr_test"]:
            for sample in query["exp_samples"]:
                found |= set(re.findall(r'alertname="(\w+)"', sample["labels"]))
    return found


def unlike(alerts, others, where):
    return [f"{name}: is an alert that is not in {where}, or the other way round" for name in sorted(alerts ^ others)]


def judged(promtool, rules, tests):
    """What promtool says of the rules under the tests; nothing where it finds no fault."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "deploy/alerts/lethe.rules.yml"
        cases = pathlib.Path(folder) / "tests/deploy/alerts_test.yaml"
        for path, text in ((place, rules), (cases, tests)):
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
        for words in (["check", "rules", str(place)], ["test", "rules", str(cases)]):
            done = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return done.stdout + done.stderr
    return ""


def main():
    path, runbook, tests = (pathlib.Path(word) for word in sys.argv[1:4])
    rules, cases = path.read_text(encoding="utf-8"), tests.read_text(encoding="utf-8")
    document = yaml.safe_load(rules)
    found = [f"{path}: {fault}" for fault in faults(document)]
    rows = set(re.findall(r"^\| `(Lethe[A-Za-z]+)` \| .{20,} \|$", runbook.read_text(encoding="utf-8"), re.M))
    alerts = {rule["alert"] for group in document["groups"] for rule in group["rules"]}
    found += unlike(alerts, rows, runbook) + unlike(alerts, come_in(yaml.safe_load(cases)), tests)
    # The check would see them.
    planted = {"groups": [{"name": "g", "rules": [{"alert": "LetheX", "expr": "sum(x"}]}]}
    if not list(faults(planted)) or not list(faults({})) or not unlike({"LetheX"}, rows, runbook):
        found.append("the check does not see planted faults")
    promtool = shutil.which("promtool")
    if promtool:
        said = judged(promtool, rules, cases)
        if said:
            found.append(said)
        for old, new in BROKEN:
            if old not in rules or not judged(promtool, rules.replace(old, new), cases):
                found.append(f"promtool does not see: {old} -> {new}")
    for fault in found:
        print(fault)
    if not found:
        how = f"each comes when it should; {len(BROKEN)} broken ones are seen" if promtool else "no promtool here: not run"
        print(f"alerts: {len(alerts)} alerts, each with a row in the runbook and a case; {how}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
