"""An MCP server on loopback with one tool, `search`; it remembers what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL = {
    "name": "search",
    "description": "Search the notes.",
    "inputSchema": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
    # Some agents ask before they call any other tool.
    "annotations": {"readOnlyHint": True},
}


class Notes(ThreadingHTTPServer):
    """The server; `queries` are the calls of its tool."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.queries: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that was killed does not listen to the end."""

    def answer(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return {
                "protocolVersion": given["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }
        if method == "tools/list":
            return {"tools": [TOOL]}
        if method == "tools/call":
            self.queries.append(given["arguments"]["query"])
            return {"content": [{"type": "text", "text": "nothing found"}]}
        return {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Notes

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in body:
            self._send(202, b"")
            return
        result = self.server.answer(body["method"], body.get("params") or {})
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": result}
        self._send(200, json.dumps(answer).encode())

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(200, b"")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def notes() -> Iterator[Notes]:
    """A server for as long as a test needs it."""
    with Notes() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
