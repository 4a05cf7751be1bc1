"""The rules of CONTRIBUTING for prose and folders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from tests.pages import FENCE, PAGES, ROOT

PRODUCT = ROOT / "scheduler_ext"
PYTHON = sorted(
    path for folder in (PRODUCT, ROOT / "tests", ROOT / "benchmarks") for path in folder.rglob("*.py")
)

# At most so many uses in 1,000 words. Each habit hides who does what, which a reader has to work out.
MOST_PER_1000_WORDS = {
    r"nobody|somebody|anybody": 0.3,
    r"tells?|told": 0.5,
    r"what (?:is|was|are)": 1.2,
    r"of (?:which|whom)": 0.25,
    r"anew": 0.1,
    r"whoever|whom": 0.15,
}


def prose_of_code() -> str:
    """Comments and docstrings, by their marks alone: a parser of all files takes ten times as long."""
    found = (re.findall(r'(?ms)"""(.*?)"""|(?:^|\s)# ([^\n]*)', path.read_text()) for path in PYTHON)
    return "\n".join(text for each in found for text in map("".join, each))


def prose_of_pages() -> str:
    return "\n".join(FENCE.sub("", path.read_text()) for path in PAGES)


def rate(words: str, text: str) -> float:
    return 1000 * len(re.findall(rf"\b(?:{words})\b", text, re.IGNORECASE)) / len(text.split())


@pytest.mark.parametrize("prose", [prose_of_code, prose_of_pages])
def test_prose_uses_few_words_that_hide_the_subject(prose: Callable[[], str]) -> None:
    text = prose()
    rates = {words: rate(words, text) for words in MOST_PER_1000_WORDS}
    assert {words: value for words, value in rates.items() if value > MOST_PER_1000_WORDS[words]} == {}


def test_a_rate_counts_whole_words_of_both_cases() -> None:
    assert rate("tells?|told", "Told once, and untold: it tells " + "word " * 994) == 2.0


def test_no_folder_has_more_than_34_python_files() -> None:
    sizes = Counter(path.parent for path in PYTHON)
    assert {str(folder): size for folder, size in sizes.items() if size > 34} == {}


def test_no_file_of_the_product_has_400_lines_or_more() -> None:
    sizes = {str(path): len(path.read_text().splitlines()) for path in PRODUCT.rglob("*.py")}
    assert {path: size for path, size in sizes.items() if size >= 400} == {}


def test_at_most_14_file_names_of_the_product_occur_twice() -> None:
    names = Counter(path.name for path in PRODUCT.rglob("*.py") if path.name != "__init__.py")
    assert len([name for name, count in names.items() if count > 1]) <= 14
