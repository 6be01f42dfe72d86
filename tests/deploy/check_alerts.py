#!/usr/bin/env python3
"""check_alerts.py FILE RUNBOOK: the alert rules parse, and each says what a person needs; the runbook has a row for
each of them, and for no other.

Metrics that they name are held against a running server by tests/server/lethed_operation_test.cc.
With promtool on the machine its judgement counts too. Prints a line a fault; exits 1 on any.
"""

import re
import shutil
import subprocess
import sys

import yaml


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


def main():
    path = sys.argv[1]
    with open(path, encoding="utf-8") as file:
        found = list(faults(yaml.safe_load(file)))
    # The check would see them.
    with open(sys.argv[2], encoding="utf-8") as file:
        rows = re.findall(r"^\| `(Lethe[A-Za-z]+)` \| .{20,} \|$", file.read(), re.M)
    with open(path, encoding="utf-8") as file:
        alerts = [rule["alert"] for group in yaml.safe_load(file)["groups"] for rule in group["rules"]]
    for name in sorted(set(alerts) ^ set(rows)):
        found.append(f"{name}: is an alert without a row in {sys.argv[2]}, or the other way round")
    planted = {"groups": [{"name": "g", "rules": [{"alert": "LetheX", "expr": "sum(x"}]}]}
    if not list(faults(planted)) or not list(faults({})):
        found.append("the check does not see planted faults")
    for fault in found:
        print(f"{path}: {fault}")
    promtool = shutil.which("promtool")
    if promtool and subprocess.run([promtool, "check", "rules", path], check=False).returncode != 0:
        found.append("promtool")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
