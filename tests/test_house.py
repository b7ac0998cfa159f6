"""The house stays in order: small classes and files, a product that knows neither lab nor benchmarks."""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from pathlib import Path

PRODUCT = Path(__file__).parents[1] / "src" / "braided"
MOST_METHODS = 25
MOST_LINES = 400
MOST_CODE = 22_150  # lines of code of the product; lower it whenever you can

# larger for now, with the reason; what no longer needs an exception must leave the list
LONG_FILES: dict[str, str] = {}
LARGE_CLASSES: dict[str, str] = {
    "engine/features.py:Feature": "a hook for each thing that a batch goes through",
    "query/join_query.py:JoinQuery": "what follows from a query is asked of it",
}


@functools.cache
def files() -> dict[str, str]:
    """The product's modules, by their path in the package."""
    return {str(p.relative_to(PRODUCT)): p.read_text() for p in sorted(PRODUCT.rglob("*.py"))}


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in files().items()}


def lines_of_code(text: str) -> int:
    """Lines that are neither blank nor comment nor docstring."""
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*skipped, tokenize.ENDMARKER, tokenize.ENCODING):
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            first = node.body[0]
            code -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(code)


def methods() -> dict[str, int]:
    """How many methods each class has; properties and private ones count."""
    return {
        f"{name}:{node.name}": sum(isinstance(part, ast.FunctionDef) for part in node.body)
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def test_no_class_has_too_many_methods() -> None:
    assert {name for name, n in methods().items() if n > MOST_METHODS} == set(LARGE_CLASSES)


def test_no_file_is_too_long() -> None:
    assert {n for n, text in files().items() if len(text.splitlines()) > MOST_LINES} == set(LONG_FILES)


def test_the_product_does_not_grow_unnoticed() -> None:
    code = sum(map(lines_of_code, files().values()))
    assert code <= MOST_CODE, f"{code} lines of code"


def test_the_product_imports_neither_lab_nor_benchmarks() -> None:
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [node.module or ""]
            else:
                continue
            tops = {module.partition(".")[0] for module in imported}
            assert not tops & {"braided_lab", "braided_benchmarks", "lab", "benchmarks", "tests"}, name
