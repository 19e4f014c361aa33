"""Findings: order, text and JSON."""

from iop.config.findings import Finding, has_errors, in_order


def _finding(line: int, severity: str = "error", message: str = "bad") -> Finding:
    return Finding(
        severity=severity,  # type: ignore[arg-type]
        code="c",
        file="f.yaml",
        line=line,
        column=3,
        path="a.b",
        message=message,
        hint="do this",
    )


def test_text_form_names_place_code_path_message_and_hint() -> None:
    """The text form is file:line:column: severity code path: message (hint)."""
    assert str(_finding(7)) == "f.yaml:7:3: error c a.b: bad (do this)"


def test_json_form_has_the_fields_of_the_interface() -> None:
    """The JSON form has exactly the fields that the interface names."""
    keys = {"severity", "code", "file", "line", "column", "path", "message", "hint"}
    assert set(_finding(1).as_json()) == keys


def test_findings_come_in_the_order_of_the_file_and_once() -> None:
    """Findings are sorted by line as numbers; an equal one is told once."""
    assert [f.line for f in in_order([_finding(10), _finding(9), _finding(10)])] == [9, 10]


def test_only_errors_fail() -> None:
    """A warning alone is no error."""
    assert not has_errors([_finding(1, "warning")])
    assert has_errors([_finding(1, "warning"), _finding(2)])


def test_control_characters_reach_no_terminal() -> None:
    """Escapes, line ends and lone surrogates in a message are shown as escapes."""
    assert str(_finding(1, message="a\x1b[31m\n\ud800")).endswith(r"a\x1b[31m\n\ud800 (do this)")
