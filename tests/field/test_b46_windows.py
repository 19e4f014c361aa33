"""Field case B46: nothing in the runtime takes away what Windows needs to start programs."""

import re
from pathlib import Path

RUNTIME = Path(__file__).parents[2] / "runtime"
FORBIDDEN = re.compile(
    r"SelectorEventLoopPolicy|set_event_loop_policy|SelectorEventLoop\b|shell=True|create_subprocess_shell"
)


def test_b46_no_selector_loop_and_no_shell() -> None:
    """Field cases B46, B60: Windows' default loop stays, since only it can start programs; no shell is ever used.

    That signals work without `add_signal_handler` is tested with the life of a process (`wiring/serve`).
    """
    found = [
        f"{path.relative_to(RUNTIME)}: {match[0]}"
        for path in RUNTIME.rglob("*.py")
        for match in FORBIDDEN.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []
