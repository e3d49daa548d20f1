"""A model on loopback that answers from a script, in the four ways in which the agents ask.

The prompt picks the script: `scenario=ok` anywhere in it. Which turn comes next is read off the
conversation, so that the server knows nothing about the runs, and many may ask at once. Every
request is kept.

    python -m tests.support.scripted_model [SECONDS]     prints its address and ends by itself
"""

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support.scenarios import ASIDE, DONE, SCENARIOS, Refusal, Turn, call_of

# USD per million tokens; writing to a cache is free, because gemini-cli does not count it.
PRICES = {"input": 1.0, "output": 10.0, "cache_read": 0.1, "cache_write": 0.0}

# Nobody waits longer for an answer, whatever becomes of the test.
LONGEST_WAIT_SECONDS = 120.0


class Request(NamedTuple):
    """What an agent sent."""

    path: str
    headers: dict[str, str]
    body: str


class Model(ThreadingHTTPServer):
    """The server; `requests` is everything it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Request] = []
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that was killed does not listen to the end."""


@contextmanager
def scripted_model() -> Iterator[Model]:
    """A server for as long as a test needs it."""
    with Model() as model:
        thread = threading.Thread(target=model.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield model
        finally:
            model.stopping.set()
            model.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._whole(200, {})

    def do_GET(self) -> None:
        self._whole(200, {"object": "list", "data": []})

    def do_POST(self) -> None:
        text = self._text()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(Request(path=self.path, headers=headers, body=text))
        body = json.loads(text or "{}")
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            self._chat(text, body)
        elif path.endswith("/responses"):
            self._responses(text, body)
        elif path.endswith("/messages"):
            self._messages(text, body)
        elif path.endswith(("/count_tokens", ":countTokens")):
            self._whole(200, {"input_tokens": 1000, "totalTokens": 1000})
        elif path.endswith("enerateContent"):
            self._gemini(path, text, body)
        else:
            self._whole(404, {"error": {"message": f"no such path: {path}"}})

    def _text(self) -> str:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts).decode()

    def _turn(self, text: str, taken: int, tools: bool) -> Turn | Refusal:
        """The answer to a conversation in which some turns were taken."""
        named = re.search(r"scenario=(\w+)", text)
        script = SCENARIOS[named[1]] if named else (DONE,)
        if isinstance(script, Refusal):
            return script
        if not tools:
            return ASIDE
        turn = script[min(taken, len(script) - 1)]
        if turn.held:
            self.server.stopping.wait(LONGEST_WAIT_SECONDS)
        return turn

    def _whole(self, status: int, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, events: list[Any], *, named: bool = False) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            head = f"event: {event['type']}\n" if named else ""
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{head}data: {data}\n\n".encode())

    def _chat(self, text: str, body: Any) -> None:
        """OpenAI chat completions: opencode."""
        taken = sum(message["role"] == "tool" for message in body["messages"])
        turn = self._turn(text, taken, bool(body.get("tools")))
        if isinstance(turn, Refusal):
            code, message = turn.openai
            self._whole(turn.status, {"error": {"code": code, "type": code, "message": message}})
            return
        delta: dict[str, Any] = {"role": "assistant", "content": turn.text}
        functions = [tool["function"] for tool in body.get("tools") or ()]
        wanted = call_of(turn, {one["name"]: one["parameters"] for one in functions}, "bash")
        if wanted is not None:
            function = {"name": wanted.name, "arguments": json.dumps(wanted.asked)}
            call = {"index": 0, "id": f"call_{taken}", "type": "function", "function": function}
            delta["tool_calls"] = [call]
        finish = "tool_calls" if wanted is not None else "stop"
        usage = {
            "prompt_tokens": turn.fresh + turn.cached,
            "completion_tokens": turn.output,
            "total_tokens": turn.fresh + turn.cached + turn.output,
            "prompt_tokens_details": {"cached_tokens": turn.cached},
            "completion_tokens_details": {"reasoning_tokens": turn.thought},
        }
        base = {"id": f"chat_{taken}", "object": "chat.completion.chunk", "model": body["model"]}
        choices: list[tuple[dict[str, Any], str | None]] = [(delta, None), ({}, finish)]
        self._stream(
            [
                *(
                    {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
                    for delta, reason in choices
                ),
                {**base, "choices": [], "usage": usage},
                "[DONE]",
            ]
        )

    def _responses(self, text: str, body: Any) -> None:
        """OpenAI Responses: codex."""
        taken = sum(item.get("type") == "function_call_output" for item in body["input"])
        turn = self._turn(text, taken, bool(body.get("tools")))
        if isinstance(turn, Refusal):
            code, message = turn.openai
            self._whole(turn.status, {"error": {"code": code, "type": code, "message": message}})
            return
        items: list[dict[str, Any]] = []
        if turn.text:
            said = {"type": "output_text", "text": turn.text, "annotations": []}
            items.append({"type": "message", "id": "m", "role": "assistant", "content": [said]})
        offered = {
            tool["name"]: {**tool.get("parameters", {}), "space": space.get("name")}
            for space in body["tools"]
            for tool in space.get("tools", [space])
            if "name" in tool
        }
        shell = "exec_command" if "exec_command" in offered else "shell_command"
        wanted = call_of(turn, offered, shell)
        if wanted is not None:
            call = {"name": wanted.name, "arguments": json.dumps(wanted.asked)}
            space = offered[wanted.name]["space"]
            call |= {} if space == wanted.name else {"namespace": space}
            items.append({"type": "function_call", "id": "f", "call_id": f"call_{taken}", **call})
        usage = {
            "input_tokens": turn.fresh + turn.cached,
            "input_tokens_details": {"cached_tokens": turn.cached},
            "output_tokens": turn.output,
            "output_tokens_details": {"reasoning_tokens": turn.thought},
            "total_tokens": turn.fresh + turn.cached + turn.output,
        }
        made = {"id": f"resp_{taken}", "object": "response", "model": body["model"]}
        done = {**made, "status": "completed", "output": items, "usage": usage}
        self._stream(
            [
                {"type": "response.created", "response": {**made, "status": "in_progress"}},
                *(
                    {"type": "response.output_item.done", "output_index": index, "item": item}
                    for index, item in enumerate(items)
                ),
                {"type": "response.completed", "response": done},
            ],
            named=True,
        )

    def _messages(self, text: str, body: Any) -> None:
        """Anthropic messages: Claude Code."""
        blocks = [
            block
            for message in body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        taken = sum(block["type"] == "tool_result" for block in blocks)
        turn = self._turn(text, taken, bool(body.get("tools")))
        if isinstance(turn, Refusal):
            kind, message = turn.anthropic
            error = {"type": "error", "error": {"type": kind, "message": message}}
            self._whole(turn.status, error)
            return
        content: list[dict[str, Any]] = []
        if turn.text:
            content.append({"type": "text", "text": turn.text})
        offered = {tool["name"]: tool.get("input_schema", {}) for tool in body.get("tools") or ()}
        wanted = call_of(turn, offered, "Bash")
        if wanted is not None:
            call = {"type": "tool_use", "id": f"toolu_{taken}", **wanted.named("input")}
            content.append(call)
        stop = "tool_use" if wanted is not None else "end_turn"
        usage = {
            "input_tokens": turn.fresh,
            "cache_read_input_tokens": turn.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": turn.output,
        }
        made = {
            "id": f"msg_{id(self)}_{taken}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_sequence": None,
        }
        if body.get("stream"):
            self._stream(_as_events(made, content, stop, usage), named=True)
        else:
            self._whole(200, {**made, "content": content, "stop_reason": stop, "usage": usage})

    def _gemini(self, path: str, text: str, body: Any) -> None:
        """Gemini: gemini-cli."""
        taken = sum(
            any("functionResponse" in part for part in content["parts"])
            for content in body["contents"]
        )
        turn = self._turn(text, taken, bool(body.get("tools")))
        if isinstance(turn, Refusal):
            status, message = turn.google
            error = {"code": turn.status, "status": status, "message": message}
            self._whole(turn.status, {"error": error})
            return
        parts: list[dict[str, Any]] = [{"text": turn.text}] if turn.text else []
        offered = {
            one["name"]: one.get("parametersJsonSchema") or one.get("parameters") or {}
            for tool in body.get("tools") or ()
            for one in tool.get("functionDeclarations", ())
        }
        wanted = call_of(turn, offered, "run_shell_command")
        if wanted is not None:
            parts.append({"functionCall": wanted.named("args")})
        answer = {
            "candidates": [
                {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
            ],
            "usageMetadata": {
                "promptTokenCount": turn.fresh + turn.cached,
                "cachedContentTokenCount": turn.cached,
                "candidatesTokenCount": turn.output - turn.thought,
                "thoughtsTokenCount": turn.thought,
                "totalTokenCount": turn.fresh + turn.cached + turn.output,
            },
        }
        if "streamGenerateContent" in path:
            self._stream([answer])
        else:
            self._whole(200, answer)


def _as_events(
    made: dict[str, Any], content: list[dict[str, Any]], stop: str, usage: dict[str, int]
) -> list[Any]:
    """A message of Anthropic, piece by piece; at its start only one token is told."""
    head = {**made, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[Any] = [{"type": "message_start", "message": head}]
    for index, block in enumerate(content):
        if block["type"] == "text":
            empty = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ending = {"stop_reason": stop, "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": ending, "usage": usage},
        {"type": "message_stop"},
    ]


def main() -> None:
    """Serve for a while, for somebody who tries an agent by hand."""
    with scripted_model() as model:
        sys.stdout.write(f"{model.url}\n")
        sys.stdout.flush()
        model.stopping.wait(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0)


if __name__ == "__main__":
    main()
