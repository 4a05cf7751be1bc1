"""A pod and the template of its claim in one file, and how tables name what is asked by claim."""

from __future__ import annotations

from tests.cli.commands import WHOLE, Written, run
from tests.dra_objects import claim_template, device_class, gpu_device, request, resource_slice
from tests.kube_objects import gpu, gpu_node, inventory, node, pod


def test_tables_say_by_claim_beside_by_device_plugin(written: Written) -> None:
    slices = [
        resource_slice(name, [gpu_device(i, node=name) for i in range(count)])
        for name, count in (("two", 2), ("one", 1))
    ]
    plugin = [node("plugin", {WHOLE: "1"}), gpu_node("plugin", [gpu(0)])]
    objects = inventory(device_class(), node("two"), node("one"), *slices, *plugin)
    cluster = written("cluster.json", objects)
    asking = pod("train", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "asked"}])
    file = written("pod.json", inventory(claim_template("asked", request(2)), asking))
    table = run("explain", "-f", file, "--inventory", cluster).stdout
    assert table.startswith("Pod default/train asks 2 of gpu.nvidia.com by claim\n")
    assert "2 by claim" in table
    assert "needs 2, has 1 gpu.nvidia.com" in table
    plain = written("plain.json", pod("plain", {WHOLE: "1"}))
    table = run("explain", "-f", plain, "--inventory", cluster).stdout
    ways = {line.split()[0]: line for line in table.splitlines() if " fits " in line}
    assert "main: 1 by claim" in ways["two"]
    assert "main: 1 by device plugin" in ways["plugin"]
