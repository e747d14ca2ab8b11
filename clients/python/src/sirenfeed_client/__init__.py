"""Publish events to Sirenfeed and read its feeds."""
from .client import Client
from .errors import BadRequest, NotFound, Overloaded, SirenfeedError, Unavailable
from .events import Click, Event, Impression, Item, Shown, Takedown, User
from .results import Feed, FeedItem, Metrics, Model, PublishResult, Readiness, Receipt, Refused, UserState

__all__ = [
    "BadRequest", "Click", "Client", "Event", "Feed", "FeedItem", "Impression", "Item", "Metrics", "Model", "NotFound",
    "Overloaded", "PublishResult", "Readiness", "Receipt", "Refused", "Shown", "SirenfeedError", "Takedown",
    "Unavailable", "User", "UserState",
]
