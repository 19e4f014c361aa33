#!/usr/bin/env bash
# Three booted hosts on this machine: real systemd as PID 1, real sshd, an own network and disk each.
#
#   lab.sh up                        boot mac, gx10 and onexplayer (clears first what a killed run left)
#   lab.sh down                      stop them, leave nothing; the cached base stays
#   lab.sh destroy                   the same, and remove the cached base
#   lab.sh status                    one line per host
#   lab.sh base                      make the base root folder only, and print its path
#   lab.sh tools                     install the Debian packages that are missing here
#   lab.sh ssh HOST [COMMAND…]       as the account `lab`, host key checked
#   lab.sh exec HOST COMMAND…        as root inside the host, without its sshd
#   lab.sh connect ADDRESS PORT      stdin and stdout to a port inside the lab's network
#   lab.sh inside COMMAND…           run a command of this machine in the lab's network
# Faults:
#   lab.sh cut HOST | restore HOST   its network cable out, in again
#   lab.sh loss HOST PERCENT         drop that share of what arrives
#   lab.sh reset HOST PORT           answer a port with a reset
#   lab.sh heal HOST                 end loss and reset
#   lab.sh freeze HOST | thaw HOST   all its processes stand still, go on
#   lab.sh crash HOST | boot HOST    power loss; power on, disk as it was
#   lab.sh clock HOST OFFSET         +2h, -90m: the time of day for what is started there from now on; 0: right again
#   lab.sh fill HOST | unfill HOST   no byte left on the disk that holds /srv; room again
#
# State: build/lab/ of the checkout (ssh_config, key, known_hosts) and LAB_DIR (overlays, disks).
# Settings: LAB_DIR=/var/tmp/iop-lab  LAB_CACHE=/var/cache/iop-lab  LAB_SUITE=trixie|bookworm  LAB_MIRROR=URL
#   LAB_WIN=1 (onexplayer also runs a Windows Python under wine, ssh host onexplayer-windows; for trying by hand)
# Exit codes: 0 done, 1 failed (what and where is said), 2 wrong use, 3 cannot run on this machine (needs root, Linux,
# namespaces).
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
CHECKOUT=$(cd "$HERE/../.." && pwd -P)
ME=tests/lab/lab.sh

# names on this machine carry the checkout's own prefix: two checkouts may each have a lab
PREFIX=iop-$(printf %s "$CHECKOUT" | sha256sum | cut -c1-8)
STATE=$CHECKOUT/build/lab
DIR=${LAB_DIR:-/var/tmp/iop-lab}/$PREFIX
CACHE=${LAB_CACHE:-/var/cache/iop-lab}
SUITE=${LAB_SUITE:-trixie}
RUN=/run/iop-lab/$PREFIX # sockets of ssh: their paths must be short
CTL=$PREFIX-ctl          # the network namespace of the lab's switch, and of whoever looks in from outside
NET=10.77.0
HOSTS=(mac gx10 onexplayer)
CGROUPS=/sys/fs/cgroup/unified # the machine's cgroup2 tree: beside the older ones, or alone
[ -d $CGROUPS ] || CGROUPS=/sys/fs/cgroup

say() { printf '%s lab: %s\n' "$(date +%T)" "$*" >&2; }
fail() {
  printf 'lab: %s\n' "$*" >&2
  exit 1
}
cannot() {
  printf 'lab: cannot run on this machine: %s\n' "$*" >&2
  exit 3
}
usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$HERE/lab.sh" >&2
  exit 2
}

. "$HERE/base.sh"
. "$HERE/windows.sh"
. "$HERE/hosts.sh"
. "$HERE/faults.sh"

# This machine can carry a lab, or exit code 3 says why not.
able() {
  [ "$(uname -s)" = Linux ] || cannot "it is not Linux"
  [ "$(id -u)" -eq 0 ] || cannot "it needs root (sudo $ME up)"
  command -v unshare >/dev/null || return 0 # tools() installs it
  unshare --mount --net --pid --fork --propagation private true 2>/dev/null || cannot "it may not make namespaces"
  # shellcheck disable=SC2016
  unshare --mount --propagation private bash -c 'umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup' \
    2>/dev/null || cannot "it may not mount cgroup2 (a container without privileges?)"
}

# HOST is one of ours and the lab is there.
host() {
  [ -n "${1:-}" ] || usage
  [[ " ${HOSTS[*]} " == *" $1 "* ]] || {
    printf 'lab: no host %q (there are: %s)\n' "$1" "${HOSTS[*]}" >&2
    exit 2
  }
  [ -e "/run/netns/$PREFIX-$1" ] || fail "the lab of $CHECKOUT is not up: run make lab"
}

# One up or down at a time per checkout; the lock's file goes with a lab that is down.
locked() {
  until [ "/run/iop-lab/$PREFIX.lock" -ef /proc/self/fd/9 ]; do
    mkdir -p /run/iop-lab
    exec 9>"/run/iop-lab/$PREFIX.lock"
    flock 9
  done
}

up() {
  able
  tools
  locked
  base
  clear_stale
  down_all
  begin
  for one in "${HOSTS[@]}"; do
    seed "$one"
    start "$one"
  done
  for one in "${HOSTS[@]}"; do wait_up "$one"; done
  if [ -n "${LAB_WIN:-}" ]; then wait_windows; fi
  say "up: ${HOSTS[*]} (try: ssh -F build/lab/ssh_config gx10)"
}

command=${1:-help}
[ $# -gt 0 ] && shift
case $command in
  up) up ;;
  down | destroy)
    able
    locked
    down_all
    rm -f "/run/iop-lab/$PREFIX.lock"
    rmdir /run/iop-lab 2>/dev/null || true
    [ "$command" = down ] || rm -rf "$CACHE"
    say "down: nothing of $PREFIX is left"
    ;;
  status) status ;;
  tools) tools ;;
  base)
    able
    tools
    base
    echo "$BASE"
    ;;
  customize-base) customize "$1" ;; # mmdebstrap's hook
  ssh)
    host "${1:-}"
    exec ssh -F "$STATE/ssh_config" "$@"
    ;;
  exec)
    host "${1:-}"
    one=$1
    shift
    enter "$one" "$@"
    ;;
  connect)
    [ $# -eq 2 ] || usage
    exec nsenter --net="/run/netns/$CTL" -- "$(python)" -IS "$HERE/relay.py" "${ADDRESS[$1]:-$1}" "$2"
    ;;
  inside) exec nsenter --net="/run/netns/$CTL" -- "$@" ;; # not `ip netns exec`: it hides the cgroups that faults need
  cut | restore | heal | freeze | thaw | crash | boot | fill | unfill)
    host "${1:-}"
    "fault_$command" "$1"
    ;;
  loss | reset)
    host "${1:-}"
    [[ "${2:-}" =~ ^[0-9]+$ ]] || usage
    "fault_$command" "$1" "$2"
    ;;
  clock)
    host "${1:-}"
    [[ "${2:-}" =~ ^([+-][0-9]+[smhd]?|0)$ ]] || usage
    fault_clock "$1" "$2"
    ;;
  *) usage ;;
esac
