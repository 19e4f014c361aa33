"""iop_release.services.tasks_xml: tasks whose structure Windows' own schema has."""

import xml.etree.ElementTree as ET

import pytest

from iop_release.errors import ReleaseError
from iop_release.services import tasks_xml
from iop_release.services.tasks_xml import Task

SPACE = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
#: element -> its children in the order of the schema (taskType, settingsType, … of version 1.2), those that iop uses
ORDER = {
    "Task": ["RegistrationInfo", "Triggers", "Principals", "Settings", "Actions"],
    "RegistrationInfo": ["Description"],
    "Triggers": ["BootTrigger"],
    "BootTrigger": ["Enabled"],
    "Principals": ["Principal"],
    "Principal": ["UserId", "RunLevel"],
    "Actions": ["Exec"],
    "Exec": ["Command", "Arguments", "WorkingDirectory"],
    "RestartOnFailure": ["Interval", "Count"],
}
#: settingsType is xs:all: any order
SETTINGS = {
    "MultipleInstancesPolicy": "IgnoreNew",
    "DisallowStartIfOnBatteries": "false",
    "StopIfGoingOnBatteries": "false",
    "StartWhenAvailable": "true",
    "ExecutionTimeLimit": "PT0S",
    "Enabled": "true",
}
TASK = Task("iop x.node", "S-1-5-19", "C:\\iop & co", tasks_xml.running("C:\\iop & co\\x.cmd"))


def _root(task: Task) -> ET.Element:
    return ET.fromstring(task.text().encode("utf-16"))


def test_the_structure_is_the_schemas() -> None:
    """Known elements in their order, settings with their values; read from the bytes that are written."""
    root = _root(TASK)
    assert root.attrib == {"version": "1.2"}
    for element in root.iter():
        name = element.tag.removeprefix(SPACE)
        children = [child.tag.removeprefix(SPACE) for child in element]
        if name == "Settings":
            plain = {child.tag.removeprefix(SPACE): child.text for child in element if not len(child)}
            assert plain == SETTINGS
            assert set(children) == {*SETTINGS, "RestartOnFailure"}
        else:
            assert children == ORDER.get(name, []), name
    assert root.findtext(f".//{SPACE}Arguments") == '/d /c ""C:\\iop & co\\x.cmd""'
    assert root.findtext(f".//{SPACE}WorkingDirectory") == "C:\\iop & co"


def test_the_digest_tells_definitions_apart() -> None:
    """The same values give the same digest, any other another; it stands in the description."""
    digest = tasks_xml.mark_of(TASK.text())
    assert len(digest) == 16
    assert digest == tasks_xml.mark_of(TASK.text())
    other = Task(TASK.description, "svc", TASK.root, TASK.arguments)
    assert tasks_xml.mark_of(other.text()) != digest
    assert str(_root(TASK).findtext(f".//{SPACE}Description")).endswith(digest)


@pytest.mark.parametrize("path", ["C:\\100%\\x.cmd", 'C:\\"x".cmd', "C:\\a\nb"])
def test_a_folder_that_cmd_would_change_is_refused(path: str) -> None:
    """cmd.exe expands percent signs before it looks for the file."""
    with pytest.raises(ReleaseError, match="scheduled task cannot start"):
        tasks_xml.running(path)
