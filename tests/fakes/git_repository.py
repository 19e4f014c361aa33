"""A small git repository for tests of the builder's side."""

import subprocess
from pathlib import Path

WHO = ["-c", "user.name=tester", "-c", "user.email=tester@example.invalid"]


def commit(folder: Path, **files: str) -> str:
    """Write files, commit them, and return the commit."""
    if not (folder / ".git").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "-C", str(folder), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(folder), *WHO, "commit", "-q", "-m", "step"], check=True)
    done = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()
