"""Policies on rendered Kubernetes objects. faults(objects, facts) yields a line a fault."""

import re
import tomllib

WORKLOADS = ("StatefulSet", "Deployment", "CronJob", "Job", "DaemonSet", "Pod")
CLUSTER_WIDE = ("Namespace",)
# Metrics of kube-state-metrics that alerts look at.
FOREIGN = {"kube_job_failed", "kube_cronjob_status_last_successful_time", "kube_cronjob_created"}
HASHED = re.compile(r"^(.*)-[0-9a-z]{10}$")


def name_of(thing):
    return f"{thing['kind']}/{thing['metadata']['name']}"


def pod_of(thing):
    """The pod template of a workload, or None."""
    spec = thing.get("spec", {})
    if thing["kind"] == "CronJob":
        return spec["jobTemplate"]["spec"]["template"]
    if thing["kind"] == "Pod":
        return thing
    return spec.get("template") if thing["kind"] in WORKLOADS else None


def selects(selector, labels):
    if not isinstance(selector, dict):
        return False
    rules = selector.get("matchExpressions", [])
    wanted = selector.get("matchLabels", {} if rules else selector)
    return all(labels.get(key) == value for key, value in wanted.items()) and \
        all(rule["operator"] == "In" and labels.get(rule["key"]) in rule["values"] for rule in rules)


def seconds(text):
    """Of 45s, 1m30s, 0."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    if str(text) == "0":
        return 0
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", str(text))
    return sum(float(number) * units[unit] for number, unit in parts)


def metrics_in(text):
    found = set()
    for name in re.findall(r"\b(?:lethe|process)_[a-z_]*[a-z]\b", text):
        found.add(re.sub(r"_(bucket|sum|count)$", "", name))
    return found


class Checker:
    """Everything about one set of objects. `facts` says what the programs and documents know."""

    def __init__(self, objects, facts):
        self.objects = objects
        self.facts = facts
        self.found = []
        self.pods = [(thing, pod_of(thing)) for thing in objects if pod_of(thing) is not None]

    def fault(self, thing, text):
        self.found.append(f"{name_of(thing)}: {text}")

    def names(self, kind):
        return {thing["metadata"]["name"] for thing in self.objects if thing["kind"] == kind}

    def of(self, kind):
        return [thing for thing in self.objects if thing["kind"] == kind]

    def run(self):
        seen = set()
        for thing in self.objects:
            key = (thing["apiVersion"], name_of(thing))
            if key in seen:
                self.fault(thing, "is there twice")
            seen.add(key)
            if thing["kind"] not in CLUSTER_WIDE and thing["metadata"].get("namespace") != "lethe":
                self.fault(thing, "is not in the namespace lethe")
        for thing, pod in self.pods:
            self.pod(thing, pod)
        for thing in self.of("StatefulSet"):
            self.stateful(thing)
        for thing in self.of("Service"):
            self.service(thing)
        for thing in self.of("PodDisruptionBudget"):
            self.budget(thing)
        self.network()
        self.monitoring()
        self.certificates()
        self.scaling()
        return self.found

    # --- pods

    def pod(self, thing, pod):
        spec = pod["spec"]
        context = spec.get("securityContext", {})
        if context.get("runAsNonRoot") is not True or not context.get("runAsUser"):
            self.fault(thing, "runs as root, or does not say as whom: runAsNonRoot and runAsUser")
        if context.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            self.fault(thing, "has no seccomp profile")
        if context.get("fsGroup") and context.get("fsGroupChangePolicy") != "OnRootMismatch":
            self.fault(thing, "fsGroup without OnRootMismatch opens the keys to the group at each start")
        for flag in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(flag):
                self.fault(thing, f"uses the node's: {flag}")
        if spec.get("automountServiceAccountToken") is not False:
            self.fault(thing, "mounts a token for the cluster's API")
        if spec.get("enableServiceLinks") is not False:
            self.fault(thing, "takes variables from services: enableServiceLinks")
        account = spec.get("serviceAccountName", "default")
        if account not in self.names("ServiceAccount"):
            self.fault(thing, f"service account {account} is not there")
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        claimed = {claim["metadata"]["name"] for claim in thing["spec"].get("volumeClaimTemplates", [])}
        for volume in volumes.values():
            self.volume(thing, volume)
        used = set()
        for container in spec.get("initContainers", []) + spec["containers"]:
            self.container(thing, pod, container, set(volumes) | claimed)
            used |= {mount["name"] for mount in container.get("volumeMounts", [])}
        for unused in sorted((set(volumes) | claimed) - used):
            self.fault(thing, f"volume {unused} is mounted nowhere")

    def volume(self, thing, volume):
        name = volume["name"]
        if "hostPath" in volume:
            self.fault(thing, f"volume {name} is a folder of the node")
        if "emptyDir" in volume and not (volume["emptyDir"] or {}).get("sizeLimit"):
            self.fault(thing, f"volume {name} has no sizeLimit")
        if "secret" in volume:
            secret = volume["secret"]
            keys = [item["key"] for item in secret.get("items", [])]
            self.secret(thing, secret["secretName"], keys)
            if secret.get("defaultMode", 0o644) & 0o037:
                self.fault(thing, f"volume {name}: defaultMode lets others read the secret")
        if "configMap" in volume:
            self.config_map(thing, volume["configMap"]["name"])
        if "persistentVolumeClaim" in volume:
            self.claim(thing, volume["persistentVolumeClaim"]["claimName"])
        if "ephemeral" in volume:
            life = thing["spec"].get("jobTemplate", thing)["spec"].get("ttlSecondsAfterFinished")
            if thing["kind"] in ("CronJob", "Job") and (life is None or life > 3600):
                self.fault(thing, f"volume {name} stays with its job: ttlSecondsAfterFinished of an hour at most")
            source = volume["ephemeral"]["volumeClaimTemplate"]["spec"].get("dataSource")
            if source:
                self.claim(thing, source["name"])

    def secret(self, thing, name, keys):
        made = {c["spec"]["secretName"]: {"tls.crt", "tls.key", "ca.crt"} for c in self.of("Certificate")}
        there = made.get(name) or self.facts["secrets"].get(name)
        if there is None:
            self.fault(thing, f"secret {name} is neither here nor in docs/kubernetes.md")
            return
        for key in keys:
            if key not in there:
                self.fault(thing, f"secret {name} has no {key}")

    def config_map(self, thing, name):
        if name not in self.names("ConfigMap"):
            self.fault(thing, f"config map {name} is not there")
        elif not HASHED.match(name):
            self.fault(thing, f"config map {name} has no hash of its content in its name")

    def claim(self, thing, name):
        own = {f"{claim['metadata']['name']}-{stateful['metadata']['name']}-0"
               for stateful in self.of("StatefulSet")
               for claim in stateful["spec"].get("volumeClaimTemplates", [])}
        if name not in own | self.names("PersistentVolumeClaim"):
            self.fault(thing, f"volume claim {name} is not there")

    def container(self, thing, pod, container, volumes):
        who = container["name"]
        context = container.get("securityContext", {})
        if context.get("privileged") or context.get("allowPrivilegeEscalation") is not False:
            self.fault(thing, f"{who}: may gain privileges")
        if context.get("readOnlyRootFilesystem") is not True:
            self.fault(thing, f"{who}: its root file system can be written")
        capabilities = context.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
            self.fault(thing, f"{who}: keeps capabilities")
        if context.get("runAsUser", 1) == 0 or context.get("runAsNonRoot") is False:
            self.fault(thing, f"{who}: runs as root")
        self.image(thing, who, container.get("image", ""))
        self.resources(thing, who, container.get("resources", {}))
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                self.fault(thing, f"{who}: volume {mount['name']} is not there")
        for variable in container.get("env", []):
            self.variable(thing, who, variable)
        for source in container.get("envFrom", []):
            self.fault(thing, f"{who}: envFrom {source}: variables are named one by one")
        self.command(thing, who, container.get("command", []) + container.get("args", []))
        if thing["kind"] in ("StatefulSet", "Deployment"):
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.probe(thing, container, kind)
        self.accelerator(thing, pod["spec"], container)
        hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        if hook is not None and (len(hook) != 2 or hook[0] != "sleep" or not hook[1].isdigit()):
            self.fault(thing, f"{who}: preStop is no pause: {hook}")

    def image(self, thing, who, image):
        if "@sha256:" in image:
            return
        name, _, tag = image.rpartition(":")
        if not name or "/" in tag:
            self.fault(thing, f"{who}: image {image} has no tag")
        elif tag == "latest":
            self.fault(thing, f"{who}: image {image}: latest is no version")
        elif name.split("/")[-1].startswith("lethe") and tag.split("-")[0] != self.facts["version"]:
            self.fault(thing, f"{who}: image {image} is not of this version, {self.facts['version']}")

    def resources(self, thing, who, resources):
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for what in ("cpu", "memory"):
            if what not in requests:
                self.fault(thing, f"{who}: requests no {what}")
        for what in ("memory", "ephemeral-storage"):
            if what not in limits:
                self.fault(thing, f"{who}: has no limit on {what}")

    def variable(self, thing, who, variable):
        name = variable["name"]
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            self.fault(thing, f"{who}: {name}: a secret in a variable; mount a file")
        if "configMapKeyRef" in source:
            self.config_map(thing, source["configMapKeyRef"]["name"])
        if name.startswith("LETHE_") and name not in self.facts["variables"]:
            self.fault(thing, f"{who}: no program knows the variable {name}")

    def command(self, thing, who, words):
        """Programs and flags exist; files of the image are in deploy/."""
        if not words:
            self.fault(thing, f"{who}: says not what it runs")
            return
        program = words[0]
        if program.startswith("/usr/share/lethe/deploy/"):
            known = self.facts["scripts"].get(program.rsplit("/", 1)[1])
        elif program in ("sleep",):
            return
        else:
            known = self.facts["programs"].get(program)
        if known is None:
            self.fault(thing, f"{who}: no such program: {program}")
            return
        if program == "lethe" and (len(words) < 2 or not re.search(rf"^ +{words[1]}( |$)", known, re.M)):
            self.fault(thing, f"{who}: no such verb: {' '.join(words[:2])}")
        for word in words[1:]:
            flag = word.split("=")[0]
            if flag.startswith("--") and not re.search(rf"(^|[ ,]){re.escape(flag)}([ =,)]|$)", known, re.M):
                self.fault(thing, f"{who}: {program} has no flag {flag}")

    def accelerator(self, thing, spec, container):
        """What computes on a GPU asks for one, goes where there are some, and comes with its own image."""
        who, words = container["name"], container.get("args", [])
        if "--backend=cuda" not in words:
            return
        resources = container.get("resources", {})
        if not resources.get("limits", {}).get("nvidia.com/gpu"):
            self.fault(thing, f"{who}: computes on a GPU and asks for none")
        if not spec.get("nodeSelector"):
            self.fault(thing, f"{who}: computes on a GPU and has no nodeSelector")
        if not any(rule.get("key") == "nvidia.com/gpu" for rule in spec.get("tolerations", [])):
            self.fault(thing, f"{who}: computes on a GPU and tolerates none of their taints")
        if not container["image"].split(":")[0].endswith("-cuda"):
            self.fault(thing, f"{who}: computes on a GPU with an image without CUDA")

    def probe(self, thing, container, kind):
        who = container["name"]
        probe = container.get(kind)
        if probe is None:
            self.fault(thing, f"{who}: has no {kind}")
        elif kind == "livenessProbe" and "health" in probe.get("exec", {}).get("command", []):
            self.fault(thing, f"{who}: {kind}: a disk that fails would be a restart again and again")
        elif "exec" in probe:
            self.command(thing, f"{who}: {kind}", probe["exec"]["command"])
        elif "httpGet" in probe:
            ports = {port["name"] for port in container.get("ports", [])}
            if probe["httpGet"]["port"] not in ports:
                self.fault(thing, f"{who}: {kind}: no port {probe['httpGet']['port']}")
            if probe["httpGet"].get("path") not in self.facts["paths"]:
                self.fault(thing, f"{who}: {kind}: nothing is served at {probe['httpGet'].get('path')}")
        else:
            self.fault(thing, f"{who}: {kind}: the kubelet speaks no TLS to gRPC; ask with lethe health")

    # --- the server

    def stateful(self, thing):
        spec = thing["spec"]
        if spec.get("replicas") != 1:
            self.fault(thing, "one server has one data folder: replicas must be 1")
        retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
        if retention.get("whenDeleted") != "Retain" or retention.get("whenScaled") != "Retain":
            self.fault(thing, "its volumes must be retained, whenDeleted and whenScaled")
        if spec.get("serviceName") not in self.names("Service"):
            self.fault(thing, f"service {spec.get('serviceName')} is not there")
        if not selects(spec["selector"], spec["template"]["metadata"]["labels"]):
            self.fault(thing, "selects not its own pods")
        pod = spec["template"]["spec"]
        container = pod["containers"][0]
        settings = self.settings(thing, pod)
        hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["", "0"])
        pause = int(hook[1]) if hook[1].isdigit() else 0
        drain = pause + seconds(settings.get("drain-delay", "0")) + seconds(settings.get("drain-timeout", "25s"))
        grace = pod.get("terminationGracePeriodSeconds", 30)
        if grace < drain + 5:
            self.fault(thing, f"terminationGracePeriodSeconds {grace} is less than a stop takes, {drain:g} and 5")
        if pause == 0 and seconds(settings.get("drain-delay", "0")) == 0:
            self.fault(thing, "a stop gives nobody time to look elsewhere: preStop or drain-delay")
        ports = {port["containerPort"] for port in container.get("ports", [])}
        for key in ("listen", "http-listen", "metrics-listen"):
            if key in settings and int(settings[key].rsplit(":", 1)[1]) not in ports:
                self.fault(thing, f"no port of the container is {key} {settings[key]}")
            if key in settings and settings[key].startswith("127."):
                self.fault(thing, f"{key} {settings[key]}: nobody outside of the pod reaches it")
        self.places(thing, spec, container, settings)

    def settings(self, thing, pod):
        """What lethed is given, from the config map that is mounted; keys must be options."""
        for volume in pod.get("volumes", []):
            for config in self.of("ConfigMap"):
                if volume.get("configMap", {}).get("name") != config["metadata"]["name"]:
                    continue
                if "lethed.toml" not in config.get("data", {}):
                    continue
                try:
                    settings = tomllib.loads(config["data"]["lethed.toml"])
                except tomllib.TOMLDecodeError as error:
                    self.fault(thing, f"lethed.toml: {error}")
                    return {}
                for key in settings:
                    if not re.search(rf"^ +--{re.escape(key)}( |$)", self.facts["programs"]["lethed"], re.M):
                        self.fault(thing, f"lethed.toml: lethed has no option {key}")
                if settings.get("insecure-loopback") or settings.get("callback-insecure-loopback"):
                    self.fault(thing, "lethed.toml: an insecure switch")
                return settings
        self.fault(thing, "mounts no lethed.toml")
        return {}

    def places(self, thing, spec, container, settings):
        """What is written lies on a claim; what is read is mounted, with the keys that the secret has."""
        claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
        volumes = {volume["name"]: volume for volume in spec["template"]["spec"].get("volumes", [])}
        mounts = {mount["mountPath"]: mount for mount in container.get("volumeMounts", [])}

        def mount_of(path):
            above = [place for place in mounts if path.startswith(place.rstrip("/") + "/")]
            return mounts[max(above, key=len)] if above else None

        for key in ("data", "vault"):
            mount = mount_of(settings.get(key, ""))
            if mount is None or mount["name"] not in claims:
                self.fault(thing, f"{key} {settings.get(key)} is not below a volume that stays")
        if mount_of(settings.get("data", "")) == mount_of(settings.get("vault", "")):
            self.fault(thing, "data and vault lie on one volume")
        if "/tmp" not in mounts:
            self.fault(thing, "exports need /tmp")
        for key in ("tls-certificate", "tls-key", "access", "tls-client-ca", "dsr-key", "dsr-certificate"):
            if key not in settings:
                if key in ("tls-certificate", "tls-key", "access"):
                    self.fault(thing, f"lethed.toml: {key} is missing")
                continue
            mount = mount_of(settings[key])
            volume = volumes.get(mount["name"], {}) if mount else {}
            if "secret" not in volume:
                self.fault(thing, f"{key} {settings[key]} is in no secret")
            else:
                self.secret(thing, volume["secret"]["secretName"], [settings[key].rsplit("/", 1)[1]])

    # --- what is around it

    def service(self, thing):
        spec = thing["spec"]
        if spec.get("type", "ClusterIP") != "ClusterIP":
            self.fault(thing, f"type {spec['type']} opens it to others")
        pods = [pod for _, pod in self.pods if selects(spec["selector"], pod["metadata"]["labels"])]
        if not pods:
            self.fault(thing, "selects no pod")
        for pod in pods:
            names = {port["name"] for container in pod["spec"]["containers"] for port in container.get("ports", [])}
            for port in spec["ports"]:
                if port.get("targetPort") not in names:
                    self.fault(thing, f"port {port['name']}: no container has a port {port.get('targetPort')}")

    def budget(self, thing):
        if not any(selects(thing["spec"]["selector"], pod["metadata"]["labels"]) for _, pod in self.pods):
            self.fault(thing, "selects no pod")
        if thing["spec"].get("maxUnavailable") != 1:
            self.fault(thing, "maxUnavailable must be 1; less, and a node can never be drained")

    def network(self):
        policies = self.of("NetworkPolicy")
        closed = [policy for policy in policies if policy["spec"]["podSelector"] == {} and
                  set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"} and
                  not policy["spec"].get("ingress") and not policy["spec"].get("egress")]
        if not closed:
            self.found.append("NetworkPolicy: none denies everything by default")
        for policy in policies:
            spec = policy["spec"]
            pods = [pod for _, pod in self.pods if selects(spec["podSelector"], pod["metadata"]["labels"])]
            if not pods:
                self.fault(policy, "selects no pod")
            for rule in spec.get("ingress", []):
                if not rule.get("from"):
                    self.fault(policy, "lets everybody in")
                for port in rule.get("ports", []):
                    names = {p["name"] for pod in pods for c in pod["spec"]["containers"] for p in c.get("ports", [])}
                    if isinstance(port["port"], str) and port["port"] not in names:
                        self.fault(policy, f"no selected pod has a port {port['port']}")
            for rule in spec.get("egress", []):
                if not rule.get("to"):
                    self.fault(policy, "lets out to everywhere")
        for thing, pod in self.pods:
            calls = any(variable["name"] == "LETHE_ADDRESS" and not variable.get("value", "").startswith("127.")
                        for container in pod["spec"]["containers"] for variable in container.get("env", []))
            calls = calls or any(str(word).startswith("--server") for container in pod["spec"]["containers"]
                                 for word in container.get("args", []))
            if calls and pod["metadata"]["labels"].get("lethe.caller") != "true":
                self.fault(thing, "calls the server and has not the label lethe.caller that lets it")

    def let_in(self, pod, port):
        """Whether a policy opens the port of the pod to another namespace."""
        return any(selects(policy["spec"]["podSelector"], pod["metadata"]["labels"]) and
                   any("namespaceSelector" in peer for peer in rule.get("from", [])) and
                   any(allowed["port"] == port for allowed in rule.get("ports", []))
                   for policy in self.of("NetworkPolicy") for rule in policy["spec"].get("ingress", []))

    def monitoring(self):
        known = self.facts["metrics"]
        for thing in self.of("ServiceMonitor"):
            services = [s for s in self.of("Service") if selects(thing["spec"]["selector"], s["metadata"].get("labels", {}))]
            if not services:
                self.fault(thing, "selects no service")
            for endpoint in thing["spec"]["endpoints"]:
                ports = [(s, port) for s in services for port in s["spec"]["ports"] if endpoint["port"] == port["name"]]
                if not ports:
                    self.fault(thing, f"no service has a port {endpoint['port']}")
                for service, port in ports:
                    pods = [pod for _, pod in self.pods if selects(service["spec"]["selector"], pod["metadata"]["labels"])]
                    if not all(self.let_in(pod, port["targetPort"]) for pod in pods):
                        self.fault(thing, "no NetworkPolicy lets others in to its pods")
        watched = self.of("PodMonitor")
        scraped = []  # labels that a ServiceMonitor's services select
        for thing in self.of("ServiceMonitor"):
            scraped += [s["spec"]["selector"] for s in self.of("Service")
                        if selects(thing["spec"]["selector"], s["metadata"].get("labels", {}))]
        for thing in watched:
            pods = [pod for _, pod in self.pods if selects(thing["spec"]["selector"], pod["metadata"]["labels"])]
            if not pods:
                self.fault(thing, "selects no pod")
            for pod in pods:
                names = {port["name"] for c in pod["spec"]["containers"] for port in c.get("ports", [])}
                for endpoint in thing["spec"]["podMetricsEndpoints"]:
                    if endpoint["port"] not in names:
                        self.fault(thing, f"a selected pod has no port {endpoint['port']}")
                    elif not self.let_in(pod, endpoint["port"]):
                        self.fault(thing, f"no NetworkPolicy lets others in to {pod['metadata']['labels']}")
        for thing, pod in self.pods:
            names = {port["name"] for c in pod["spec"]["containers"] for port in c.get("ports", [])}
            labels = pod["metadata"]["labels"]
            # Where there are alerts, what they look at is there.
            if self.of("PrometheusRule") and "metrics" in names and \
                    not any(selects(selector, labels) for selector in scraped) and \
                    not any(selects(monitor["spec"]["selector"], labels) for monitor in watched):
                self.fault(thing, "has metrics that no monitor looks at")
        for thing in self.of("PrometheusRule"):
            if thing["spec"]["groups"] != self.facts["alerts"]["groups"]:
                self.fault(thing, "is not deploy/alerts/lethe.rules.yml")
            for group in thing["spec"]["groups"]:
                for rule in group["rules"]:
                    names = metrics_in(str(rule["expr"]))
                    foreign = set(re.findall(r"\bkube_[a-z_]+", str(rule["expr"]))) - FOREIGN
                    for name in sorted((names - known) | foreign):
                        self.fault(thing, f"{rule.get('alert')}: no such metric: {name}")
                    if not names and not FOREIGN & set(re.findall(r"[a-z_]+", str(rule["expr"]))):
                        self.fault(thing, f"{rule.get('alert')}: looks at no metric that is known")

    def certificates(self):
        issuers = self.names("Issuer")
        made = {c["spec"]["secretName"] for c in self.of("Certificate")}
        for thing in self.of("Certificate"):
            issuer = thing["spec"]["issuerRef"]
            if issuer.get("kind", "Issuer") == "Issuer" and issuer["name"] not in issuers:
                self.fault(thing, f"issuer {issuer['name']} is not there")
        for thing in self.of("Issuer"):
            if "ca" in thing["spec"] and thing["spec"]["ca"]["secretName"] not in made:
                self.fault(thing, f"secret {thing['spec']['ca']['secretName']} is made by no certificate")

    def scaling(self):
        targets = {}
        for thing in self.of("ScaledObject"):
            target = thing["spec"]["scaleTargetRef"]
            reference = (target.get("kind", "Deployment"), target["name"])
            targets[reference] = thing
            if target["name"] not in self.names(reference[0]):
                self.fault(thing, f"{'/'.join(reference)} is not there")
            for trigger in thing["spec"]["triggers"]:
                for name in sorted(metrics_in(trigger.get("metadata", {}).get("query", "")) - self.facts["metrics"]):
                    self.fault(thing, f"no such metric: {name}")
        for thing in self.of("Deployment"):
            scaled = ("Deployment", thing["metadata"]["name"]) in targets
            if scaled and "replicas" in thing["spec"]:
                self.fault(thing, "replicas would undo what its ScaledObject did at each apply")
            if not scaled and "replicas" not in thing["spec"]:
                self.fault(thing, "says not how many replicas")
            if not selects(thing["spec"]["selector"], thing["spec"]["template"]["metadata"]["labels"]):
                self.fault(thing, "selects not its own pods")


def faults(objects, facts):
    return Checker(objects, facts).run()
