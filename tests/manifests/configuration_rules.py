"""How kube-scheduler must be configured, and the extender be started."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import yaml

from scheduler_ext.wire.config import API_VERSION, Configuration, load_config
from scheduler_ext.wire.times import duration_s
from tests.manifests.objects import (
    Json,
    command_line,
    entries,
    extenders,
    kube_schedulers,
    mapping,
    of_kind,
    option,
    pods,
)

_WORKERS = re.compile(r"(^|\s)(--workers|-w)([\s=\d]|$)")
_TLS_OPTIONS = ("--tls-cert-file", "--tls-key-file", "--client-ca-file")
# The default scheduler's own, which a second one must not take.
_DEFAULT_SCHEDULER, _DEFAULT_LEASE = "default-scheduler", "kube-scheduler"
# kube-scheduler's plugins that score what a pod states, and the default weights of all other plugins together
# (TaintToleration 3, DynamicResources 2, NodeResourcesFit, NodeResourcesBalancedAllocation, ImageLocality and
# VolumeBinding). A plugin scores 0 to 100; a point of an extender counts ten times its weight.
_STATED = ("NodeAffinity", "InterPodAffinity", "PodTopologySpread")
_OTHER_WEIGHTS = 9
_BEST_SCORE, _BEST_POINTS, _POINT = 100, 10, 10


def scheduler_configurations(objects: Sequence[Json]) -> Iterator[Json]:
    """Every KubeSchedulerConfiguration in a ConfigMap, one or several to a file."""
    return _configurations(objects, "KubeSchedulerConfiguration")


def _configurations(objects: Sequence[Json], kind: str) -> Iterator[Json]:
    for config_map in of_kind(objects, "ConfigMap"):
        for text in mapping(config_map, "data").values():
            for document in _documents(text):
                if isinstance(document, dict) and document.get("kind") == kind:
                    yield document


@cache
def _documents(text: str) -> tuple[Any, ...]:
    """The documents of a text, none where it is no YAML; every rule reads the same ones, and changes none."""
    try:
        return tuple(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError:
        return ()


def schedulers_are_configured(objects: Sequence[Json]) -> Iterator[str]:
    running = list(kube_schedulers(objects))
    if running and not any(scheduler_configurations(objects)):
        yield "there is no KubeSchedulerConfiguration"
    for where, container in running:
        if not option(command_line(container), "--config"):
            yield f"{where}: without --config it would be a second default scheduler"


def the_default_scheduler_is_left_alone(objects: Sequence[Json]) -> Iterator[str]:
    for configuration in scheduler_configurations(objects):
        for profile in entries(configuration, "profiles") or [{}]:
            if profile.get("schedulerName") in (None, "", _DEFAULT_SCHEDULER):
                yield "a profile is the default scheduler's"
        election = mapping(configuration, "leaderElection")
        if election.get("leaderElect") is not True:
            yield "leaderElect is not true: all replicas would decide at once"
        if election.get("resourceName") in (None, "", _DEFAULT_LEASE):
            yield "the Lease is the default scheduler's"


def stated_preferences_come_first(objects: Sequence[Json]) -> Iterator[str]:
    """Then the extender's points, and at last the other scores of kube-scheduler."""
    for configuration in scheduler_configurations(objects):
        point = _POINT * sum(each.get("weight", 1) for each in entries(configuration, "extenders"))
        others = _BEST_SCORE * _OTHER_WEIGHTS
        if point <= others:
            yield f"a point of the extender counts {point}, and other scores up to {others}"
        for profile in entries(configuration, "profiles") or [{}]:
            weights = {
                plugin["name"]: plugin.get("weight", 1)
                for phase in ("multiPoint", "score")
                for plugin in entries(profile, "plugins", phase, "enabled")
            }
            for plugin in _STATED:
                if weights.get(plugin, 0) <= _BEST_POINTS * point + others:
                    yield f"a step of {plugin} counts less than the points of the extender"
            yield from _unstated_preferences(profile)


