"""The manifests for Kubernetes, rendered, and the parts of what is rendered."""

import yaml

from support import ROOT

KUBERNETES = ROOT / "deploy/kubernetes"
OVERLAYS = ["sidecar", "shared", "cluster", "transparent"]


def render(directory):
    """What kustomize makes of a directory, as far as ours goes."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    known = {"apiVersion", "kind", "resources", "configMapGenerator", "generatorOptions", "images"}
    assert set(kustomization) <= known, f"{directory} has more than is rendered here"
    found = []
    for resource in kustomization.get("resources", []):
        path = (directory / resource).resolve()
        found += render(path) if path.is_dir() else yaml.safe_load_all(path.read_text())
    for map_ in kustomization.get("configMapGenerator", []):
        data = {name: (directory / name).read_text() for name in map_["files"]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map_["name"]}, "data": data})
    tags = {it["name"]: it["newTag"] for it in kustomization.get("images", [])}
    for container in (it for resource in found for it in containers(resource)):
        if container["image"] in tags:
            container["image"] += ":" + tags[container["image"]]
    return found


def key(resource):
    return resource["kind"], resource["metadata"]["name"]


def pod(resource):
    return resource.get("spec", {}).get("template", {}).get("spec")


def containers(resource):
    found = pod(resource) or {}
    return found.get("initContainers", []) + found.get("containers", [])


def environment(container):
    return {it["name"]: it.get("value") for it in container.get("env", [])}
