#!/usr/bin/env python3
"""check_kubernetes.py ROOT BIN [--write]: the overlays of deploy/kubernetes render, hold what
tests/deploy/manifests.py demands, and what is broken on purpose (broken.yaml) is seen.

With a kubectl whose kustomize knows `labels` without selectors (4.2, in kubectl 1.22, or newer) every overlay, and some broken
ones, are rendered by it, and must be what tests/golden/kubernetes holds; --write writes those, and the alert
rules as an object of the cluster. Without
it, as on a bare Debian 12, what is judged are the rendered files, and a hash of their sources says whether
they are of these sources. Prints a line a fault; exits 1 on any.
"""

import copy
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import manifests  # noqa: E402

OVERLAYS = ("single-node", "production", "gpu")


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    pass


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def parse(text):
    return [thing for thing in yaml.load_all(text, Loader) if thing]


def help_of(program):
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False,
                          env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
    return done.stdout + done.stderr


def facts_of(root, binaries):
    """What programs and documents say there is."""
    programs = {}
    for name in ("lethed", "lethe", "lethe-verify", "lethe-worker"):
        if (binaries / name).exists():
            programs[name] = help_of(binaries / name)
    # Flags of verbs that are used here.
    programs["lethe"] += help_of_verb(binaries / "lethe", "health")
    scripts = {path.name: read(path) for path in (root / "deploy").glob("*.sh")}
    variables = set()
    for text in [*programs.values(), *scripts.values()]:
        variables |= set(re.findall(r"\bLETHE_[A-Z_]+\b", text))
    secrets = {}
    for line in read(root / "docs/kubernetes.md").splitlines():
        row = re.match(r"^\| `([a-z-]+)` \| (`[^|]+`) \|", line)
        if row:
            secrets[row[1]] = set(re.findall(r"`([^`]+)`", row[2]))
    metrics = set(re.findall(r"^\| `((?:lethe|process)_[a-z_]+)` \|", read(root / "docs/monitoring.md"), re.M))
    for row in re.findall(r"^\| (`lethe_worker_[^|]+) \|", read(root / "docs/jobs.md"), re.M):
        metrics |= set(re.findall(r"`([a-z_]+)`", row))
    version = re.search(r"project\([^)]*VERSION ([0-9.]+)", read(root / "CMakeLists.txt"))[1]
    alerts = parse(read(root / "deploy/alerts/lethe.rules.yml"))[0]
    return {"programs": programs, "scripts": scripts, "variables": variables, "secrets": secrets,
            "metrics": metrics, "version": version, "alerts": alerts, "paths": {"/metrics"}}


def help_of_verb(program, verb):
    return subprocess.run([program, verb, "--help"], capture_output=True, text=True, check=False).stdout


def kubectl():
    """The command that renders, or None where it is missing or too old."""
    program = shutil.which("kubectl")
    if program is None:
        return None
    done = subprocess.run([program, "version", "--client", "-o", "json"], capture_output=True, text=True,
                          check=False)
    try:
        version = yaml.load(done.stdout, Loader)["clientVersion"]
        minor = int(re.sub(r"\D.*", "", str(version["minor"])))
    except (KeyError, TypeError, ValueError, yaml.YAMLError):
        return None
    return [program, "kustomize"] if int(version["major"]) > 1 or minor >= 22 else None


def render(command, folder):
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr.strip():
        raise RuntimeError(f"{folder}: {done.stderr.strip()}")
    return done.stdout


def sources_hash(root):
    digest = hashlib.sha256()
    folder = root / "deploy/kubernetes"
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def rules_object(root):
    """deploy/alerts/lethe.rules.yml as an object of the cluster, letter by letter."""
    text = read(root / "deploy/alerts/lethe.rules.yml")
    body = text[text.index("groups:"):]
    indented = "".join("  " + line if line.strip() else line for line in body.splitlines(keepends=True))
    return ("# deploy/alerts/lethe.rules.yml as an object of the cluster; check_kubernetes.py --write makes it.\n"
            "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: lethe\nspec:\n" + indented)


def ordered(objects):
    return sorted(objects, key=lambda thing: (thing["kind"], thing["metadata"]["name"]))


