"""The pages about metrics and log lines tell what the Edge does, and the shipped rules are well made."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from iop.domain.errors import CODES
from iop.edge import families
from iop.edge.metrics import Metrics
from iop.edge.tallies import BOUNDS
from iop.wiring.log_fields import FIELDS
from tests.fakes import pages, promtool
from tests.fakes.edge_under_test import edge_under_test

METRICS = pages.text_of("docs/reference/metrics.md")
LOGS = pages.text_of("docs/reference/logs.md")
MONITOR = pages.text_of("docs/how-to/monitor.md")
RULES = pages.ROOT / "docs" / "examples" / "iop-alerts.yml"
SCRAPE = pages.ROOT / "docs" / "examples" / "iop-scrape.yml"
TYPES = {str: "text", int: "number", bool: "true, false"}
needs_promtool = pytest.mark.skipif(promtool.find() is None, reason="promtool is not here: make promtool-here")


def _told() -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = pages.rows(METRICS, "## Families")[1:]
    return {row[0].strip("`"): (row[1], tuple(re.findall(r"`(\w+)`", row[2]))) for row in rows}


async def test_every_family_is_told_with_type_and_labels(tmp_path: Path) -> None:
    """The table has each family that a scrape makes, with its type and its labels, and no other."""
    async with edge_under_test(tmp_path) as edge:
        made = list(Metrics(edge.core.status, edge.core.links.turned_away_by_code, edge.core.tallies).collect())
    names = {one.name + ("_total" if one.type == "counter" else ""): (one.type, tuple(one._labelnames)) for one in made}
    assert len(names) > 25
    assert _told() == names


def test_buckets_and_events_are_told() -> None:
    """The bounds of the histograms, and each word of the fixed sets."""
    told = re.search(r"Buckets of each histogram, in seconds: ([\d., ]+)\.", METRICS)
    assert told is not None
    assert tuple(float(text) for text in told[1].split(", ")) == BOUNDS
    for word in {*families._TOTALS, *families._RUNS, *families._ENDS}:
        assert f"`{word}`" in METRICS
    assert "queue_full" in CODES


def test_every_field_of_a_log_line_is_told() -> None:
    """The table of fields is the allow-list."""
    told = {row[0].strip("`"): row[1] for row in pages.rows(LOGS, "## Fields")[1:]}
    assert told == {name: TYPES[kind] for name, kind in FIELDS.items()}


def test_the_rules_and_queries_name_what_there_is() -> None:
    """Each metric in the rules and in the how-to is a family of the page, or one that Prometheus makes itself."""
    families_told = _told()
    for text in (RULES.read_text(encoding="utf-8"), MONITOR):
        used = set(re.findall(r"\biop_[a-z_]+", text))
        assert used
        assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in used} <= families_told.keys()


def test_the_scrape_jobs_are_those_that_the_absent_edge_is_looked_for_in() -> None:
    """Both jobs match the alert's pattern, and the remote one has TLS and a token from a file."""
    local, remote = yaml.safe_load(SCRAPE.read_text(encoding="utf-8"))["scrape_configs"]
    assert all(re.fullmatch("iop.*", job["job_name"]) for job in (local, remote))
    assert remote["scheme"] == "https"
    assert {"ca_file"} == set(remote["tls_config"])
    assert {"credentials_file"} == set(remote["authorization"])


@needs_promtool
def test_promtool_takes_the_rules_and_the_scrape_jobs(tmp_path: Path) -> None:
    """Prometheus' own checker finds no fault in the shipped files."""
    checker = promtool.find()
    assert checker is not None
    config = tmp_path / "prometheus.yml"
    config.write_text(
        SCRAPE.read_text(encoding="utf-8").replace("/etc/prometheus/iop", str(tmp_path)) + f"rule_files: [{RULES}]\n",
        encoding="utf-8",
    )
    for name in ("ca.pem", "admin.token"):
        (tmp_path / name).touch()
    done = subprocess.run([checker, "check", "config", str(config)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "SUCCESS: 9 rules found" in done.stdout
