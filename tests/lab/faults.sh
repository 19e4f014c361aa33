# Faults, each undone by its twin; sourced by lab.sh.
# shellcheck shell=bash

fault_cut() { ip -n "$CTL" link set "v-$1" down; }
fault_restore() { ip -n "$CTL" link set "v-$1" up; }

rule() { # HOST RULE: one filter rule for what arrives at the host
  fault_heal "$1"
  printf 'table inet lab {\n chain in {\n type filter hook input priority 0; policy accept;\n %s\n }\n}\n' "$2" |
    nsenter --net="/run/netns/$PREFIX-$1" nft -f -
}
fault_loss() {
  local share="numgen random mod 100 < $2"
  [ "$2" -lt 100 ] || share=
  rule "$1" "iifname eth0 $share drop"
}
fault_reset() { rule "$1" "tcp dport $2 reject with tcp reset"; }
fault_heal() { nsenter --net="/run/netns/$PREFIX-$1" nft delete table inet lab 2>/dev/null || true; }

frozen() { # HOST 1|0: the kernel has really stopped (or let go) every process of it
  local group=$CGROUPS/$PREFIX-$1 tries
  [ -d "$group" ] || fail "$1 is off: run $ME boot $1"
  echo "$2" >"$group/cgroup.freeze"
  for tries in $(seq 200); do
    grep -q "^frozen $2" "$group/cgroup.events" && return 0
    sleep 0.02
  done
  fail "$1 did not freeze or thaw within 4 s"
}
fault_freeze() { frozen "$1" 1; }
fault_thaw() { frozen "$1" 0; }

fault_crash() { # no packet says goodbye: first the cable, then the power
  fault_cut "$1"
  halt "$1" KILL
  end_masters
}
fault_boot() {
  if starter "$1" >/dev/null; then fail "$1 is on: run $ME crash $1 first"; fi
  fault_restore "$1"
  start "$1"
  wait_up "$1"
}

fault_clock() { # HOST OFFSET: `+2h`, `-90m`, 0 for right; seen by what is started from now on, ssh sessions among them
  if [ "$2" != 0 ] && enter "$1" grep -q VERSION_CODENAME=bookworm /etc/os-release; then
    fail "the sshd of bookworm does not bear a wrong clock (its sandbox ends it): make the lab with LAB_SUITE=trixie"
  fi
  # shellcheck disable=SC2016
  enter "$1" sh -c 'if [ "$1" = 0 ]; then rm -f /etc/ld.so.preload /etc/faketimerc; exit; fi
    echo "$1" >/etc/faketimerc
    echo /usr/lib/*/faketime/libfaketime.so.1 >/etc/ld.so.preload' lab "$2"
}

fault_fill() { # the host's disk of /srv to its last byte
  enter "$1" mountpoint -q /srv || fail "$1 has no disk of its own (no loop devices on this machine): fill cannot be had"
  enter "$1" sh -c '
    fallocate -l "$(df --output=avail -B1 /srv | tail -1)" /srv/.lab-full 2>/dev/null
    dd if=/dev/zero of=/srv/.lab-full bs=4k oflag=append conv=notrunc 2>/dev/null
    sync /srv/.lab-full; [ "$(df --output=avail -B1 /srv | tail -1)" -eq 0 ]'
}
fault_unfill() { enter "$1" rm -f /srv/.lab-full; }
