"""A pod's volumes as directories, updated by swapping a symbolic link, as in the kubelet."""

from __future__ import annotations

import base64
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.e2e.cluster.api import Api, Json

Files = dict[str, bytes]
# As in the kubelet: when a fifth of a token's life is left.
_OF_ITS_LIFE = 0.8


class NotYetError(Exception):
    """A source of a volume does not exist yet; str() names it."""


def field(pod: Json, path: str) -> str:
    """A field of the pod as downward API; its address is loopback, like everything here."""
    if path == "status.podIP":
        return "127.0.0.1"
    value = pod
    for part in path.split("."):
        value = value[part]
    return str(value)


def _chosen(content: Mapping[str, str], name: str, items: list[Json] | None) -> Iterator[tuple[str, str]]:
    """(path, value) of the keys that a volume names, or of all. Raises NotYetError for a missing key."""
    for item in items if items is not None else [{"key": key, "path": key} for key in content]:
        if item["key"] not in content:
            raise NotYetError(f"{name} has no {item['key']}")
        yield item["path"], content[item["key"]]


class Volumes:
    """The volumes of one pod under `directory`; `rewrite` adapts the text of configuration files."""

    def __init__(
        self,
        pod: Json,
        api: Api,
        directory: Path,
        rewrite: Callable[[str], str],
        host_path: Callable[[str], Path],
    ) -> None:
        self._pod = pod
        self._namespace = pod["metadata"]["namespace"]
        self._api = api
        self._directory = directory
        self._rewrite = rewrite
        self._contents: dict[str, Files] = {}
        self._host_paths = {
            volume["name"]: host_path(volume["hostPath"]["path"])
            for volume in pod["spec"].get("volumes", ())
            if "hostPath" in volume
        }
        self._tokens: dict[str, tuple[bytes, float]] = {}
        self._turn = 0
        directory.mkdir(parents=True)

    def path(self, name: str) -> Path:
        """The source path of a volume's mounts."""
        return self._host_paths.get(name, self._directory / name)

    def sync(self) -> None:
        """Write changes. Raises NotYetError, ApiError."""
        for volume in self._pod["spec"].get("volumes", ()):
            name = volume["name"]
            if name in self._host_paths:
                continue
            if "emptyDir" in volume:
                self.path(name).mkdir(exist_ok=True)
                continue
            files = self._files(volume)
            if files != self._contents.get(name):
                self._write(self.path(name), files)
                self._contents[name] = files

    def _files(self, volume: Json) -> Files:
        files: Files = {}
        for source in volume["projected"]["sources"] if "projected" in volume else [volume]:
            if "serviceAccountToken" in source:
                wanted = source["serviceAccountToken"]
                files[wanted["path"]] = self._token(wanted)
            elif "configMap" in source:
                files |= self._config_map(source["configMap"]["name"], source["configMap"].get("items"))
            elif "secret" in source:
                secret = source["secret"]
                files |= self._secret(secret.get("secretName") or secret["name"], secret.get("items"))
            else:
                for item in source["downwardAPI"]["items"]:
                    files[item["path"]] = field(self._pod, item["fieldRef"]["fieldPath"]).encode()
        return files

    def _config_map(self, name: str, items: list[Json] | None) -> Files:
        content = self._get("configmaps", name).get("data", {})
        return {path: self._rewrite(text).encode() for path, text in _chosen(content, name, items)}

    def _secret(self, name: str, items: list[Json] | None) -> Files:
        content = self._get("secrets", name).get("data", {})
        return {path: base64.b64decode(value) for path, value in _chosen(content, name, items)}

    def _token(self, wanted: Json) -> bytes:
        """A token of this pod, requested again when four fifths of its life are over."""
        token, renew_at = self._tokens.get(wanted["path"], (b"", 0.0))
        if time.monotonic() >= renew_at:
            token = self._new_token(wanted)
            self._tokens[wanted["path"]] = (
                token,
                time.monotonic() + _OF_ITS_LIFE * wanted["expirationSeconds"],
            )
        return token

    def _new_token(self, wanted: Json) -> bytes:
        """Bound to the pod, as requested by the kubelet."""
        meta = self._pod["metadata"]
        account = self._pod["spec"]["serviceAccountName"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec: Json = {"expirationSeconds": wanted["expirationSeconds"], "boundObjectRef": reference}
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        token: str = self._api.create(path, {"spec": spec})["status"]["token"]
        return token.encode()

    def _get(self, kind: str, name: str) -> Json:
        """No name contains a wildcard, so a list by name is a get that may find nothing."""
        found = self._api.items(
            f"/api/v1/namespaces/{self._namespace}/{kind}", fieldSelector=f"metadata.name={name}"
        )
        if not found:
            raise NotYetError(f"{kind} {self._namespace}/{name} does not exist")
        return found[0]

    def _write(self, volume: Path, files: Files) -> None:
        """All files at once: links to a link that is replaced by one rename."""
        volume.mkdir(exist_ok=True)
        self._turn += 1
        fresh = volume / f"..{self._turn}"
        fresh.mkdir()
        for name, content in files.items():
            (fresh / name).write_bytes(content)
            if not (volume / name).is_symlink():
                (volume / name).symlink_to(f"..data/{name}")
        link = volume / "..data"
        stale = link.readlink() if link.is_symlink() else None
        (volume / "..next").symlink_to(fresh.name)
        (volume / "..next").replace(link)
        if stale is not None:
            shutil.rmtree(volume / stale)
