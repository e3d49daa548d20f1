"""A forge on loopback: comments, notes, pull requests, and answers that go wrong on purpose."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOT = "github-actions[bot]"
TOKEN = "ghs_0123456789abcdef"

# What goes wrong with one request: a status, headers and a text; or nothing is answered at all,
# though what was asked for is done.
Answer = tuple[int, dict[str, str], str]
LOST: Answer = (0, {}, "")
# A refusal that breaks off: more is announced than comes.
BROKEN_OFF: Answer = (502, {"Transfer-Encoding": "chunked"}, "50\r\nabc")


class Stub:
    """The state of a forge, and what was asked of it."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        # Whose token it is; None if nobody may ask.
        self.login: str | None = BOT
        self.may_write = True
        # Each request as METHOD and path with its query, in order.
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()
        self.hosts: set[str | None] = set()
        # Answers that come first, by METHOD.
        self.faults: dict[str, list[Answer]] = {}
        self.url = ""

    def add(self, body: str, login: str = BOT) -> dict[str, Any]:
        number = len(self.comments) + 1
        made = {
            "id": number,
            "user": {"login": login},
            "author": {"username": login},
            "system": False,
            "body": body,
            "html_url": f"https://forge.example/c/{number}",
        }
        self.comments.append(made)
        return made

    def bodies(self) -> list[str]:
        return [each["body"] for each in self.comments]


def _page(entries: list[Any], query: dict[str, list[str]]) -> list[Any]:
    page, size = int(query["page"][0]), int(query["per_page"][0])
    return entries[(page - 1) * size : page * size]


Routes = list[tuple[str, str, Callable[..., Any]]]


def _routes(stub: Stub) -> Routes:
    """METHOD, pattern of a path, and what is answered, from the match, the query and the body."""

    def written(act: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*given: Any) -> Any:
            return act(*given) if stub.may_write else (403, "Resource not accessible")

        return checked

    def changed(match: Any, query: Any, body: Any) -> Any:
        found = next(each for each in stub.comments if each["id"] == int(match[1]))
        found["body"] = body["body"]
        return found

    def made(match: Any, query: Any, body: Any) -> Any:
        return (201, stub.add(body["body"], stub.login or BOT))

    def viewer(*given: Any) -> Any:
        if stub.login is None:
            return (403, "Resource not accessible by integration")
        return {"data": {"viewer": {"login": stub.login}}}

    def pulls(match: Any, query: Any, body: Any) -> Any:
        wanted = query["head"][0]
        return _page([each for each in stub.pulls if each["label"] == wanted], query)

    github = r"(?:/api/v3)?/repos/o/r"
    notes = r"/api/v4/projects/[^/]+/merge_requests/7/notes"
    return [
        ("POST", r"(?:/api)?/graphql", viewer),
        ("GET", rf"{github}/issues/7/comments", lambda m, q, b: _page(stub.comments, q)),
        ("POST", rf"{github}/issues/7/comments", written(made)),
        ("PATCH", rf"{github}/issues/comments/(\d+)", written(changed)),
        ("GET", rf"{github}/pulls", pulls),
        ("GET", r"/api/v4/user", lambda m, q, b: {"username": stub.login}),
        ("GET", notes, lambda m, q, b: _page(stub.comments, q)),
        ("POST", notes, written(made)),
        ("PUT", rf"{notes}/(\d+)", written(changed)),
    ]


def _handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    routes = _routes(stub)

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            stub.asked.append(f"{self.command} {self.path}")
            stub.hosts.add(self.headers.get("host"))
            token = self.headers.get("authorization") or self.headers.get("private-token")
            stub.tokens.add(token)
            faults = stub.faults.get(self.command, [])
            fault = faults.pop(0) if faults else None
            if fault is not None and fault != LOST:
                self._tell(*fault)
                return
            status, answer = self._routed(body)
            if fault == LOST:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self._tell(status, {}, json.dumps(answer))

        def _routed(self, body: Any) -> tuple[int, Any]:
            parts = urlsplit(self.path)
            for method, pattern, act in routes:
                match = re.fullmatch(pattern, parts.path)
                if method == self.command and match:
                    answer = act(match, parse_qs(parts.query), body)
                    return answer if isinstance(answer, tuple) else (200, answer)
            return 404, "Not Found"

        def _tell(self, status: int, headers: dict[str, str], text: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Transfer-Encoding" not in headers:
                self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PATCH = do_PUT = _any  # noqa: N815

        def log_message(self, *ignored: Any) -> None:
            pass

    return Handler


@contextmanager
def a_forge() -> Iterator[Stub]:
    """A forge as long as a test lasts."""
    stub = Stub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(stub))
    stub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
