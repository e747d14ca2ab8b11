"""What a node answers. `raw` is the whole answer, with fields that are not named here."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FeedItem:
    item_id: str
    score: float | None
    probabilities: Mapping[str, float]
    source: str
    explored: bool
    propensity: float
    why: Sequence[str]
    raw: Mapping[str, Any]

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> FeedItem:
        return FeedItem(raw["item_id"], raw["score"], raw["probabilities"], raw["source"], raw["explored"],
                        raw["propensity"], raw.get("why", ()), raw)


@dataclass(frozen=True)
class Feed:
    request_id: str
    user: str
    time: int
    model_version: int
    items: Sequence[FeedItem]
    degraded: str | None
    raw: Mapping[str, Any]

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Feed:
        return Feed(raw["request_id"], raw["user"], raw["time"], raw["model_version"],
                    [FeedItem.from_json(item) for item in raw["items"]], raw.get("degraded"), raw)


@dataclass(frozen=True)
class Refused:
    """An event that was not taken; `index` counts in the list given to publish."""
    index: int
    reason: str
    detail: str


@dataclass(frozen=True)
class PublishResult:
    accepted: int
    refused: Sequence[Refused]


@dataclass(frozen=True)
class Receipt:
    """`applied`: from now on nothing shows it; otherwise it is durable in the log and soon applied."""
    status: str
    applied: bool
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class UserState:
    user: str
    segment: str | None
    history: Sequence[Mapping[str, Any]]
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class Model:
    version: int
    variant: str | None
    pinned: int | None
    raw: Mapping[str, Any]

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Model:
        return Model(raw["version"], raw.get("variant"), raw.get("pinned"), raw)


@dataclass(frozen=True)
class Metrics:
    time: int | None
    progressive: Mapping[str, Mapping[str, float | None]]
    raw: Mapping[str, Any]

    def sample(self, name: str) -> float:
        """The sum of a metric over its labels; 0 where the node does not have it."""
        return float(sum(s["value"] or 0 for s in self.raw["samples"] if s["name"] == name))


@dataclass(frozen=True)
class Readiness:
    ready: bool
    reasons: Sequence[str]
