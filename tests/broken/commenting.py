"""Rules of the one comment on a pull request."""

from tests.broken.entry import Broken

COMMENT = "tests/forge/test_comment.py"
WORKFLOW = "tests/forge/workflows/test_workflow.py"
WHICH = "tests/forge/test_pull_request.py"

COMMENTING = [
    Broken("no redirect gets the token", "Caller.__init__", "build_opener(_NoRedirect)", "build_opener()", COMMENT),
    Broken("what may have been made is looked for", "keep_comment", "return _kept(forge, body)", "return KeptComment(how='posted', url=forge.make(body))", COMMENT),
    Broken("a lost answer is no second comment", "Caller.call", 'repeatable = method != "POST" if repeatable is None else repeatable', "repeatable = True", COMMENT),
    Broken("a comment has one author", "comment._kept", "if comment.author == login", "", COMMENT),
    Broken("a comment begins with its mark", "comment._kept", "if _first_line(comment) == mark", "if mark in comment.body", COMMENT),
    Broken("what is the same is not written again", "comment._kept", 'if known.body.strip().replace("\\r\\n", "\\n") == body.strip():', "if False:", COMMENT),
    Broken("later pages are read", "github.pages", "if len(entries) < _PER_PAGE:", "if entries:", COMMENT),
    Broken("a 403 may be a limit", "is_limited", '"retry-after" in headers', "False", COMMENT),
    Broken("nobody waits for an hour", "Caller.call", "if wait > LONGEST_WAIT_SECONDS:", "if False:", COMMENT),
    Broken("a limit is as long as it says", "Caller.call", "wait = asked_wait(error.headers, wait)", "", COMMENT),
    Broken("nobody is asked again at once", "asked_wait", "return max(1.0, parsedate_to_datetime(after).timestamp() - time.time())", "return parsedate_to_datetime(after).timestamp() - time.time()", f"{COMMENT}::test_a_limit_is_waited_for"),
    Broken("a limit whose end is not known is waited for as well", "is_limited", '"rate limit" in told.lower()', "False", f"{COMMENT}::test_a_limit_is_waited_for"),
    Broken("a budget that comes back is waited for", "is_limited", 'headers.get("x-ratelimit-remaining") == "0"', "False", f"{COMMENT}::test_a_limit_is_waited_for"),
    Broken("a server of one's own has the other interface beside it", "GitHub.login", "f\"{self._caller.prefix.removesuffix('/v3')}/graphql\"", 'f"{self._caller.prefix}/graphql"', f"{COMMENT}::test_a_server_of_ones_own"),
    Broken("a token that may not write is no error", "commands.comment._post", "except ForgeError as error:", "except UnicodeError as error:", COMMENT),
    Broken("a key cannot end its line", "commands.comment._key", "not _KEY.fullmatch(text)", "False", COMMENT),
    Broken("only the newest commit", "_of_workflow_run", 'if each["head"]["sha"] == commit', "if True", WHICH),
    Broken("only that repository", "_of_workflow_run", 'and (each["head"].get("repo") or {}).get("id") == source["id"]', "", WHICH),
    Broken("only into this one", "_of_workflow_run", 'and each["base"]["repo"]["full_name"] == repository', "", WHICH),
    Broken("in doubt nothing is posted", "_of_workflow_run", "if len(same) != 1:", "if not same:", WHICH),
    Broken("of an app, too, the login is known", "GitHub.login", 'login = answer["data"]["viewer"]["login"]', "login = _WORKFLOWS", COMMENT),
    Broken("only the first line is the mark", "commands.comment._body", "replace(MARKER, marker(key), 1)", "replace(MARKER, marker(key))", COMMENT),
    Broken("a comment is short enough", "comment._kept", "if len(body) > forge.longest:", "if False:", COMMENT),
    Broken("a refusal that breaks off is a refusal", "call._told", "except (OSError, HTTPException):", "except UnicodeError:", COMMENT),
    Broken("nobody repeats the token", "Caller._quoted", 'told.replace(self._token, "***")', "told", COMMENT),
    Broken("an address is read before it is asked", "Caller.__init__", "if not _is_address(api):", "if False:", WHICH),
    Broken("a repository that is gone is nobody's", "_of_workflow_run", 'if source.get("id") is None:', "if False:", WHICH),
    Broken("an odd answer is no odd event", "_of_workflow_run", "with understood():", "if True:", WHICH),
    Broken("a number that is none is an odd answer", "call.understood", "(LookupError, TypeError, ValueError, AttributeError)", "(LookupError, TypeError, AttributeError)", WHICH),
    Broken("a shallow clone says so", "tree.commit_of", "_SHALLOW if _is_shallow(repo) else \"\"", '""', f"{WORKFLOW}::test_a_long_branch_is_compared_with_where_it_began"),
    Broken("a whole clone is not called shallow", "tree.commit_of", "_SHALLOW if _is_shallow(repo) else \"\"", "_SHALLOW", f"{WORKFLOW}::test_a_ref_that_is_nowhere_is_not_for_want_of_history"),
    Broken("a token may end with a line", "CiJob._token", "self._get(name).strip()", "self._get(name)", COMMENT),
]  # fmt: skip