def _unstated_preferences(profile: Json) -> Iterator[str]:
    """Those that these plugins score although the pod does not state them."""
    args = {each["name"]: mapping(each, "args") for each in entries(profile, "pluginConfig")}
    affinity, spread = args.get("InterPodAffinity", {}), args.get("PodTopologySpread", {})
    if affinity.get("hardPodAffinityWeight") != 0:
        yield "hardPodAffinityWeight is not 0: the affinity of other pods decides before packing"
    if affinity.get("ignorePreferredTermsOfExistingPods") is not True:
        yield "ignorePreferredTermsOfExistingPods is not true: so do their preferences"
    if spread.get("defaultingType") != "List" or spread.get("defaultConstraints"):
        yield "PodTopologySpread has default constraints: pods that state no spread are spread"


def the_way_to_the_extender_is_safe(objects: Sequence[Json]) -> Iterator[str]:
    mounted = _mounted(objects)
    for configuration in scheduler_configurations(objects):
        if not entries(configuration, "extenders"):
            yield "there is no extender"
        for extender in entries(configuration, "extenders"):
            yield from _what_is_sent(extender)
            yield from _how_it_is_sent(extender)
            yield from _files_missing(extender, mounted)


def _what_is_sent(extender: Json) -> Iterator[str]:
    resources = entries(extender, "managedResources")
    if "managedResources" in extender and not resources:
        yield "managedResources is empty: every pod of the scheduler would be sent"
    for resource in resources:
        name = resource.get("name", "")
        if "/" not in name:
            yield f"managedResources has {name!r}, which is no GPU"
        if resource.get("ignoredByScheduler"):
            yield f"{name} is ignoredByScheduler: no component would count it"
    if extender.get("ignorable"):
        yield "ignorable is true: without the extender pods would be placed by count alone"
        if extender.get("bindVerb"):
            yield "ignorable with bindVerb: a binding that fails would be tried once more without a device"
    if not extender.get("nodeCacheCapable"):
        yield "nodeCacheCapable is not true"


def _how_it_is_sent(extender: Json) -> Iterator[str]:
    prefix = extender.get("urlPrefix") or ""
    url, tls = urlsplit(prefix), mapping(extender, "tlsConfig")
    if url.scheme not in ("http", "https"):
        yield f"urlPrefix {prefix!r} begins with neither http:// nor https://"
    if (url.scheme == "https") != bool(extender.get("enableHTTPS")):
        yield f"enableHTTPS does not go with {prefix}"
    if url.scheme == "http" and not _is_loopback(url.hostname or ""):
        yield f"{prefix} is plain HTTP over the network"
    if tls.get("insecure"):
        yield "tlsConfig.insecure is true"
    if not extender.get("enableHTTPS"):
        return
    if not any(str(tls.get(key) or "").strip() for key in ("caFile", "caData")):
        yield "enableHTTPS without a CA: kube-scheduler would verify nothing"
    if not (tls.get("certFile") and tls.get("keyFile")):
        yield "enableHTTPS without a client certificate"
    if tls.get("serverName") not in (None, url.hostname):
        yield f"serverName is not the host of {prefix}"


def _files_missing(extender: Json, mounted: set[str]) -> Iterator[str]:
    for key in ("caFile", "certFile", "keyFile"):
        file = mapping(extender, "tlsConfig").get(key)
        if file and not any(file.startswith(f"{path}/") for path in mounted):
            yield f"{key} {file} is in no volume of kube-scheduler"


def evictions_are_asked_about(objects: Sequence[Json]) -> Iterator[str]:
    """kube-scheduler chooses victims by counting; the extender knows where that would not help."""
    for configuration in scheduler_configurations(objects):
        for extender in entries(configuration, "extenders"):
            if not extender.get("preemptVerb"):
                yield "preemptVerb is missing: pods would be evicted for one that cannot run in their place"


def both_agree_on_who_binds(objects: Sequence[Json]) -> Iterator[str]:
    for configuration, ours in _together(objects):
        binds = any(extender.get("bindVerb") for extender in entries(configuration, "extenders"))
        if binds and not ours.bind.enabled:
            yield "bindVerb without bind.enabled: every binding would be refused"
        if ours.bind.enabled and not binds:
            yield "bind.enabled without bindVerb: shares would be bound without a device"


