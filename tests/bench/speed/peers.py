"""How each peer is started: a function of its place to the commands that serve there.

Each has one process (workers, threads) where it can be told so, a log level of warnings, and no access log. `None`:
this peer has no such mode. An empty list: nothing to start, clients ask the engine itself.
"""

import os
from collections.abc import Callable

from tests.bench.speed.ours import edge_and_node
from tests.bench.speed.place import MODEL, Command, Place
from tests.bench.speed.tools import BENCH

VENVS = BENCH / "venvs"
#: seconds that a request may take, in line included, where a peer has such a limit
PATIENCE = 600

_NGINX = """\
worker_processes 1; pid {folder}/{name}.pid; worker_rlimit_nofile 65535; daemon off;
error_log {folder}/{name}.err warn;
events {{ worker_connections 8192; multi_accept on; }}
http {{
  access_log off;
  client_body_temp_path {folder}/{name}-b; proxy_temp_path {folder}/{name}-p; fastcgi_temp_path {folder}/{name}-f;
  uwsgi_temp_path {folder}/{name}-u; scgi_temp_path {folder}/{name}-s;
  client_max_body_size 1g; client_body_buffer_size 16m; keepalive_requests 100000000; tcp_nodelay on;
  upstream engines {{
    least_conn;
{servers}
    keepalive 256; keepalive_requests 100000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout {patience}s;
    }}
  }}
}}
"""
_HAPROXY = """\
global
  nbthread 1
  maxconn 6000
defaults
  mode http
  timeout connect 5s
  timeout client {patience}s
  timeout server {patience}s
  timeout queue {patience}s
  option http-no-delay
  option abortonclose
  http-reuse always
frontend clients
  bind 127.0.0.1:{port} backlog 4096
  default_backend engines
backend engines
  balance leastconn
{servers}
"""
_LITELLM = """\
model_list:
{models}
litellm_settings:
  telemetry: false
  request_timeout: {patience}
router_settings:
  routing_strategy: {strategy}
  num_retries: 0
  disable_cooldowns: true
"""

Peer = Callable[[Place], list[Command] | None]


def direct(_place: Place) -> list[Command] | None:
    """No gateway: clients ask the engine."""
    return []


def nginx(place: Place) -> list[Command] | None:
    """One hop; max_conns holds a limit, and answers 502 beyond it."""
    return [_nginx(place, "nginx", place.port, place.limits())]


def nginx_two_hops(place: Place) -> list[Command] | None:
    """Two in a row, as our Edge and Node are: the fairest mark for what two processes cost."""
    if place.capacities:
        return None
    inner = _nginx(place, "inner", place.spare[0], place.limits())
    return [_nginx(place, "outer", place.port, [(f"127.0.0.1:{place.spare[0]}", None)]), inner]


def _nginx(place: Place, name: str, port: int, limits: list[tuple[str, int | None]]) -> Command:
    servers = "\n".join(f"    server {host}{f' max_conns={n}' if n else ''} max_fails=0;" for host, n in limits)
    text = _NGINX.format(folder=place.folder, name=name, port=port, servers=servers, patience=PATIENCE)
    return Command(["nginx", "-e", "stderr", "-c", place.write(f"{name}.conf", text)])


def haproxy(place: Place) -> list[Command] | None:
    """One hop; the only other one here with a line in front of a capacity per engine."""
    servers = "\n".join(
        f"  server e{number} {host}{f' maxconn {capacity}' if capacity else ''}"
        for number, (host, capacity) in enumerate(place.limits())
    )
    text = _HAPROXY.format(port=place.port, servers=servers, patience=PATIENCE)
    return [Command(["haproxy", "-db", "-f", place.write("haproxy.cfg", text)])]


def litellm(place: Place) -> list[Command] | None:
    """LiteLLM's proxy; max_parallel_requests holds a limit, and answers 429 beyond it."""
    models = "\n".join(
        f"  - model_name: {MODEL}\n    litellm_params:\n      model: openai/{MODEL}\n      api_base: http://{host}/v1\n"
        f"      api_key: sk-x" + (f"\n      max_parallel_requests: {capacity}" if capacity else "")
        for host, capacity in place.limits()
    )
    strategy = "least-busy" if place.capacities else "simple-shuffle"
    config = place.write("litellm.yaml", _LITELLM.format(models=models, strategy=strategy, patience=PATIENCE))
    programs = VENVS / "litellm" / "bin"
    argv = [str(programs / "litellm"), "--config", config, "--host", "127.0.0.1", "--port", str(place.port)]
    env = {
        "LITELLM_TELEMETRY": "False", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true", "NO_DOCS": "True",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }  # fmt: skip
    return [Command([*argv, "--num_workers", "1"], env)]


def sglang_router(place: Place) -> list[Command] | None:
    """The router of SGLang (Rust, all cores); its limit is one global bucket, none per engine."""
    start = [str(VENVS / "sglang-router" / "bin" / "python"), "-m", "sglang_router.launch_router"]
    return [_router(place, [*start, "--log-level", "warn"], "round_robin", "-1")]


def vllm_router(place: Place) -> list[Command] | None:
    """The router of vLLM (Rust, all cores); its limit is one global bucket, none per engine."""
    start = [str(VENVS / "vllm-router" / "bin" / "vllm-router"), "--log-level", "warning"]
    return [_router(place, start, "random", "100000")]


def _router(place: Place, start: list[str], policy: str, unlimited: str) -> Command:
    argv = [*start, "--worker-urls", *place.engines, "--host", "127.0.0.1", "--port", str(place.port)]
    argv += ["--prometheus-port", str(place.spare[0])]
    if place.capacities is None:
        argv += ["--policy", policy, "--max-concurrent-requests", unlimited]
    else:
        argv += ["--policy", "power_of_two", "--max-concurrent-requests", str(sum(place.capacities))]
        argv += ["--queue-size", "1000", "--queue-timeout-secs", str(PATIENCE)]
    return Command(argv, {"RUST_LOG": "warn"})


def iop(place: Place) -> list[Command] | None:
    """Edge and one Node of this checkout, logging warnings as the others do."""
    return edge_and_node(place, "warning")


def iop_logged(place: Place) -> list[Command] | None:
    """The same at the default level: a line per request."""
    return edge_and_node(place, "info")


#: in the order of a round
PEERS: dict[str, Peer] = {
    "direct": direct, "nginx": nginx, "nginx-2hop": nginx_two_hops, "haproxy": haproxy, "litellm": litellm,
    "sglang-router": sglang_router, "vllm-router": vllm_router, "iop": iop, "iop-logged": iop_logged,
}  # fmt: skip
