"""The folders of a job on this machine: present, writable, not another run's. Addresses are left to Spark.

Nothing but the checkpoint's folder is made here.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from braided.jobs.definitions import End
from braided.jobs.formats import format_of
from braided.jobs.loading import Job
from braided.jobs.paths import local
from braided.query.errors import InvalidValue, did_you_mean
from braided.view.records import Journal, os_errors

_OPERATOR = "transformWithState"


def check_places(job: Job) -> None:
    """Raise unless sources are there, the checkpoint can be written, and sinks belong to it."""
    for name, folder in _folders(job.sources).items():
        _check_source(job, name, folder)
    sinks = _folders({"sink": job.sink, "sink.late": job.late})
    for at, folder in sinks.items():
        _check_room(job, folder, at)
    checkpoint = local(job.checkpoint)
    if checkpoint is not None:
        _check_writable(job, checkpoint)
        _check_own(job, checkpoint)
        if not any((checkpoint / "offsets").glob("[0-9]*")):
            for at, folder in sinks.items():
                _check_unused(job, folder, at)


def _folders(ends: Mapping[str, End | None]) -> dict[str, Path]:
    """The folders of sources or sinks that are files on this machine."""
    paths = {name: end.path for name, end in ends.items() if end and format_of(end.format).files}
    return {name: folder for name, path in paths.items() if (folder := local(path)) is not None}


def _check_source(job: Job, name: str, folder: Path) -> None:
    if folder.is_file():
        why = f"{str(folder)!r} is a file; name the folder that holds it"
    elif folder.exists() or any(sign in str(folder) for sign in "*?[{"):
        return
    else:
        beside = [p.name for p in folder.parent.iterdir()] if folder.parent.is_dir() else []
        hint = f"; {did_you_mean(folder.name, beside)}" if beside else ""
        why = f"there is no folder {str(folder)!r}{hint}"
    raise job.complain(f"sources.{name}: {why}", "sources", name, "path")


def check_journal(path: Path) -> None:
    """Raise unless lines can be added to a journal, and what is there is one."""
    with os_errors(lambda why: InvalidValue(f"--journal {str(path)!r} cannot be written: {why}")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    if not path.is_file():  # a device has no end
        raise InvalidValue(f"--journal {str(path)!r} is no file; name one, or leave it out")
    Journal(path).about()


def _check_writable(job: Job, folder: Path) -> None:
    with os_errors(lambda why: _cannot(job, folder, why, "checkpoint")):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def _check_own(job: Job, checkpoint: Path) -> None:
    """Raise if the checkpoint is one of another kind of query: Spark would say so in words of its own.

    A join of Braided has its state in Spark's operator for state in Python, from its first batch on.
    """
    files = [p for p in checkpoint.glob("state/*/_metadata/**/[!.]*") if p.is_file()]
    begun = files or any((checkpoint / "commits").glob("[0-9]*"))
    if begun and not any(_OPERATOR in file.read_text(errors="replace") for file in files):
        raise job.complain(
            f"checkpoint: {str(checkpoint)!r} is the checkpoint of another query of Spark, not of a join of "
            "Braided; name another folder",
            "checkpoint",
        )


def _check_room(job: Job, folder: Path, at: str) -> None:
    """Raise if Spark will not be able to make this folder, or files in it."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        why = f"no permission for {there}" if there.is_dir() else f"{there} is a file"
        raise _cannot(job, folder, why, at)


def _cannot(job: Job, folder: Path, why: str, at: str) -> InvalidValue:
    message = f"{at}: {str(folder)!r} cannot be written ({why}); allow it, or name another folder"
    return job.complain(message, *at.split("."), "path")


def _check_unused(job: Job, folder: Path, at: str) -> None:
    """A new checkpoint counts from 0: beside files of another run batches would be lost or replace some."""
    if any(folder.glob("_spark_metadata/*" if job.late is None else "batch=*")):
        raise job.complain(
            f"{at}: {str(folder)!r} holds what another run wrote, and the checkpoint is new: batches would "
            "be left out or replaced; remove the folder, name another, or go back to the checkpoint it was "
            "written with",
            *at.split("."), "path",
        )  # fmt: skip
