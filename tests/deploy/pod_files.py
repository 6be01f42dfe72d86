#!/usr/bin/env python3
"""pod_files.py MANIFESTS FOLDER SECRETS: lays out what a kubelet mounts into the server's pod.

MANIFESTS is a rendered overlay; below FOLDER every mount of its StatefulSet is made as the kubelet makes it: claims
as folders of root and the group fsGroup with mode 2775, secrets as folders of links with files 0440 of root and the
group, settings as files 0644. SECRETS holds a folder a secret, with a file a key. Prints the pod as words for bash:
arrays `args`, `probe` and `worker` (what a worker runs), the variables of its environment, and `grace`.
"""

import os
import pathlib
import shlex
import shutil
import sys

import yaml


def place(folder, path):
    return pathlib.Path(folder + path)


def main():
    manifests, folder, secrets = sys.argv[1:]
    with open(manifests, encoding="utf-8") as file:
        objects = [thing for thing in yaml.safe_load_all(file) if thing]
    server = next(thing for thing in objects if thing["kind"] == "StatefulSet")
    pod = server["spec"]["template"]["spec"]
    group = pod["securityContext"]["fsGroup"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    container = pod["containers"][0]
    for mount in container["volumeMounts"]:
        target, volume = place(folder, mount["mountPath"]), volumes.get(mount["name"])
        target.parent.mkdir(parents=True, exist_ok=True)
        if volume is None:  # a claim
            target.mkdir()
            os.chown(target, 0, group)
            target.chmod(0o2775)
        elif "secret" in volume:
            target.mkdir()
            data = target / "..2026"
            data.mkdir()
            (target / "..data").symlink_to("..2026")
            for key in sorted(os.listdir(pathlib.Path(secrets) / volume["secret"]["secretName"])):
                shutil.copy(pathlib.Path(secrets) / volume["secret"]["secretName"] / key, data / key)
                os.chown(data / key, 0, group)
                (data / key).chmod(volume["secret"]["defaultMode"] | 0o440)
                (target / key).symlink_to(f"..data/{key}")
            os.chown(target, 0, group)
            data.chmod(0o2755)
            target.chmod(0o3777)
        elif "configMap" in volume:
            config = next(thing for thing in objects if thing["kind"] == "ConfigMap" and
                          thing["metadata"]["name"] == volume["configMap"]["name"])
            target.write_text(config["data"][mount["subPath"]], encoding="utf-8")
            os.chown(target, 0, group)
            target.chmod(0o644)
    print(f"args=({shlex.join(container['args'])})")
    print(f"probe=({shlex.join(container['startupProbe']['exec']['command'])})")
    for variable in container["env"]:
        print(f"export {variable['name']}={shlex.quote(variable['value'])}")
    worker = next(t for t in objects if t["kind"] == "Deployment" and t["metadata"]["name"] == "lethe-worker")
    print(f"worker=({shlex.join(worker['spec']['template']['spec']['containers'][0]['args'])})")
    print(f"grace={pod['terminationGracePeriodSeconds']}")


if __name__ == "__main__":
    main()
