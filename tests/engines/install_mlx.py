"""vllm-mlx and mlx_lm.server in one folder of their own (about 430 MB): made once, then found.

`python -m tests.engines.install_mlx --into DIR` prints where its Python is. Downloads go through pip, with the user's
own settings. Exit codes are install_llama.py's.
"""

import argparse
import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from playbooks.roles.engines.files.install_llama import COMPLETE, Failed, key_of, run_pip, tell

#: exact versions of these and of all that they need
VERSIONS = Path(__file__).with_name("mlx_versions.txt")
#: MLX's CPU backend, mlx_lm.server, and what vllm-mlx needs for text: asked for as a whole, it wants 6 GB more
PACKAGES = [
    "mlx[cpu]; sys_platform == 'linux'",
    "mlx; sys_platform == 'darwin'",
    "mlx-lm",
    *("fastapi", "uvicorn", "psutil", "jsonschema", "lm-format-enforcer", "llguidance", "prometheus-client"),
    *("requests", "mcp", "tabulate", "pytz", "pillow"),
]
ALONE = ["vllm-mlx==0.6.0"]


def install(into: Path) -> Path:
    """Return the Python that has both servers, making its folder if it is not there. Raises `Failed`."""
    venv = into.absolute() / f"mlx-{key_of([*PACKAGES, *ALONE, VERSIONS.read_text(encoding='utf-8')])}"
    python = venv / "bin" / "python"
    into.mkdir(parents=True, exist_ok=True)
    with (into / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (venv / COMPLETE).exists():
            return python
        tell("installing vllm-mlx and mlx-lm (about 430 MB)")
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        run_pip(["--python", str(python), "install", "--constraint", str(VERSIONS), *PACKAGES], PACKAGES[:3])
        run_pip(["--python", str(python), "install", "--no-deps", *ALONE], ALONE)
        (venv / COMPLETE).touch()
    return python


def main() -> int:
    """Install what is missing and print where it is."""
    parser = argparse.ArgumentParser(prog="install_mlx", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where it all lies")
    try:
        print(install(parser.parse_args().into))  # noqa: T201 - the answer
    except Failed as failed:
        print(f"error: {failed}", file=sys.stderr)  # noqa: T201
        return failed.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
