"""The events of the topics items, users, impressions and clicks. Times are Unix milliseconds; without one an
event happens when it is made."""
from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    return uuid.uuid4().hex


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True)
class Item:
    """An item of the catalog; a later one of the same id replaces it."""
    item_id: str
    tags: Sequence[str] = ()
    author_id: str | None = None
    title: str | None = None
    url: str | None = None
    image_url: str | None = None
    language: str | None = None
    numeric: Mapping[str, float] = field(default_factory=dict)
    published_at: int | None = None
    expires_at: int | None = None
    hidden: bool = False
    timestamp: int = field(default_factory=_now_ms)

    def to_json(self) -> dict[str, Any]:
        published = self.timestamp if self.published_at is None else self.published_at
        return _without_none({
            "topic": "items", "item_id": self.item_id, "timestamp": self.timestamp, "tags": list(self.tags),
            "author_id": self.author_id, "title": self.title, "url": self.url, "image_url": self.image_url,
            "language": self.language, "numeric": dict(self.numeric) or None, "published_at": published,
            "expires_at": self.expires_at, "hidden": self.hidden or None})


@dataclass(frozen=True)
class Takedown:
    """Takes an item down; only a later Item brings it back."""
    item_id: str
    timestamp: int = field(default_factory=_now_ms)

    def to_json(self) -> dict[str, Any]:
        return {"topic": "items", "item_id": self.item_id, "timestamp": self.timestamp, "deleted": True}


@dataclass(frozen=True)
class User:
    """A user's profile."""
    user_id: str
    segment: str | None = None
    blocked_authors: Sequence[str] = ()
    blocked_tags: Sequence[str] = ()
    timestamp: int = field(default_factory=_now_ms)

    def to_json(self) -> dict[str, Any]:
        return _without_none({
            "topic": "users", "user_id": self.user_id, "timestamp": self.timestamp, "segment": self.segment,
            "blocked_authors": list(self.blocked_authors), "blocked_tags": list(self.blocked_tags)})


@dataclass(frozen=True)
class Shown:
    """An item of an impression, with what the feed said about it."""
    item_id: str
    position: int | None = None
    score: float | None = None
    propensity: float | None = None

    def to_json(self) -> dict[str, Any]:
        return _without_none({"item_id": self.item_id, "position": self.position, "score": self.score,
                              "propensity": self.propensity})


@dataclass(frozen=True)
class Impression:
    """Items that a user was shown together."""
    user_id: str
    items: Sequence[Shown | str]
    surface: str | None = None
    request_id: str | None = None
    impression_id: str = field(default_factory=_new_id)
    timestamp: int = field(default_factory=_now_ms)

    def to_json(self) -> dict[str, Any]:
        items = [item if isinstance(item, str) else item.to_json() for item in self.items]
        return _without_none({
            "topic": "impressions", "impression_id": self.impression_id, "user_id": self.user_id,
            "timestamp": self.timestamp, "items": items, "surface": self.surface, "request_id": self.request_id})


@dataclass(frozen=True)
class Click:
    """An action of a user on an item: a click, or another `type`."""
    user_id: str
    item_id: str
    type: str = "click"
    value: float | None = None
    impression_id: str | None = None
    event_id: str = field(default_factory=_new_id)
    timestamp: int = field(default_factory=_now_ms)

    def to_json(self) -> dict[str, Any]:
        return _without_none({
            "topic": "clicks", "event_id": self.event_id, "user_id": self.user_id, "item_id": self.item_id,
            "timestamp": self.timestamp, "type": self.type, "value": self.value,
            "impression_id": self.impression_id})


Event = Union[Item, Takedown, User, Impression, Click]
