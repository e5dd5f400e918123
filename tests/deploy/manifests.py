"""The manifests for Kubernetes, rendered, and the parts of what is rendered."""

import copy

import yaml

from support import ROOT

KUBERNETES = ROOT / "deploy/kubernetes"
OVERLAYS = ["sidecar", "shared", "cluster", "transparent", "gateway-ha"]
MONITORING = ["sidecar", "gateway"]
# By which members of a list are told apart when a patch is merged, as Kubernetes' API has it.
MERGE_KEYS = {
    "containers": "name",
    "env": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumes": "name",
}


def render(directory):
    """What kustomize makes of a directory, as far as ours goes."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    known = {"apiVersion", "kind", "resources", "configMapGenerator", "generatorOptions", "images", "patches"}
    assert set(kustomization) <= known, f"{directory} has more than is rendered here"
    found = []
    for resource in kustomization.get("resources", []):
        path = (directory / resource).resolve()
        found += render(path) if path.is_dir() else yaml.safe_load_all(path.read_text())
    for map_ in kustomization.get("configMapGenerator", []):
        data = {name: (directory / name).read_text() for name in map_["files"]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map_["name"]}, "data": data})
    for patch in kustomization.get("patches", []):
        patch = yaml.safe_load((directory / patch["path"]).read_text())
        (at,) = (number for number, it in enumerate(found) if key(it) == key(patch))
        found[at] = merged(found[at], patch)
    tags = {it["name"]: it["newTag"] for it in kustomization.get("images", [])}
    for container in (it for resource in found for it in containers(resource)):
        if container["image"] in tags:
            container["image"] += ":" + tags[container["image"]]
    return found


def merged(old, new, name=None):
    """A strategic merge: of maps by their keys, of lists by that of their members. What a patch names comes
    first: one that names a container behind others would change their order."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {name: merged(old.get(name), value, name) for name, value in new.items()}
    if isinstance(old, list) and name in MERGE_KEYS:
        by = MERGE_KEYS[name]
        before = {it[by]: it for it in old}
        named = [merged(before.pop(it[by], None), it) for it in new]
        return named + list(before.values())
    return copy.deepcopy(new)


def key(resource):
    return resource["kind"], resource["metadata"]["name"]


def pod(resource):
    return resource.get("spec", {}).get("template", {}).get("spec")


def containers(resource):
    found = pod(resource) or {}
    return found.get("initContainers", []) + found.get("containers", [])


def environment(container):
    """Its variables; what Kubernetes is to fill in is the field in braces."""
    field = lambda it: "{" + it["valueFrom"]["fieldRef"]["fieldPath"] + "}"
    return {it["name"]: it["value"] if "value" in it else field(it) for it in container.get("env", [])}


def selects(selector, labels):
    """Whether a selector is of what has these labels."""
    operators = {"In": lambda value, among: value in among, "NotIn": lambda value, among: value not in among}
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        operators[it["operator"]](labels.get(it["key"]), it["values"]) for it in selector.get("matchExpressions", [])
    )
