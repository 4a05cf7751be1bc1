"""A page's requests without a browser: the stream of changes.

    python -m benchmarks.page_watcher URL PAGES

requests that many pages every second, reports when each has received the whole state, and ends on request.
"""

from __future__ import annotations

import gzip
import sys
import time
import urllib.request


class Watcher:
    """A page's requests without a browser: the stream of changes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.id = ""
        self.replies: list[tuple[int, int]] = []

    def ask(self) -> bool:
        """One request; false while the server knows nothing yet. Records (bytes on the wire, bytes of
        text).
        """
        headers = {"Accept-Encoding": "gzip", "Last-Event-ID": self.id}
        with urllib.request.urlopen(urllib.request.Request(self._url, headers=headers), timeout=30) as reply:
            body = reply.read()
            text = gzip.decompress(body) if reply.headers["Content-Encoding"] == "gzip" else body
        found = [line for line in text.split(b"\n", 3) if line.startswith(b"id: ")]
        if not found:
            return False
        self.id = found[0][4:].decode()
        self.replies.append((len(body), len(text)))
        return True

    def ask_first(self) -> None:
        """Until the whole state was received."""
        while not self.ask():
            time.sleep(0.15)


def main() -> None:
    """The command line."""
    url, pages = sys.argv[1], int(sys.argv[2])
    watchers = [Watcher(url) for _ in range(pages)]
    for watcher in watchers:
        watcher.ask_first()
    print("watching", flush=True)
    while True:
        time.sleep(1.0)
        for watcher in watchers:
            watcher.ask()


if __name__ == "__main__":
    main()
