"""The CustomResourceDefinition of GPUNode beside the reader's types: the same fields, kinds and bounds.

tests/e2e tests it on an API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec.inspect
import pytest
import yaml

from scheduler_ext.wire import gpunode
from tests.kube_objects import Json
from tests.pages import ROOT

CRD = ROOT / "manifests" / "base" / "crd.yaml"
# In the CRD and not read: the first is for people, the second for later.
NOT_READ = {"status.summary", "status.devices[].links"}
# Read in any size, bounded in the CRD: by JSON's exact integers, and by Linux's numbers.
UNBOUNDED = {"status.sequence": {"maximum"}, "status.devices[].numaNode": {"minimum", "maximum"}}


def version() -> Json:
    (only,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    found: Json = only
    return found


def schema_parts(path: str, schema: Json) -> Iterator[tuple[str, Json]]:
    """Every schema of a tree by its path; the items of a list have [] behind the list's."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from schema_parts(f"{path}.{name}", part)
    if "items" in schema:
        yield from schema_parts(f"{path}[]", schema["items"])


PARTS = dict(schema_parts("status", version()["schema"]["openAPIV3Schema"]["properties"]["status"]))


def read_parts(path: str, kind: msgspec.inspect.Type) -> Iterator[tuple[str, Json]]:
    """The schema of a type of the reader, as far as a schema can express it."""
    options = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    (some,) = [option for option in options if not isinstance(option, msgspec.inspect.NoneType)]
    said: Json = {"nullable": len(options) > 1}
    if isinstance(some, msgspec.inspect.StructType):
        said |= {"type": "object", "required": {f.encode_name for f in some.fields if f.required}}
        for field in some.fields:
            yield from read_parts(f"{path}.{field.encode_name}", field.type)
    elif isinstance(some, msgspec.inspect.ListType):
        said |= {"type": "array"}
        yield from read_parts(f"{path}[]", some.item_type)
    elif isinstance(some, msgspec.inspect.LiteralType):
        # Kubernetes' validation takes no null where there is an enum.
        said |= {"type": "string", "enum": set(some.values), "nullable": False}
    elif isinstance(some, msgspec.inspect.IntType):
        said |= {"type": "integer", "minimum": some.ge, "maximum": some.le}
    elif isinstance(some, msgspec.inspect.StrType):
        # The end of a text is \Z to Python and $ to the API server.
        pattern = some.pattern.replace(r"\Z", "$") if some.pattern else None
        said |= {"type": "string", "pattern": pattern, "minLength": some.min_length}
    else:
        assert isinstance(some, msgspec.inspect.BoolType)
        said |= {"type": "boolean"}
    yield path, said


READ = dict(read_parts("status", msgspec.inspect.type_info(gpunode.GpuNodeStatus)))


def test_the_crd_has_the_fields_that_are_read() -> None:
    others = {path for path in PARTS if path not in READ}
    assert {path for path in others if not path.startswith(tuple(NOT_READ))} == set()
    assert others >= NOT_READ
    assert set(READ) - set(PARTS) == set()


@pytest.mark.parametrize("path", READ)
def test_the_crd_and_the_reader_agree_on_each_field(path: str) -> None:
    told = PARTS[path]
    for keyword, value in READ[path].items():
        if keyword in ("required", "enum"):
            assert set(told.get(keyword, ())) == value
        elif keyword == "nullable" and path == "status":
            assert told["nullable"]
        elif keyword == "nullable":
            assert told.get("nullable", False) == value
        elif value is not None and keyword not in UNBOUNDED.get(path, ()):
            assert told[keyword] == value, keyword


def bounds(schema: Json) -> Any:
    """The bounds of a value of this kind."""
    return {
        "object": schema.get("properties"),
        "array": schema.get("maxItems") and schema.get("x-kubernetes-list-type"),
        "string": schema.get("maxLength") or schema.get("enum"),
        "integer": "minimum" in schema and "maximum" in schema,
        "boolean": True,
    }[schema["type"]]


@pytest.mark.parametrize("path", PARTS)
def test_everything_in_the_crd_is_bounded_and_described(path: str) -> None:
    schema = PARTS[path]
    assert bounds(schema)
    # Numbers and words are described with the list they stand in.
    assert schema.get("description", "").endswith(".") or path.endswith((".starts[]", ".throttleReasons[]"))


def test_every_rule_of_the_crd_has_a_message() -> None:
    rules = [rule for schema in PARTS.values() for rule in schema.get("x-kubernetes-validations", ())]
    assert rules
    assert [rule["rule"] for rule in rules if not rule.get("message")] == []
