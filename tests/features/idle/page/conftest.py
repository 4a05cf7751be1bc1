"""The fixtures of the page in a browser."""

from tests.features.page.fixtures import browser, chromium, page, server, still

__all__ = ["browser", "chromium", "page", "server", "still"]
