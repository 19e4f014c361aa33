"""The command line of `iop-control`."""

import pytest

from iop.commands import control

GOOD = 'listen: 127.0.0.1:0\nedges: [{id: edge-test, admin_url: "http://127.0.0.1:1"}]\n'


def test_serve_hands_the_service_to_the_life_cycle(tmp_path, monkeypatch):
    """A good file is served with the options given, and the life cycle's exit code is the command's."""
    seen = {}

    def fake_serve(factory, **options):
        seen.update(options, factory=factory)
        return 7

    monkeypatch.setattr(control, "serve", fake_serve)
    (tmp_path / "control.yaml").write_text(GOOD, encoding="utf-8")
    assert control.main(["--config", str(tmp_path / "control.yaml"), "serve", "--log-format", "json"]) == 7
    assert seen["log_format"] == "json"
    assert callable(seen["factory"])


def test_a_bad_file_starts_nothing(tmp_path, capsys):
    """Findings are printed with their place and the exit code is 1."""
    path = tmp_path / "control.yaml"
    path.write_text(GOOD.replace("listen", "lisen"), encoding="utf-8")
    assert control.main(["--config", str(path), "serve"]) == 1
    assert f"{path}:1:" in capsys.readouterr().err


def test_an_unreadable_file_is_a_usage_error(tmp_path, capsys):
    """A missing file ends with 2 and its name."""
    assert control.main(["--config", str(tmp_path / "gone.yaml"), "serve"]) == 2
    assert "gone.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["--config", "x", "serve", "--help"]])
def test_help_and_version_exit_0(argv):
    """Every command explains itself."""
    with pytest.raises(SystemExit) as ended:
        control.main(argv)
    assert ended.value.code == 0


def test_no_command_is_a_usage_error():
    """Nothing to do is told with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        control.main(["--config", "x"])
    assert ended.value.code == 2
