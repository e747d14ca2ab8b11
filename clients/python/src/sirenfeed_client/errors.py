"""What can go wrong, by what the caller can do about it."""
from __future__ import annotations


class SirenfeedError(Exception):
    """A call that did not succeed. `status` is the answer's HTTP status, None without an answer."""

    def __init__(self, message: str, status: int | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.field = field


class BadRequest(SirenfeedError):
    """The call is wrong (400, 413); `field` names what, where the node says it."""


class NotFound(SirenfeedError):
    """There is no such user, item or model version (404)."""


class Overloaded(SirenfeedError):
    """The node is busy or its log is behind (429, 503), also after the retries."""


class Unavailable(SirenfeedError):
    """Nothing answers at the address, or not in time."""
