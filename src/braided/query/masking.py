"""Credentials are never shown: `masked` takes them out of whatever a person or a file gets to see.

It knows a secret by its place (`s3a://key:secret@bucket`, `?sig=...`) or by its name
(`fs.s3a.secret.key`, `password=...`). What merely looks like one is masked, too: a message that says less is
the smaller harm.

>>> masked("s3a://key:secret@bucket/orders")
's3a://***@bucket/orders'
>>> masked({"kafka.sasl.jaas.config": "PlainLoginModule ...", "subscribe": "orders"})
{'kafka.sasl.jaas.config': '***', 'subscribe': 'orders'}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_NAME = re.compile(
    r"(?i)password|passphrase|secret|accesskey|accountkey|apikey|"
    r"(?<![a-z])(?:pass|passwd|pwd|token|credentials?|jaas[._-]?config|signature|sig|"
    r"(?:access|account|api|private|shared|auth|encryption)[._-]key)(?![a-z])|[a-z]Token(?![a-z])"
)
_USER = re.compile(r"""(?<=://)[^\s'"@/:]*:[^\s'"]+@""")  # s3a://key:secret@bucket
_ORACLE = re.compile(r"""(?<=jdbc:oracle:)\w+:[^\s'"@]+@""")  # jdbc:oracle:thin:user/secret@host
# password=x, password = "x", 'token': 'x'
_GIVEN = re.compile(r"""(?<![\w.-])([\w.-]+)(=|['"]:\s|\s=\s(?=['"]))("[^"]*"|'[^']*'|[^\s&;,'")\]]+)""")


def masked(value: Any) -> Any:
    """Return `value` without credentials: a text, or mappings and lists of them; leave others alone."""
    if isinstance(value, str):
        without_users = _ORACLE.sub(f"{MASK}@", _USER.sub(f"{MASK}@", value))
        return _GIVEN.sub(lambda m: m[1] + m[2] + MASK if _is_secret(m[1]) else m[0], without_users)
    if isinstance(value, Mapping):
        return {k: MASK if _is_secret(k) and v is not None else masked(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(masked, value))
    return value


def _is_secret(name: object) -> bool:
    return isinstance(name, str) and _NAME.search(name) is not None
