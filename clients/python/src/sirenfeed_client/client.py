"""The calls of a Sirenfeed node (docs/openapi.yaml)."""
from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from .errors import BadRequest, NotFound, Overloaded, SirenfeedError, Unavailable
from .events import Event
from .results import Feed, Metrics, Model, PublishResult, Readiness, Receipt, Refused, UserState

EVENTS_PER_REQUEST = 500
RETRY_AFTER_DEFAULT_S = 1.0


class Client:
    """One node. Threads may share a client; close() it, or use it in a `with`."""

    def __init__(self, url: str = "http://127.0.0.1:8080", *, timeout_s: float = 10.0, retries: int = 5,
                 headers: Mapping[str, str] | None = None) -> None:
        """`retries`: how often a busy node is asked again; `headers` go with every call."""
        self._http = httpx.Client(base_url=url, timeout=timeout_s, headers=dict(headers or {}))
        self._retries = retries

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Feeds

    def feed(self, user: str, *, count: int = 20, surface: str | None = None, exclude: Sequence[str] = (),
             explain: bool = False) -> Feed:
        """A ranked feed of items that the user has not seen."""
        query = [f"count={count}"]
        if surface is not None:
            query.append(f"surface={_encoded(surface)}")
        if exclude:  # a comma separates ids; a backslash makes it part of one
            ids = [item.replace("\\", "\\\\").replace(",", "\\,") for item in exclude]
            query.append(f"exclude={_encoded(','.join(ids))}")
        if explain:
            query.append("explain=true")
        return Feed.from_json(self._call("GET", f"/v1/feed/{_encoded(user)}?{'&'.join(query)}"))

    def rank(self, user: str, items: Sequence[str], *, surface: str | None = None, explain: bool = False) -> Feed:
        """The caller's own items, best first."""
        body: dict[str, Any] = {"user": user, "items": list(items), "explain": explain}
        if surface is not None:
            body["surface"] = surface
        return Feed.from_json(self._call("POST", "/v1/rank", body))

    # Events

    def publish(self, events: Iterable[Event]) -> PublishResult:
        """Returns when every event is durable in the log or was refused."""
        bodies = [event.to_json() for event in events]
        accepted = 0
        refused: list[Refused] = []
        for begin in range(0, len(bodies), EVENTS_PER_REQUEST):
            part = self._publish_part(bodies[begin:begin + EVENTS_PER_REQUEST], begin)
            accepted += part.accepted
            refused += part.refused
        return PublishResult(accepted, refused)

    # Users, items, models

    def user(self, user: str) -> UserState:
        raw = self._call("GET", f"/v1/users/{_encoded(user)}")
        return UserState(raw["user"], raw.get("segment"), raw["history"], raw)

    def erase_user(self, user: str) -> Receipt:
        return self._receipt("DELETE", f"/v1/users/{_encoded(user)}")

    def item(self, item: str) -> Mapping[str, Any]:
        return self._call("GET", f"/v1/items/{_encoded(item)}")

    def take_down(self, item: str) -> Receipt:
        return self._receipt("DELETE", f"/v1/items/{_encoded(item)}")

    def model(self) -> Model:
        return Model.from_json(self._call("GET", "/v1/model"))

    def models(self) -> Sequence[Mapping[str, Any]]:
        versions: Sequence[Mapping[str, Any]] = self._call("GET", "/v1/models")["versions"]
        return versions

    def pin_model(self, version: int) -> Model:
        return Model.from_json(self._call("POST", f"/v1/models/{version}/pin"))

    def roll_back_model(self) -> Model:
        return Model.from_json(self._call("POST", "/v1/models/rollback"))

    def unpin_model(self) -> Model:
        return Model.from_json(self._call("POST", "/v1/models/unpin"))

    # The node

    def metrics(self) -> Metrics:
        raw = self._call("GET", "/v1/metrics")
        trained = raw.get("model", {}).get("metrics", {})
        return Metrics(raw.get("time"), trained.get("progressive_at_close", {}), raw)

    def readiness(self) -> Readiness:
        response = self._send("GET", "/readyz")
        if response.status_code not in (200, 503):
            raise _error_of(response)
        return Readiness(response.status_code == 200, response.json().get("reasons", []))

    # Below the calls

    def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        try:
            return self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise Unavailable(f"{method} {self._http.base_url}{path.lstrip('/')}: {error}") from error

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The answer's body; a busy node is asked again after the time that it names."""
        for attempt in range(self._retries + 1):
            response = self._send(method, path, body)
            if response.is_success:
                answer: dict[str, Any] = response.json()
                return answer
            if response.status_code not in (429, 503) or attempt == self._retries:
                break
            time.sleep(_retry_after_s(response))
        raise _error_of(response)

    def _receipt(self, method: str, path: str) -> Receipt:
        raw = self._call(method, path)
        return Receipt(raw["status"], raw["status"] != "accepted", raw)

    def _publish_part(self, bodies: Sequence[Mapping[str, Any]], begin: int) -> PublishResult:
        """Every event of one request: those that the node did not take or confirm are sent again, with the
        same ids, so that one which had arrived after all counts once."""
        accepted = 0
        refused: list[Refused] = []
        left = list(range(len(bodies)))
        for attempt in range(self._retries + 1):
            response = self._send("POST", "/v1/events", [bodies[index] for index in left])
            if response.status_code not in (200, 400, 429, 503):
                raise _error_of(response)
            answer = response.json()
            if "results" not in answer:
                if response.status_code in (200, 400):
                    raise _error_of(response)
                answer["results"] = []
            settled = set()
            for result in answer["results"]:
                place = left[result["index"]]
                if result["status"] == "accepted":
                    accepted += 1
                elif result["status"] == "refused":
                    refused.append(Refused(begin + place, result.get("reason", ""), result.get("detail", "")))
                else:
                    continue
                settled.add(place)
            left = [place for place in left if place not in settled]
            if not left:
                return PublishResult(accepted, refused)
            if attempt < self._retries:
                time.sleep(_retry_after_s(response))
        raise Overloaded(f"POST /v1/events: {len(left)} events were not taken in {self._retries + 1} attempts",
                         response.status_code)


def _encoded(text: str) -> str:
    return quote(text, safe="")


def _retry_after_s(response: httpx.Response) -> float:
    try:
        return float(response.headers.get("Retry-After", RETRY_AFTER_DEFAULT_S))
    except ValueError:
        return RETRY_AFTER_DEFAULT_S


def _error_of(response: httpx.Response) -> SirenfeedError:
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    request = f"{response.request.method} {response.request.url.path}"
    message = f"{request}: {response.status_code} {problem.get('detail', response.reason_phrase)}"
    kinds = {400: BadRequest, 413: BadRequest, 404: NotFound, 429: Overloaded, 503: Overloaded}
    kind = kinds.get(response.status_code, SirenfeedError)
    return kind(message, response.status_code, problem.get("field"))
