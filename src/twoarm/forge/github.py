"""The comments of a pull request on GitHub, or on a GitHub Enterprise server."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from twoarm.forge.call import Caller, ForgeError
from twoarm.forge.comment import ForgeComment

API = "https://api.github.com"
# Who comments with the token of a workflow.
_WORKFLOWS = "github-actions[bot]"
_PER_PAGE, _MOST_PAGES = 100, 100


class GitHub:
    """One pull request."""

    longest = 65_536

    def __init__(self, caller: Caller, repository: str, number: int) -> None:
        self._caller = caller
        self._repository = f"{caller.prefix}/repos/{quote(repository)}"
        self._comments = f"{self._repository}/issues/{number}/comments"

    def login(self) -> str:
        """The token of an app may not ask for its user, but for whom it looks at things as."""
        try:
            # On a server of its own it stands beside the versions of the other interface.
            path = f"{self._caller.prefix.removesuffix('/v3')}/graphql"
            query = {"query": "{viewer{login}}"}
            answer = self._caller.call("POST", path, query, repeatable=True)
            login = answer["data"]["viewer"]["login"]
        except (ForgeError, LookupError, TypeError):
            return _WORKFLOWS
        return login if isinstance(login, str) and login else _WORKFLOWS

    def comments(self) -> Iterator[ForgeComment]:
        """All of them, the oldest first."""
        for each in pages(self._caller, f"{self._comments}?"):
            author = each.get("user") or {}
            yield ForgeComment(
                id=each["id"],
                author=author.get("login") or "",
                body=each.get("body") or "",
                url=each.get("html_url") or "",
            )

    def change(self, comment: ForgeComment, body: str) -> str:
        """Another text for a comment; its address."""
        path = f"{self._repository}/issues/comments/{comment.id}"
        self._caller.call("PATCH", path, {"body": body})
        return comment.url

    def make(self, body: str) -> str:
        """A new comment; its address."""
        made = self._caller.call("POST", self._comments, {"body": body})
        return str(made.get("html_url") or "")

    def wait(self, seconds: float) -> None:
        """Let a moment pass."""
        self._caller.wait(seconds)


def github_caller(api: str, token: str) -> Caller:
    """What may be asked with a token."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    return Caller(api, token, headers)


def pages(caller: Caller, path: str) -> Iterator[Mapping[str, Any]]:
    """The entries of a list that comes in pages."""
    for page in range(1, _MOST_PAGES + 1):
        entries = caller.call("GET", f"{path}per_page={_PER_PAGE}&page={page}")
        if not isinstance(entries, list):
            raise ForgeError(f"GET {path}: expected a list")
        yield from entries
        if len(entries) < _PER_PAGE:
            return