def patched(objects, entry):
    """The objects with one entry of broken.yaml done to them: JSON patches, or a document more."""
    objects = copy.deepcopy(objects)
    if "add" in entry:
        return objects + [copy.deepcopy(entry["add"])]
    kind, name = entry["target"].split("/")
    hits = [t for t in objects if t["kind"] == kind and
            (t["metadata"]["name"] == name or re.match(rf"{name}-[0-9a-z]{{10}}$", t["metadata"]["name"]))]
    if len(hits) != 1:
        raise RuntimeError(f"broken.yaml: {entry['target']}: {len(hits)} such objects")
    if entry.get("delete"):
        objects.remove(hits[0])
        return objects
    for operation in entry["patch"]:
        place = hits[0]
        steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        for step in steps[:-1]:
            place = place[int(step)] if isinstance(place, list) else place[step]
        last = int(steps[-1]) if isinstance(place, list) and steps[-1] != "-" else steps[-1]
        if operation["op"] == "remove":
            del place[last]
        elif isinstance(place, list) and operation["op"] == "add":
            place.insert(len(place) if last == "-" else last, operation["value"])
        else:
            place[last] = operation["value"]
    return objects


def rendered_broken(command, root, entry):
    """The same by kubectl: an overlay over the overlay."""
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.relpath(root / "deploy/kubernetes/overlays" / entry["overlay"], os.path.realpath(folder))
        overlay = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [base]}
        if "add" in entry:
            (pathlib.Path(folder) / "more.yaml").write_text(yaml.safe_dump(entry["add"]), encoding="utf-8")
            overlay["resources"].append("more.yaml")
        else:
            kind, name = entry["target"].split("/")
            patch = yaml.safe_dump(entry.get("patch", []))
            if entry.get("delete"):
                api = entry["api"]
                patch = yaml.safe_dump({"$patch": "delete", "apiVersion": api, "kind": kind,
                                        "metadata": {"name": name}})
            overlay["patches"] = [{"patch": patch, "target": {"kind": kind, "name": name + "(-[0-9a-z]{10})?"}}]
        (pathlib.Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
        return parse(render(command, folder))


def main():
    root, binaries = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    facts = facts_of(root, binaries)
    command = kubectl()
    golden = root / "tests/golden/kubernetes"
    found, overlays = [], {}
    rules = root / "deploy/kubernetes/components/servicemonitor/rules.yaml"
    if sys.argv[3:] == ["--write"]:
        rules.write_text(rules_object(root), encoding="utf-8")
    if read(rules) != rules_object(root):
        found.append(f"{rules.relative_to(root)}: is not of deploy/alerts/lethe.rules.yml; --write makes it anew")
    sources = f"# sources {sources_hash(root)}\n"
    for name in OVERLAYS:
        folder = root / "deploy/kubernetes/overlays" / name
        if not (folder / "kustomization.yaml").exists():
            found.append(f"{name}: no such overlay")
            continue
        kept = golden / f"{name}.yaml"
        if command is not None:
            text = render(command, folder)
            if sys.argv[3:] == ["--write"]:
                golden.mkdir(exist_ok=True)
                kept.write_text(sources + text, encoding="utf-8")
            overlays[name] = parse(text)
        if not kept.exists() or not read(kept).startswith(sources):
            found.append(f"{kept.relative_to(root)}: is not of these sources; --write makes it anew")
        elif command is None:
            overlays[name] = parse(read(kept))
        elif ordered(parse(read(kept))) != ordered(overlays[name]):
            found.append(f"{kept.relative_to(root)}: is not what kubectl renders")
        if name in overlays:
            found += [f"{name}: {fault}" for fault in manifests.faults(overlays[name], facts)]

    broken = yaml.load(read(pathlib.Path(__file__).parent / "broken.yaml"), Loader)
    for entry in broken:
        if entry["overlay"] not in overlays:
            continue
        ways = [patched(overlays[entry["overlay"]], entry)]
        if command is not None and entry.get("kubectl"):
            ways.append(rendered_broken(command, root, entry))
        for objects in ways:
            seen = manifests.faults(objects, facts)
            if not any(entry["expect"] in fault for fault in seen):
                found.append(f"broken.yaml: not seen: {entry['expect']} (seen: {seen})")
    for fault in found:
        print(fault)
    how = "rendered by kubectl" if command else "as rendered before: no kubectl here knows components"
    if not found:
        count = sum(len(objects) for objects in overlays.values())
        print(f"kubernetes: {len(overlays)} overlays, {count} objects hold; {len(broken)} broken ones are seen; {how}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
