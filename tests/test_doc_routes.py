"""The reference has exactly the answered paths of all listeners."""

from __future__ import annotations

import re

from flask import Flask

from tests.pages import PAGE_EVENTS, page
from tests.server.served import served

PAGES = ("wire", "inspection")


def served_paths() -> set[str]:
    with served() as server:
        apps = server.apps
        return set().union(*map(paths, (apps.api, apps.health, apps.inspect)))


def paths(app: object) -> set[str]:
    """Method and path of every route; the page's files are documented elsewhere."""
    assert isinstance(app, Flask)
    return {
        f"{method} {rule.rule}"
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) & {"GET", "POST"}
        if "<" not in rule.rule
    }


def test_the_reference_has_every_path_and_no_other() -> None:
    text = "".join((*map(page, PAGES), PAGE_EVENTS.read_text()))
    assert set(re.findall(r"`((?:GET|POST) /[a-z/]*)", text)) == served_paths()
