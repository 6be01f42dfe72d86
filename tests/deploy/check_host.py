#!/usr/bin/env python3
"""check_host.py ROOT BIN: Dockerfile, deploy/compose.yaml and deploy/systemd against the programs and each other.

Programs, flags, variables, files and volumes that they name exist; nothing runs as root or with privileges; a stop
is given the time that the settings say it takes; systemd-analyze, where it is there, finds the exposure no higher
than is stated in docs/systemd.md. Each rule is shown a planted fault. Prints a line a fault; exits 1 on any.
"""

import copy
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_kubernetes  # noqa: E402
import manifests  # noqa: E402


def drain(settings):
    return manifests.seconds(settings.get("drain-delay", "0")) + manifests.seconds(settings.get("drain-timeout", "25s"))


class Commands(manifests.Checker):
    """The rule about command lines, without a cluster around it."""

    def __init__(self, facts):
        super().__init__([], facts)

    def fault(self, thing, text):
        self.found.append(text)

    def check(self, words):
        self.found = []
        words = [re.sub(r"^/usr/bin/", "", words[0]), *words[1:]]
        self.command(None, words[0], words)
        return self.found


def settings_faults(name, text, facts, program="lethed"):
    settings = tomllib.loads(text)
    for key in settings:
        if not re.search(rf"^ +--{re.escape(key)}( |$)", facts["programs"][program], re.M):
            yield f"{name}: {program} has no option {key}"


def compose_faults(compose, root, facts):
    settings = tomllib.loads((root / "deploy/kubernetes/base/lethed.toml").read_text(encoding="utf-8"))
    commands = Commands(facts)
    for name, service in compose["services"].items():
        image = service.get("image", "")
        if image != f"lethe:{facts['version']}" and image != f"lethe-cuda:{facts['version']}":
            yield f"{name}: image {image} is not of this version"
        user = str(service.get("user", "0"))
        if user.split(":")[0] in ("0", "root"):
            yield f"{name}: runs as root"
        if service.get("read_only") is not True:
            yield f"{name}: its root file system can be written"
        if service.get("cap_drop") != ["ALL"] or service.get("cap_add") or service.get("privileged"):
            yield f"{name}: keeps capabilities"
        if "no-new-privileges:true" not in service.get("security_opt", []):
            yield f"{name}: may gain privileges"
        if "mem_limit" not in service:
            yield f"{name}: has no limit on memory"
        elif service.get("memswap_limit") != service["mem_limit"]:
            yield f"{name}: its memory may be written to swap"
        for port in service.get("ports", []):
            if not str(port).startswith("127.0.0.1:"):
                yield f"{name}: port {port} is open to others"
        for variable in service.get("environment", {}):
            if variable not in facts["variables"]:
                yield f"{name}: no program knows the variable {variable}"
        yield from (f"{name}: {fault}" for fault in commands.check(service["command"]))
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./secrets/"):
                continue
            if source.startswith("."):
                if not (root / "deploy" / source).exists():
                    yield f"{name}: no such file: {source}"
            elif source not in compose["volumes"]:
                yield f"{name}: no such volume: {source}"
        if service["command"][0] == "lethed" and \
                manifests.seconds(service.get("stop_grace_period", "10s")) < drain(settings) + 5:
            yield f"{name}: stop_grace_period is less than a stop takes"


def ignored_faults(compose, root):
    """Secrets beside the file are committed by nobody and copied into no image."""
    for name, service in compose["services"].items():
        for volume in service.get("volumes", []):
            source = re.match(r"\./((?:secrets|keys))/", volume)
            if source is None:
                continue
            for file, line in ((".gitignore", f"/deploy/{source[1]}/"), (".dockerignore", f"deploy/{source[1]}")):
                if line not in (root / file).read_text(encoding="utf-8").splitlines():
                    yield f"{name}: {file} has not {line}"


def mounted_faults(compose, root):
    """A new volume is root's unless the image has the folder, as the user's own."""
    made = re.search(r"^for folder in (/.*); do$", (root / "deploy/image/finish.sh").read_text(encoding="utf-8"), re.M)
    for name, service in compose["services"].items():
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            if source in compose["volumes"] and target not in made[1].split():
                yield f"{name}: the image has no folder {target} of its user"


