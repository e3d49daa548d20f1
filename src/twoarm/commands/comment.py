"""`twoarm comment`: one comment on a pull request, kept up to date."""

import os
import re
from argparse import ArgumentParser, ArgumentTypeError
from typing import TYPE_CHECKING

from twoarm.commands import score
from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import HELP
from twoarm.commands.given import Given
from twoarm.commands.score_options import whole_number
from twoarm.render.report import Report
from twoarm.render.several import Candidates
from twoarm.text.escape import annotation, named, visible

if TYPE_CHECKING:
    from twoarm.forge.pull_request import PullRequest

DESCRIPTION = (
    "Score run files as twoarm score does, and keep one comment with the result on the pull "
    "request or merge request that this job of GitHub Actions or GitLab CI is about. The token is "
    "in TWOARM_TOKEN, or in GITHUB_TOKEN or GITLAB_TOKEN. If it is missing or may not write, "
    "nothing is posted, which is no error."
)
EPILOG = HELP

# In an HTML comment, where two dashes would end it.
_KEY = re.compile(r"[A-Za-z0-9_.]+(-[A-Za-z0-9_.]+)*")
_LONGEST_KEY = 60
_TOLD = {
    "posted": "posted a comment on",
    "updated": "updated the comment on",
    "unchanged": "nothing new for the comment on",
}


def add_options(parser: ArgumentParser) -> None:
    """The options of `comment`: what `score` has, and where the comment goes."""
    score.add_options(parser)
    posted = parser.add_argument_group("the comment")
    posted.add_argument(
        "--key",
        type=_key,
        metavar="NAME",
        help="a name for the comment, where a pull request has several",
    )
    posted.add_argument(
        "--pull-request",
        type=_number,
        metavar="N",
        help="the pull request or merge request (default: that of the event)",
    )


def _key(text: str) -> str:
    if len(text) > _LONGEST_KEY or not _KEY.fullmatch(text):
        raise ArgumentTypeError(
            f"expected at most {_LONGEST_KEY} letters, digits, dots, underscores and single "
            f"dashes, got {named(text)}"
        )
    return text


def _number(text: str) -> int:
    number = whole_number(text)
    if number < 1:
        raise ArgumentTypeError(f"expected a number from 1, got {named(text)}")
    return number


def run(given: Given, streams: Streams) -> int:
    """Score the runs as `score` does, then post what was found."""
    judged = score.scored(given, streams)
    _post(judged, given, streams)
    return score.exit_code_of(judged, given, streams)


def _post(judged: Report | Candidates, given: Given, streams: Streams) -> None:
    """Keep the comment, or say why there is none."""
    from twoarm.forge.call import ForgeError
    from twoarm.forge.comment import keep_comment
    from twoarm.forge.pull_request import CiJob

    try:
        pull_request, forge = CiJob(os.environ).pull_request(given.get("pull_request"))
        kept = keep_comment(forge, _body(judged, given.get("key"), pull_request))
    except ForgeError as error:
        # Seen where a runner shows such things; the summary of the job has the report.
        message = f"no comment was posted: {error}"
        if os.environ.get("GITHUB_ACTIONS"):
            streams.command(f"::notice title=twoarm::{annotation(message)}")
        else:
            streams.say(f"twoarm: {message}")
        return
    sign = {"github": "#", "gitlab": "!"}[pull_request.forge]
    where = f"{sign}{pull_request.number}{': ' if kept.url else ''}{visible(kept.url)}"
    streams.say(f"twoarm: {_TOLD[kept.how]} {where}")


def _body(judged: Report | Candidates, key: str | None, pull_request: "PullRequest") -> str:
    """The comment under its own first line, with what it is about in the last."""
    from twoarm.render.github import MARKER, marker

    text = judged.to_github().replace(MARKER, marker(key), 1)
    about = [f"Commit {pull_request.commit[:12]}"] if pull_request.commit else []
    if pull_request.job_url.startswith(("https://", "http://")):
        about.append(f"[job]({pull_request.job_url})")
    return f"{text}\n<sub>{', '.join(about)}</sub>\n" if about else text
