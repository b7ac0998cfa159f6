"""Jobs: a whole streaming join in one file (`job.yaml`), checked before anything starts.

>>> from braided.jobs import load
>>> job = load("job.yaml")                # doctest: +SKIP
>>> print(job.explain())                  # doctest: +SKIP
"""

from braided.jobs.loading import Job, load
from braided.jobs.problems import JobError, Problem

__all__ = ["Job", "JobError", "Problem", "load"]
