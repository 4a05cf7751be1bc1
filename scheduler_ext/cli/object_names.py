"""Names of namespaced objects as people write them."""

from __future__ import annotations

from typing import Any

import click


class NamespacedName(click.ParamType[tuple[str, str]]):
    """NAMESPACE/NAME."""

    name = "namespace/name"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        namespace, slash, name = str(value).partition("/")
        if not (namespace and slash and name) or "/" in name:
            self.fail(f"{value!r} is no NAMESPACE/NAME such as gpu-scheduler/gpu-scheduler", param, ctx)
        return namespace, name
