"""Arguments of tasks that ansible-lint does not look at: those of modules for Windows."""

from pathlib import Path

import pytest

from tests.fakes.task_arguments import faults

ROOT = Path(__file__).resolve().parents[3]
COLLECTIONS = ROOT / "build" / "collections"
FILES = sorted((ROOT / "playbooks").rglob("*.yml"))
HERE = (COLLECTIONS / "ansible_collections" / "ansible" / "windows").is_dir()
BUILTIN = """
- name: Good
  ansible.builtin.copy: {dest: /x, content: "a", mode: "{{ mode }}"}
- name: Nested
  block:
    - name: Misspelt
      ansible.builtin.copy: {dest: /x, contents: "a"}
    - name: No such choice
      ansible.builtin.file: {path: /x, state: present}
    - name: Forgotten
      ansible.builtin.copy: {content: "a"}
"""
WINDOWS = """
- name: Good
  ansible.windows.win_file: {path: 'C:\\iop', state: directory}
- name: Misspelt
  ansible.windows.win_file: {path: 'C:\\iop', statee: directory}
"""


def test_what_lint_lets_pass_is_found(tmp_path: Path) -> None:
    """A misspelt option, a value that is no choice and a missing option; a template's value may be anything."""
    file = tmp_path / "main.yml"
    file.write_text(BUILTIN, encoding="utf-8")

    found = faults([file], "ansible.builtin.")

    assert len(found) == 3
    assert found[0].startswith("main.yml: Misspelt: ansible.builtin.copy: contents. Supported parameters include")
    assert "No such choice: ansible.builtin.file: value of state must be one of" in found[1]
    assert found[2].endswith("Forgotten: ansible.builtin.copy: missing required arguments: dest")


@pytest.mark.skipif(not HERE, reason="the collection ansible.windows is not here: make windows-here")
def test_tasks_for_windows(tmp_path: Path) -> None:
    """Every task of a playbook that uses ansible.windows, and a misspelt one, to see that it would be found."""
    assert faults(FILES, "ansible.windows.", COLLECTIONS) == []
    file = tmp_path / "main.yml"
    file.write_text(WINDOWS, encoding="utf-8")
    found = faults([file], "ansible.windows.", COLLECTIONS)
    assert len(found) == 1
    assert "Misspelt: ansible.windows.win_file: statee" in found[0]
