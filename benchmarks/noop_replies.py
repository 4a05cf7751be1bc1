"""Replies of an extender that decides nothing, with as little decoding as possible.

kube-scheduler writes ExtenderArgs with the names last and without white space, and node names are DNS names,
so the list ends at the first bracket and splits at commas. Quotes inside the pod are escaped, so the key
cannot be found there.
"""

from __future__ import annotations

_KEY = b'"NodeNames":['


class NamesError(ValueError):
    """The request carries no list of names."""


def filter_reply(body: bytes, max_names: int) -> bytes:
    """An ExtenderFilterResult with the first `max_names` (0: all) names of an ExtenderArgs.

    Raises NamesError.
    """
    names = _list_of_names(body)
    if max_names:
        names = b",".join(names.split(b",", max_names)[:max_names])
    return b'{"NodeNames":[%b]}' % names


def prioritize_reply(body: bytes) -> bytes:
    """A HostPriorityList with 0 points for every name of an ExtenderArgs. Raises NamesError."""
    names = _list_of_names(body)
    entries = (b'{"Host":%b,"Score":0}' % name for name in names.split(b",")) if names else ()
    return b"[%b]" % b",".join(entries)


def _list_of_names(body: bytes) -> bytes:
    """The names with their quotes and commas."""
    found = body.find(_KEY)
    if found < 0:
        raise NamesError("the request has no NodeNames: set nodeCacheCapable: true")
    start = found + len(_KEY)
    return body[start : body.index(b"]", start)]
