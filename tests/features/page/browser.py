"""A headless Chromium, driven by chromedriver in the W3C's WebDriver protocol: JSON over HTTP, no more."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

import pytest

_STARTED = re.compile(r"started successfully on port (\d+)")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def missing_programs() -> list[str]:
    """Missing programs of Debian's packages chromium and chromium-driver."""
    return [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]


NEEDS_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        bool(missing_programs()),
        reason=f"no {' and no '.join(missing_programs())}: apt install chromium chromium-driver",
    ),
]


class Browser:
    """One window; closed by leaving the context."""

    def __init__(self, width: int = 1440, height: int = 900, *, dark: bool = False) -> None:
        self._size = width, height
        self._scheme = "dark" if dark else "light"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ports = (_STARTED.search(line) for line in self._process.stdout)
        self._port = next(int(found[1]) for found in ports if found)
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def _start(self) -> None:
        width, height = self._size
        arguments = ["--headless=new", "--hide-scrollbars", f"--window-size={width},{height}"]
        # A window that Chromium takes for a hidden one draws no frames.
        arguments += ["--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding"]
        # Chromium's sandbox refuses to be root's.
        arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
        options = {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._session = f"/session/{made['sessionId']}"
        self.resize()
        self.devtools(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": self._scheme}],
        )

    def __exit__(self, *_: object) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait(15)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, json.dumps(body or {}) if method == "POST" else None)
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{path}: {value['error']}: {value['message']}")
        return value

    def open(self, url: str) -> None:
        """Go there; returns when the document is loaded."""
        self._call("POST", f"{self._session}/url", {"url": url})

    def script(self, code: str, *arguments: object) -> Any:
        """Run a function's body in the page: `arguments[0]`, `return`."""
        body = {"script": code, "args": list(arguments)}
        return self._call("POST", f"{self._session}/execute/sync", body)

    def devtools(self, command: str, **parameters: object) -> Any:
        """A command of the DevTools protocol."""
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width: int = 0, height: int = 0) -> None:
        """Another size of the window; without one, that of the beginning."""
        size = {"width": width or self._size[0], "height": height or self._size[1]}
        self.devtools("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)

    def press(self, *keys: str) -> None:
        """Press and release keys, one after the other; special ones by their code points in WebDriver."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self._call("POST", f"{self._session}/actions", {"actions": [source]})

    def _element(self, selector: str) -> str:
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        return f"{self._session}/element/{found[_ELEMENT]}"

    def click(self, selector: str) -> None:
        """As a mouse does: in the middle, and only where nothing is in the way."""
        self._call("POST", f"{self._element(selector)}/click")

    def point(self, selector: str, pointer: str) -> None:
        """Put the mouse there, or tap there with a finger (`touch`)."""
        element = self._element(selector).rpartition("/")[2]
        move = {"type": "pointerMove", "x": 0, "y": 0, "origin": {_ELEMENT: element}}
        tap = [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp")]
        actions = [move, *(tap if pointer == "touch" else [])]
        source = {
            "type": "pointer",
            "id": pointer,
            "parameters": {"pointerType": pointer},
            "actions": actions,
        }
        self._call("POST", f"{self._session}/actions", {"actions": [source]})

    def type(self, selector: str, text: str) -> None:
        """Type into a field."""
        self._call("POST", f"{self._element(selector)}/value", {"text": text})

    def text(self, selector: str) -> str:
        """The visible text; nothing if there is no such element."""
        found = self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return str(found)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a select as its user would."""
        self.script(
            "const select = document.querySelector(arguments[0]); select.value = arguments[1];"
            "select.dispatchEvent(new Event('change', {bubbles: true}))",
            selector,
            value,
        )

    def console(self) -> list[str]:
        """The browser's complaints since the last call: errors, and violations of the policy."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries]

    def screenshot(self, path: Path) -> None:
        """The window as a PNG."""
        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def eventually(self, true: Callable[[], bool], what: str, within_s: float = 15) -> None:
        """Wait until something is so. Raises AssertionError."""
        until = time.monotonic() + within_s
        while not true():
            assert time.monotonic() < until, f"not within {within_s} s: {what}"
            time.sleep(0.05)
