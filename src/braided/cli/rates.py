"""Rows a second as the command line takes them."""

from __future__ import annotations

from braided.query.errors import InvalidValue


def read_rates(text: str) -> dict[str, float]:
    """Return the rates of streams.

    >>> read_rates("orders=2000, payments=1.5")
    {'orders': 2000.0, 'payments': 1.5}
    """
    rates = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        try:
            rates[name.strip()] = float(number)
        except ValueError:
            wanted = "must be streams and rows a second, such as orders=2000,payments=1800"
            raise InvalidValue(f"--rates {wanted}; got {part.strip()!r}") from None
    return rates
