"""The client against a running node, whose address is in SIRENFEED_URL."""
import os
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer

from sirenfeed_client import (BadRequest, Click, Client, Impression, Item, NotFound, Overloaded, Shown, Takedown,
                              Unavailable, User)

URL = os.environ["SIRENFEED_URL"]
ITEMS = [f"client item {n}, with a comma / and a slash" for n in range(8)]


def wait_for(look, what, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


class LiveNodeTest(unittest.TestCase):
    def setUp(self):
        self.client = Client(URL)
        self.addCleanup(self.client.close)
        done = self.client.publish([Item(item, tags=["client"], title=item) for item in ITEMS])
        self.assertEqual((done.accepted, list(done.refused)), (len(ITEMS), []))
        wait_for(lambda: self.known(ITEMS[-1]), "the items are known")

    def known(self, item):
        try:
            return self.client.item(item)["known"]
        except NotFound:
            return False

    def test_what_was_shown_and_clicked_is_in_the_user_s_history_and_not_in_the_next_feed(self):
        feed = self.client.feed("client-user", count=3, explain=True)
        self.assertEqual(len(feed.items), 3)
        self.assertTrue(all(item.why for item in feed.items))
        first = feed.items[0]
        self.client.publish([
            User("client-user", segment="de-mobile"),
            Impression("client-user", [Shown(item.item_id, score=item.score) for item in feed.items],
                       request_id=feed.request_id),
            Click("client-user", first.item_id)])

        def clicked():
            try:
                state = self.client.user("client-user")
            except NotFound:
                return None
            return [entry for entry in state.history if entry["item_id"] == first.item_id and entry["actions"]]
        wait_for(clicked, "the click is in the history")
        self.assertEqual(self.client.user("client-user").segment, "de-mobile")
        shown = {item.item_id for item in feed.items}
        again = self.client.feed("client-user", count=50)
        self.assertFalse(shown & {item.item_id for item in again.items})

    def test_exclusions_and_a_takedown_are_kept_also_for_ids_with_commas(self):
        feed = self.client.feed("somebody-else", count=50, exclude=ITEMS[:2])
        self.assertFalse(set(ITEMS[:2]) & {item.item_id for item in feed.items})
        self.client.publish([Takedown(ITEMS[3])])
        wait_for(lambda: ITEMS[3] not in {item.item_id for item in self.client.feed("somebody-else", count=50).items},
                 "the item is gone")
        receipt = self.client.take_down(ITEMS[4])
        self.assertTrue(receipt.applied)
        self.assertNotIn(ITEMS[4], {item.item_id for item in self.client.feed("third", count=50).items})

    def test_rank_orders_the_caller_s_items(self):
        ranked = self.client.rank("client-user-2", ITEMS[:3])
        self.assertEqual({item.item_id for item in ranked.items}, set(ITEMS[:3]))

    def test_an_erased_user_is_a_stranger(self):
        self.client.publish([Impression("to-erase", [ITEMS[0]]), Click("to-erase", ITEMS[0])])

        def there():
            try:
                return self.client.user("to-erase").history
            except NotFound:
                return None
        wait_for(there, "the user is there")
        self.assertTrue(self.client.erase_user("to-erase").applied)
        with self.assertRaises(NotFound):
            self.client.user("to-erase")

    def test_a_refused_event_is_named_and_the_others_are_taken(self):
        done = self.client.publish([Item("fine"), Click("", "a"), Click("u", "a", timestamp=1_650_812_742)])
        self.assertEqual(done.accepted, 1)
        self.assertEqual([r.index for r in done.refused], [1, 2])
        self.assertIn("seconds", done.refused[1].detail)

    def test_a_wrong_parameter_is_named(self):
        with self.assertRaises(BadRequest) as caught:
            self.client.feed("u", count=100_000)
        self.assertEqual(caught.exception.field, "count")

    def test_model_metrics_and_readiness_can_be_read(self):
        self.assertGreaterEqual(self.client.model().version, 0)
        self.assertGreater(self.client.metrics().sample("sirenfeed_serving_events_accepted_total"), 0)
        self.assertIsInstance(self.client.readiness().ready, bool)


class BusyNode(BaseHTTPRequestHandler):
    """Takes one event of each request and says 429 until it has all."""
    requests = 0

    def do_POST(self):
        BusyNode.requests += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        count = body.count(b'"topic"')
        answer = b'{"status":429,"title":"","type":"","detail":"behind","results":[{"index":0,"status":"accepted"}]}'
        self.send_response(200 if count == 1 else 429)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


class BusyNodeTest(unittest.TestCase):
    def setUp(self):
        BusyNode.requests = 0
        self.server = HTTPServer(("127.0.0.1", 0), BusyNode)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def test_publish_goes_on_where_the_node_stopped(self):
        with Client(self.url) as client:
            self.assertEqual(client.publish([Click("u", str(n)) for n in range(4)]).accepted, 4)
        self.assertEqual(BusyNode.requests, 4)

    def test_publish_gives_up_after_its_retries_and_says_how_much_is_left(self):
        with Client(self.url, retries=1) as client, self.assertRaisesRegex(Overloaded, "2 events"):
            client.publish([Click("u", str(n)) for n in range(4)])

    def test_an_address_where_nothing_answers_is_named(self):
        with Client("http://127.0.0.1:1") as client, self.assertRaisesRegex(Unavailable, "127.0.0.1:1"):
            client.feed("u")


if __name__ == "__main__":
    unittest.main()
