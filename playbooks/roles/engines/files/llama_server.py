"""A llama.cpp server: the one inside the xllamacpp wheel, started by a service manager or a test.

Runs with the Python of the folder that install_llama.py makes. Prints `ready engine=HOST:PORT` when it listens and
exits 0 on SIGTERM or SIGINT, at once, as llama.cpp's own program does with work in hand.
"""

from __future__ import annotations

import argparse
import os
import signal

STOPS = (signal.SIGTERM, signal.SIGINT)


def main() -> None:
    """Serve until a signal comes."""
    options = _parser().parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # before the server's threads, which inherit it
    import xllamacpp

    server = xllamacpp.Server(_parameters(options, xllamacpp.CommonParams()))
    address = server.listening_address.rpartition("/")[2]
    print(f"ready engine={address}", flush=True)  # noqa: T201 - the line that starters wait for
    signal.sigwait(STOPS)
    os._exit(0)  # llama.cpp's threads may be in the middle of a token; nothing of theirs is to be kept


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="llama_server.py", description="A llama.cpp server.")
    parser.add_argument("--model", required=True, metavar="FILE", help="a GGUF file")
    parser.add_argument("--alias", required=True, metavar="NAME", help="the model's name in the API")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="port 0: the system picks one")
    parser.add_argument("--slots", type=int, required=True, metavar="N", help="requests that run at once")
    parser.add_argument("--context", type=int, default=4096, metavar="TOKENS", help="of each slot (4096)")
    parser.add_argument("--predict", type=int, default=-1, metavar="N", help="most tokens of an answer (-1: no limit)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the model's work (1)")
    return parser


def _parameters(options: argparse.Namespace, found):  # noqa: ANN001, ANN202 - the wheel has no types
    host, _, port = options.listen.rpartition(":")
    found.model.path = options.model
    found.model_alias = [options.alias]
    found.hostnames = [host]
    found.port = int(port)
    found.n_parallel = options.slots
    found.n_ctx = options.slots * options.context  # llama.cpp divides it by the slots
    found.n_predict = options.predict
    found.cpuparams.n_threads = found.cpuparams_batch.n_threads = options.threads
    found.endpoint_metrics = True
    found.use_jinja = True  # the chat template of the model
    found.warmup = False
    found.cache_ram_mib = 0  # old prompts are not worth gigabytes here
    return found


if __name__ == "__main__":
    main()
