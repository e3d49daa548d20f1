"""The notes of a merge request on GitLab."""

from collections.abc import Iterator
from urllib.parse import quote

from twoarm.forge.call import Caller
from twoarm.forge.comment import ForgeComment
from twoarm.forge.github import pages

API = "https://gitlab.com/api/v4"


class GitLab:
    """One merge request; `web` is its address for people, or nothing."""

    longest = 1_000_000

    def __init__(self, caller: Caller, project: str, number: int, web: str = "") -> None:
        self._caller = caller
        merge_request = f"projects/{quote(project, safe='')}/merge_requests/{number}"
        self._notes = f"{caller.prefix}/{merge_request}/notes"
        self._web = web

    def login(self) -> str:
        """Who the token belongs to; that of a project has a user of its own."""
        return str(self._caller.call("GET", f"{self._caller.prefix}/user")["username"])

    def comments(self) -> Iterator[ForgeComment]:
        """All of them, the oldest first, without what GitLab writes down itself."""
        for each in pages(self._caller, f"{self._notes}?sort=asc&order_by=created_at&"):
            if not each.get("system"):
                yield ForgeComment(
                    id=each["id"],
                    author=(each.get("author") or {}).get("username") or "",
                    body=each.get("body") or "",
                    url=self._url(each["id"]),
                )

    def change(self, comment: ForgeComment, body: str) -> str:
        """Another text for a note; its address."""
        self._caller.call("PUT", f"{self._notes}/{comment.id}", {"body": body})
        return comment.url

    def make(self, body: str) -> str:
        """A new note; its address."""
        return self._url(self._caller.call("POST", self._notes, {"body": body})["id"])

    def _url(self, note: int) -> str:
        return f"{self._web}#note_{note}" if self._web else ""

    def wait(self, seconds: float) -> None:
        """Let a moment pass."""
        self._caller.wait(seconds)


def gitlab_caller(api: str, token: str) -> Caller:
    """What may be asked with a token."""
    return Caller(api, token, {"PRIVATE-TOKEN": token})