def image_faults(text, root, facts):
    """The Dockerfile as far as it can be read; deploy/image/build_test.sh builds it."""
    last = text.rsplit("\nFROM ", 1)[1]
    if not re.search(rf"^ARG VERSION={re.escape(facts['version'])}$", last, re.M):
        yield f"Dockerfile: VERSION is not {facts['version']}"
    user = re.search(r"^USER ([^:\s]+)", last, re.M)
    if user is None or user[1] in ("0", "root"):
        yield "Dockerfile: runs as root"
    for line in re.findall(r"^ARG (?:BUILD_)?BASE=(\S+)$", text, re.M):
        if line.endswith(":latest") or ":" not in line and "@" not in line and "$" not in line:
            yield f"Dockerfile: {line} is no version"
    commands = Commands(facts)
    for name, words in re.findall(r"^(HEALTHCHECK|CMD)\b[^\[]*(\[.*\])$", last, re.M):
        yield from (f"Dockerfile: {name}: {fault}" for fault in commands.check(yaml.safe_load(words)))
    if "HEALTHCHECK" not in last:
        yield "Dockerfile: has no HEALTHCHECK"
    for path in re.findall(r"deploy/image/[a-z]+\.sh", text):
        if not (root / path).exists():
            yield f"Dockerfile: no such file: {path}"


def unit_of(text):
    """Section -> key -> values."""
    unit, section = {}, None
    for line in text.splitlines():
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            section = unit.setdefault(line.strip("[]"), {})
        else:
            key, value = line.split("=", 1)
            section.setdefault(key, []).append(value)
    return unit


def unit_faults(name, text, root, facts):
    unit = unit_of(text)
    if name.endswith(".timer"):
        if not (root / "deploy/systemd" / name.replace(".timer", ".service")).exists():
            yield f"{name}: has no service"
        if unit.get("Timer", {}).get("Persistent") != ["yes"]:
            yield f"{name}: a time that passed while the machine was off is lost"
        return
    service = unit["Service"]
    if service.get("User", ["root"])[0] in ("root", "0"):
        yield f"{name}: runs as root"
    if service.get("LimitCORE") != ["0"]:
        yield f"{name}: a crash writes its memory out"
    if service.get("MemorySwapMax") != ["0"]:
        yield f"{name}: its memory may be written to swap"
    commands = Commands(facts)
    for line in service["ExecStart"] + service.get("ExecStartPre", []):
        yield from (f"{name}: {fault}" for fault in commands.check(line.split()))
    if "lethed --config" in service["ExecStart"][0]:
        settings = tomllib.loads((root / "deploy/systemd/lethed.toml").read_text(encoding="utf-8"))
        if int(service.get("TimeoutStopSec", ["90"])[0]) < drain(settings) + 5:
            yield f"{name}: TimeoutStopSec is less than a stop takes"
        for key in ("data", "vault"):
            folders = service.get("StateDirectory", [""])[0].split()
            if not any(settings[key].startswith(f"/var/lib/{folder}/") for folder in folders):
                yield f"{name}: {key} {settings[key]} is in no StateDirectory"


def syntax_faults(units):
    """What systemd itself says of the units, whose programs are not here; nothing without systemd-analyze."""
    if shutil.which("systemd-analyze") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, text in units.items():
            runnable = re.sub(r"^(Exec[A-Za-z]*)=\S+", r"\1=/bin/true", text, flags=re.M)
            (pathlib.Path(folder) / name).write_text(runnable, encoding="utf-8")
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *(f"{folder}/{name}" for name in units)],
                              capture_output=True, text=True, check=False)
        # Other lines are about the machine.
        for line in (done.stdout + done.stderr).splitlines():
            if any(name in line for name in units):
                yield line.replace(f"{folder}/", "")


def exposure(name, text):
    """What systemd-analyze says, or None without it."""
    if shutil.which("systemd-analyze") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", str(path)],
                              capture_output=True, text=True, check=False)
        level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
        return float(level[1]) if level else None


