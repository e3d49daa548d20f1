"""Every rule with code that breaks it: a table for each part of the program."""

from tests.broken.accounts import ACCOUNTS
from tests.broken.arms import SEVERAL_ARMS
from tests.broken.clustering import CLUSTERING
from tests.broken.collecting import COLLECTING
from tests.broken.commands import COMMANDS
from tests.broken.commenting import COMMENTING
from tests.broken.containing import CONTAINING
from tests.broken.entry import Broken
from tests.broken.evidence import EVIDENCE
from tests.broken.explaining import EXPLAINING
from tests.broken.failing import FAILING
from tests.broken.families import FAMILIES
from tests.broken.grading import GRADING
from tests.broken.growing import GROWING
from tests.broken.harbor import HARBOR
from tests.broken.harmless import HARMLESS
from tests.broken.planning import PLANNING
from tests.broken.reading import READING
from tests.broken.redacting import REDACTING
from tests.broken.remembering import REMEMBERING
from tests.broken.reports import REPORTS
from tests.broken.running import RUNNING
from tests.broken.scored import SCORED
from tests.broken.scoring import SCORING
from tests.broken.sealing import SEALING
from tests.broken.sharing import SHARING
from tests.broken.tagging import TAGGING

__all__ = ["BROKEN", "Broken"]

BROKEN = [
    *READING,
    *SCORING,
    *EVIDENCE,
    *SCORED,
    *FAMILIES,
    *EXPLAINING,
    *TAGGING,
    *FAILING,
    *PLANNING,
    *REPORTS,
    *COMMANDS,
    *COMMENTING,
    *REMEMBERING,
    *COLLECTING,
    *RUNNING,
    *SEALING,
    *SHARING,
    *CLUSTERING,
    *SEVERAL_ARMS,
    *GROWING,
    *HARMLESS,
    *REDACTING,
    *ACCOUNTS,
    *GRADING,
    *CONTAINING,
    *HARBOR,
]
