"""A run's report as JUnit XML, for CI."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET


def junit(report: dict[str, Any]) -> ET.Element:
    """One case for each step on each host."""
    suite = ET.Element("testsuite", name=f"{report['playbook']} {report['environment']}")
    failures = 0
    for step in report["steps"]:
        for host, entry in step["hosts"].items():
            case = ET.SubElement(suite, "testcase", classname=host, name=step["name"], time=str(entry["seconds"]))
            if entry["outcome"] in ("failed", "unreachable"):
                failures += 1
                ET.SubElement(case, "failure", message=entry["outcome"]).text = entry.get("message", "")
            elif entry["outcome"] == "skipped":
                ET.SubElement(case, "skipped")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    return suite
