"""Commands of other packages: each entry point of the group `braided.commands` is one.

An entry point names a function with typer's annotations. It is imported when its command runs, never for
`braided --help`: a plug-in that cannot be imported spoils its own command and no other.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from braided.query.errors import InvalidValue

GROUP = "braided.commands"
_BESIDE = {"lab": "lab", "bench": "benchmarks", "compare": "benchmarks"}  # folders of our repository


@cache
def plug_ins() -> dict[str, EntryPoint]:
    """Return the commands that installed packages add, by name."""
    return {point.name: point for point in sorted(entry_points(group=GROUP))}


class Commands(TyperGroup):
    """Our own commands, then those of plug-ins."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name all commands, as the help lists them."""
        return [*super().list_commands(ctx), *(name for name in plug_ins() if name not in self.commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; one of a plug-in only as its line in the help."""
        if cmd_name in self.commands or cmd_name not in plug_ins():
            return super().get_command(ctx, cmd_name)
        project = _project(plug_ins()[cmd_name])
        summary = project.metadata.json.get("summary", "A plug-in")
        return TyperCommand(cmd_name, help=f"{summary} ({project.name})")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is to run; a plug-in is imported now."""
        name = args[0]
        if name not in self.commands:
            if name in plug_ins():
                self.add_command(_load(plug_ins()[name]), name)
            elif name in _BESIDE:
                raise InvalidValue(
                    f"the command {name!r} is not installed: it belongs to the project "
                    f"'braided-{_BESIDE[name]}', in the folder {_BESIDE[name]!r} of Braided's repository; "
                    f"`make` installs it there"
                )
        return super().resolve_command(ctx, args)


def _load(point: EntryPoint) -> Any:
    try:
        function = point.load()
    except Exception as wrong:  # another package's import may raise anything
        reason = str(wrong) or type(wrong).__name__
        raise InvalidValue(
            f"the command {point.name!r} of {_project(point).name} cannot be imported: {reason}"
        ) from wrong
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(point.name)(function)
    return typer.main.get_command(app)


def _project(point: EntryPoint) -> Distribution:
    assert point.dist is not None  # it comes from one
    return point.dist
