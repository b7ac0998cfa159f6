"""What a user installs: the product and nothing else, and not much of it."""

from __future__ import annotations

import io
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = {"cli", "engine", "jobs", "local", "policies", "query", "spark", "testing", "view"}
DATA = {
    "py.typed", "jobs/example.job.yaml", "jobs/job.schema.json", "view/assets/page.html",
    "view/assets/page.js", "view/assets/report.html", "view/assets/style.css",
}  # fmt: skip


def files() -> dict[str, Path]:
    """The files of the package, as a wheel holds them."""
    package = ROOT / "src" / "braided"
    found = {path.relative_to(package).as_posix(): path for path in package.rglob("*") if path.is_file()}
    return {name: path for name, path in found.items() if "__pycache__" not in name}


def test_the_wheel_is_this_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/braided"]}
    assert set(project["project"]["optional-dependencies"]) == {"sql", "spark", "cli", "all", "docs", "dev"}
    assert project["project"]["optional-dependencies"]["all"] == ["braided[sql,spark,cli]"]


def test_it_holds_the_product_alone() -> None:
    assert {name.split("/")[0] for name in files() if "/" in name} == PRODUCT
    assert {name for name in files() if not name.endswith(".py")} == DATA


def test_it_is_small() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, path in files().items():
            wheel.write(path, f"braided/{name}")
    assert len(packed.getvalue()) < 590_000  # with its metadata below 620 kB