def main():
    root, binaries = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    facts = check_kubernetes.facts_of(root, binaries)
    found = []
    compose = yaml.safe_load((root / "deploy/compose.yaml").read_text(encoding="utf-8"))
    found += list(compose_faults(compose, root, facts))
    dockerfile = (root / "Dockerfile").read_text(encoding="utf-8")
    found += list(image_faults(dockerfile, root, facts))
    for old, new, words in (("USER 65532", "USER 0", "runs as root"), ("bookworm-slim", "latest", "is no version"),
                            ('"health"', '"healthy"', "no such verb"), ("ARG VERSION=", "ARG VERSION=9", "VERSION is not"),
                            ("image/compile.sh", "image/compiles.sh", "no such file")):
        if not any(words in fault for fault in image_faults(dockerfile.replace(old, new), root, facts)):
            found.append(f"not seen in Dockerfile: {words}")
    found += list(ignored_faults(compose, root))
    if not list(ignored_faults({"services": {"x": {"volumes": ["./keys/tls:/t:ro"]}}}, root)):
        found.append("not seen: keys beside compose.yaml that git and the image would take in")
    if not list(mounted_faults({"services": {"x": {"volumes": ["v:/backup"]}}, "volumes": {"v": {}}}, root)):
        found.append("not seen: a volume at a folder that the image has not")
    found += list(mounted_faults(compose, root))
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted((root / "deploy/systemd").iterdir())}
    units = {name: text for name, text in texts.items() if name.endswith((".service", ".timer"))}
    for name, text in units.items():
        found += list(unit_faults(name, text, root, facts))
    found += list(syntax_faults(units))
    for name, program in (("deploy/systemd/lethed.toml", "lethed"), ("deploy/kubernetes/base/lethed.toml", "lethed"),
                          ("deploy/systemd/worker.toml", "lethe-worker")):
        found += list(settings_faults(name, (root / name).read_text(encoding="utf-8"), facts, program))
    if not list(settings_faults("x", "back-end = 1", facts, "lethe-worker")):
        found.append("not seen in worker.toml: an option that is none")

    # Stated: | `lethed.service` | 1.2 |
    stated = {row[0]: float(row[1]) for row in re.findall(
        r"^\| `([a-z-]+\.service)` \| ([0-9.]+) \|", (root / "docs/systemd.md").read_text(encoding="utf-8"), re.M)}
    measured = 0
    for name, text in units.items():
        if not name.endswith(".service"):
            continue
        level = exposure(name, text)
        if name not in stated:
            found.append(f"{name}: docs/systemd.md states no exposure")
        elif level is not None:
            measured += 1
            if level > stated[name]:
                found.append(f"{name}: exposure {level}, stated {stated[name]}")

    # Each rule sees its fault.
    planted = [(lambda c: c["services"]["lethed"].update(user="0:0"), "runs as root"),
               (lambda c: c["services"]["lethed"].update(image="lethe:latest"), "is not of this version"),
               (lambda c: c["services"]["lethed"].update(stop_grace_period="30s"), "less than a stop takes"),
               (lambda c: c["services"]["backup"].update(memswap_limit="1g"), "written to swap"),
               (lambda c: c["services"]["lethed"].update(privileged=True), "keeps capabilities"),
               (lambda c: c["services"]["lethed"].update(command=["lethed", "--configs", "x"]), "no flag --configs"),
               (lambda c: c["services"]["lethed"]["ports"].append("7421:7421"), "is open to others"),
               (lambda c: c["services"]["backup"]["volumes"].append("backup:/b"), "no such volume: backup"),
               (lambda c: c["services"]["backup"]["environment"].update(LETHE_ADRESS="x"), "LETHE_ADRESS")]
    for plant, words in planted:
        bent = copy.deepcopy(compose)
        plant(bent)
        if not any(words in fault for fault in compose_faults(bent, root, facts)):
            found.append(f"not seen in compose: {words}")
    server = units["lethed.service"]
    for old, new, words in (("User=lethe", "User=root", "runs as root"),
                            ("TimeoutStopSec=60", "TimeoutStopSec=30", "less than a stop takes"),
                            ("--check-config", "--check-configs", "no flag --check-configs"),
                            ("LimitCORE=0", "LimitCORE=infinity", "writes its memory out"),
                            ("MemorySwapMax=0\n", "", "written to swap"),
                            ("StateDirectory=lethe lethe-vault", "StateDirectory=lethe", "is in no StateDirectory")):
        if not any(words in fault for fault in unit_faults("lethed.service", server.replace(old, new), root, facts)):
            found.append(f"not seen in lethed.service: {words}")
    if measured and not list(syntax_faults({"lethed.service": server.replace("ProtectHome=", "ProtectHomes=")})):
        found.append("not seen in lethed.service: a name that systemd does not know")
    if measured and not exposure("lethed.service", server.replace("CapabilityBoundingSet=\n", "")) > stated["lethed.service"]:
        found.append("not seen in lethed.service: a capability more")

    for fault in found:
        print(fault)
    if not found:
        how = f"exposure of {measured} measured" if measured else "no systemd-analyze here: exposure not measured"
        print(f"host: {len(compose['services'])} services, {len(units)} units hold; 24 planted faults are seen; {how}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
