"""Costs that no program told: computed from a table of prices, or not known."""

from pathlib import Path

import pytest

from tests.support.collect_fixtures import FIXTURES, changed, copied, only
from twoarm.errors import InputError

PRICES = """
[scripted-ok]
input = 1.0
output = 10.0
cache_read = 0.1
cache_write = 1.25
"""


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return path


def test_a_missing_cost_is_computed_and_marked(prices: Path) -> None:
    record = only("codex", FIXTURES / "codex" / "ok", prices=str(prices))
    # 1400 x 1 + 120 x 10 + 2100 x 0.1 = 2810 millionths.
    assert (record["total_cost_usd"], record["tags"]) == (0.00281, ["cost_computed"])


def test_a_cost_of_the_source_stays(prices: Path) -> None:
    prices.write_text(PRICES.replace("scripted-ok", '"scripted/scripted-ok"'))
    record = only("opencode", FIXTURES / "opencode" / "ok", prices=str(prices))
    assert record["total_cost_usd"] == 0.00281
    assert "tags" not in record


@pytest.mark.parametrize(
    ("old", "new", "cost"),
    [
        ("scripted-ok", "another", None),
        ("cache_read = 0.1", "", None),
        # Codex counts 0 cache writes, so their price is not needed.
        ("cache_write = 1.25", "", 0.00281),
        ("cache_read = 0.1", "cache_read = 0", 0.0026),
    ],
)
def test_a_cost_needs_the_price_of_every_count_that_costs(
    old: str, new: str, cost: float | None, prices: Path
) -> None:
    prices.write_text(PRICES.replace(old, new))
    record = only("codex", FIXTURES / "codex" / "ok", prices=str(prices))
    assert record["total_cost_usd"] == cost
    assert record["tags"] == (["no_price"] if cost is None else ["cost_computed"])


def test_a_count_that_is_not_known_is_not_priced_unless_it_costs_nothing(prices: Path) -> None:
    case = FIXTURES / "gemini-cli" / "ok_json"
    assert only("gemini-cli", case, prices=str(prices))["total_cost_usd"] is None
    prices.write_text(PRICES.replace("cache_write = 1.25", "cache_write = 0"))
    assert only("gemini-cli", case, prices=str(prices))["total_cost_usd"] == 0.00281


def test_each_model_has_its_own_price(tmp_path: Path) -> None:
    folder = copied("claude-code/result_success", tmp_path)
    changed(folder / "result.json", lambda d: d.pop("total_cost_usd"))
    path = tmp_path / "prices.toml"
    path.write_text(
        "[claude-opus-EXAMPLE]\ninput = 1\noutput = 2\ncache_read = 3\ncache_write = 4\n"
        "[claude-haiku-EXAMPLE]\ninput = 100\noutput = 200\n"
    )
    record = only("claude-code", folder, prices=str(path))
    opus = 12 * 1 + 150 * 2 + 30000 * 3 + 2000 * 4
    haiku = 2500 * 100 + 100 * 200
    assert record["total_cost_usd"] == pytest.approx((opus + haiku) / 1e6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[m]\ninput = 1\n", "not a price table: Object missing required field `output`"),
        ("[m]\ninput = -1\noutput = 1\n", "not a price table: Expected"),
        ("[m]\ninput = 1\noutput = 1\ncached = 1\n", "unknown field `cached`"),
        ("nonsense", "not TOML"),
        ("\xff", "not UTF-8"),
    ],
)
def test_a_bad_price_table_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=message):
        only("codex", FIXTURES / "codex" / "ok", prices=str(path))
