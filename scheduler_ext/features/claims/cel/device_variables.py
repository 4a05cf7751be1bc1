"""The variables of an expression, from the facts about a device."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.core.dra.semantic_version import SemanticVersion
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.features.claims.cel.expression_cost import MAX_ENTRIES
from scheduler_ext.features.claims.cel.expression_reads import (
    ATTRIBUTES,
    CAPACITY,
    DRIVER,
    MULTIPLE,
    OF_DRIVER,
    Path,
    Reads,
)
from scheduler_ext.features.claims.cel.selector_functions import UnsureError, encode_quantity, encode_version
from scheduler_ext.wire.dra.plain_selector import UnreadableError, readable_text, readable_value

_NOTHING: Final = object()


class Variables(NamedTuple):
    """The values for an evaluation. `lacks_domain`: the device lacks a domain that the expression reads,
    and the values have no empty map for it, because the expression also asks which domains there are."""

    values: dict[str, object]
    lacks_domain: bool


def reading_key(reads: Reads) -> Callable[[DeviceFacts], object]:
    """Return a function from a device to a key: devices with equal keys have equal answers."""
    if reads.everything:
        return _digest
    attributes = sorted(path for path in reads.names if path[0] == ATTRIBUTES)
    capacities = sorted(path for path in reads.names if path[0] == CAPACITY)

    def key(device: DeviceFacts) -> object:
        found: list[object] = [device.driver, device.allow_multiple_allocations]
        for path in attributes:
            value = _find(device.attributes, path, device.driver)
            found.append(value if isinstance(value, str) else (type(value), value))
        found.extend(_find(device.capacity, path, device.driver) for path in capacities)
        return tuple(found)

    return key


def _digest(device: DeviceFacts) -> bytes:
    """Return a short key of all that a device has."""
    parts = (sorted(device.attributes.items()), sorted(device.capacity.items()))
    written = repr((device.driver, device.allow_multiple_allocations, parts))
    return hashlib.blake2b(written.encode(errors="surrogatepass"), digest_size=16).digest()


def _find(mapping: Mapping[str, object], path: Path, driver: str) -> object:
    domain = _domain(path, driver)
    found = mapping.get(f"{domain}/{path[2]}", _NOTHING)
    if found is _NOTHING and domain == driver:
        return mapping.get(path[2], _NOTHING)
    return found


def variables(device: DeviceFacts, reads: Reads) -> Variables:
    """Return the variables that an expression reads. Raises UnreadableError, whose text names the part."""
    values: dict[str, dict[str, dict[str, object]]] = {ATTRIBUTES: {}, CAPACITY: {}}
    for path, value in _selected(ATTRIBUTES, device.attributes, device.driver, reads):
        _check_type(path, value, reads)
        values[ATTRIBUTES].setdefault(_domain(path, device.driver), {})[path[2]] = _attribute(path, value)
    for path, value in _selected(CAPACITY, device.capacity, device.driver, reads):
        values[CAPACITY].setdefault(_domain(path, device.driver), {})[path[2]] = _capacity(
            path, value, reads.tracked
        )
    lacks_domain = False
    for path in reads.domains:
        variable, domain = path[0], _domain(path, device.driver)
        if variable in reads.whole:
            lacks_domain |= domain not in values[variable]
        else:
            values[variable].setdefault(domain, {})
    driver = readable_text("driver", device.driver)
    return Variables({DRIVER: driver, MULTIPLE: device.allow_multiple_allocations, **values}, lacks_domain)


def _selected(
    variable: str, mapping: Mapping[str, object], driver: str, reads: Reads
) -> Iterator[tuple[Path, object]]:
    if variable in reads.everything:
        if len(mapping) > MAX_ENTRIES:
            raise UnreadableError(f"{variable} has {len(mapping)} entries: the limit is {MAX_ENTRIES}")
        for name, value in mapping.items():
            domain, separator, identifier = name.partition("/")
            yield ((variable, domain, identifier) if separator else (variable, driver, name)), value
    for path in sorted(reads.names):
        value = _find(mapping, path, driver) if path[0] == variable else _NOTHING
        if value is not _NOTHING:
            yield path, value


def _domain(path: Path, driver: str) -> str:
    return driver if path[1] == OF_DRIVER else path[1]


def _check_type(path: Path, value: object, reads: Reads) -> None:
    """Raises UnreadableError for a value that the library uses in another way than Kubernetes."""
    name = f"attribute {path[1]}/{path[2]}"
    if isinstance(value, SemanticVersion):
        if reads.all_plain or path in reads.plain:
            raise UnreadableError(f"{name} is a version: compare it with semver(...)")
    elif path in reads.only_versions:
        raise UnreadableError(f"{name} is no version: do not compare it with semver(...)")
    elif isinstance(value, bool) and path in reads.no_bools:
        raise UnreadableError(f"{name} is true or false: do not convert it to a number")


def _attribute(path: Path, value: object) -> object:
    if isinstance(value, SemanticVersion):
        return encode_version(value)
    return readable_value(f"attribute {path[1]}/{path[2]}", value)


def _capacity(path: Path, value: object, tracked: bool) -> bytes:
    name = f"capacity {path[1]}/{path[2]}"
    if not isinstance(value, str):
        raise UnreadableError(f'{name} is no text: write a quantity, such as "40Gi"')
    try:
        return encode_quantity(value, tracked)
    except (QuantityError, UnsureError) as error:
        raise UnreadableError(f"{name}: {error}") from None