def bindings_are_answered_in_time(objects: Sequence[Json]) -> Iterator[str]:
    """kube-scheduler gives up after httpTimeout, and would not learn why a bind failed."""
    for configuration, ours in _together(objects):
        for asked in entries(configuration, "extenders"):
            waits_s = duration_s("httpTimeout", asked.get("httpTimeout") or "5s", 0, 3600)
            deadlines = {"server.decisionDeadline": ours.server.decision_deadline}
            if asked.get("bindVerb"):
                deadlines["bind.deadline"] = ours.bind.deadline
            for name, deadline in deadlines.items():
                if duration_s(name, deadline, 0, 3600) >= waits_s:
                    yield f"{name} {deadline} is not below httpTimeout, {waits_s:g}s"


def both_know_the_same(objects: Sequence[Json]) -> Iterator[str]:
    """Whose pods they are, and which resource is a share."""
    for configuration, ours in _together(objects):
        profiles = [each.get("schedulerName") for each in entries(configuration, "profiles")]
        if sorted(map(str, profiles)) != sorted(ours.scheduler_names):
            yield f"schedulerNames {ours.scheduler_names} are not the profiles {profiles}"
        managed = {
            resource.get("name")
            for each in entries(configuration, "extenders")
            for resource in entries(each, "managedResources")
        }
        if managed and ours.resources.memory_share not in managed:
            yield f"{ours.resources.memory_share} is not in managedResources"


def _together(objects: Sequence[Json]) -> Iterator[tuple[Json, Configuration]]:
    """kube-scheduler's configuration and the extender's, of each ConfigMap that has both."""
    for config_map in of_kind(objects, "ConfigMap"):
        for configuration in scheduler_configurations([config_map]):
            for ours in extender_configurations([config_map]):
                yield configuration, ours


def extender_configurations(objects: Sequence[Json]) -> Iterator[Configuration]:
    """Every ExtenderConfiguration in a ConfigMap, with defaults for missing keys."""
    for configuration in _configurations(objects, "ExtenderConfiguration"):
        yield _configuration(yaml.safe_dump({"apiVersion": API_VERSION, **configuration}))


@cache
def _configuration(text: str) -> Configuration:
    """Every rule reads the same one, and changes nothing in it."""
    return load_config(text.encode())


def one_beside_it_is_there(objects: Sequence[Json]) -> Iterator[str]:
    """A server on loopback must be in the scheduler's own pod."""
    alone = [
        where
        for where, spec in pods(objects)
        if any(kube_schedulers([{"kind": "Pod", "metadata": {}, "spec": spec}]))
        and not any(extenders([{"kind": "Pod", "metadata": {}, "spec": spec}]))
    ]
    for configuration in scheduler_configurations(objects):
        for extender in entries(configuration, "extenders"):
            host = urlsplit(extender.get("urlPrefix") or "").hostname or ""
            if _is_loopback(host):
                for where in alone:
                    yield f"{where}: asks an extender on loopback, and has none"


def _mounted(objects: Sequence[Json]) -> set[str]:
    return {
        mount["mountPath"].rstrip("/")
        for _, container in kube_schedulers(objects)
        for mount in entries(container, "volumeMounts")
    }


def one_worker(objects: Sequence[Json]) -> Iterator[str]:
    for where, container in extenders(objects):
        for word in command_line(container):
            if _WORKERS.search(word):
                yield f"{where}: {word} sets the number of workers, which is 1"


def extenders_listen_where_they_may(objects: Sequence[Json]) -> Iterator[str]:
    for where, container in extenders(objects):
        words = command_line(container)
        if not _listens_on_loopback(option(words, "--inspect-listen")):
            yield f"{where}: the inspection listener is reachable from outside the pod"
        has_tls = all(option(words, name) for name in _TLS_OPTIONS)
        if not _listens_on_loopback(option(words, "--listen")) and not has_tls:
            yield f"{where}: the API listens beyond loopback without client certificates"


def _listens_on_loopback(address: str | None) -> bool:
    """Loopback is the extender's default."""
    return address is None or _is_loopback(address.rpartition(":")[0].strip("[]"))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


RULES = (
    schedulers_are_configured,
    the_default_scheduler_is_left_alone,
    stated_preferences_come_first,
    the_way_to_the_extender_is_safe,
    evictions_are_asked_about,
    both_agree_on_who_binds,
    bindings_are_answered_in_time,
    both_know_the_same,
    one_beside_it_is_there,
    one_worker,
    extenders_listen_where_they_may,
)
