# The hosts themselves: network, first contents, boot, end; sourced by lab.sh.
# shellcheck shell=bash
declare -A ADDRESS=([mac]=$NET.11 [gx10]=$NET.12 [onexplayer]=$NET.13)

python() { if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else command -v python3; fi; }

# Folders, the network, the key, and what an ssh client must know.
begin() {
  local one
  mkdir -p "$DIR" "$STATE" "$RUN"
  chmod 700 "$STATE" "$RUN"
  printf '%s\n' "$CHECKOUT" >"$DIR/checkout.new"
  mv "$DIR/checkout.new" "$DIR/checkout" # whole or not there: clear_stale of another lab reads it
  : >"$STATE/known_hosts"
  ssh-keygen -q -t ed25519 -N '' -C lab -f "$STATE/id"
  ssh_config >"$STATE/ssh_config"
  ip netns add "$CTL"
  ip -n "$CTL" link set lo up
  ip -n "$CTL" link add br0 type bridge
  ip -n "$CTL" addr add $NET.1/24 dev br0
  ip -n "$CTL" link set br0 up
  for one in "${HOSTS[@]}"; do
    ip netns add "$PREFIX-$one"
    ip -n "$PREFIX-$one" link set lo up
    ip -n "$CTL" link add "v-$one" type veth peer name eth0 netns "$PREFIX-$one"
    ip -n "$CTL" link set "v-$one" master br0 up
    ip -n "$PREFIX-$one" addr add "${ADDRESS[$one]}/24" dev eth0
    ip -n "$PREFIX-$one" link set eth0 up
  done
}

# One OpenSSH configuration for Ansible, fab, forwards and people. The ProxyCommand opens the connection inside the lab's
# network and hands it over; what runs outside needs nothing else.
ssh_config() {
  local one
  echo "# written by $ME up; valid until $ME down"
  for one in "${HOSTS[@]}"; do printf 'Host %s\n  HostName %s\n' "$one" "${ADDRESS[$one]}"; done
  printf 'Host onexplayer-windows\n  HostName %s\n  Port 2222\n' "${ADDRESS[onexplayer]}"
  cat <<END
Host *
  User lab
  IdentityFile "$STATE/id"
  IdentitiesOnly yes
  UserKnownHostsFile "$STATE/known_hosts"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
  LogLevel ERROR
  ConnectTimeout 10
  ServerAliveInterval 3
  ServerAliveCountMax 3
  ProxyCommand nsenter --net=/run/netns/$CTL -- $(python) -IS '$HERE/relay.py' --pass-fd %h %p
  ProxyUseFdpass yes
END
}

# What a host has before its first boot goes into the upper layer of its overlay, and a disk of its own holds /srv.
seed() {
  local one=$1 upper=$DIR/$1/upper other
  mkdir -p "$DIR/$one"/{upper,work,root,disk} "$upper"/{etc/ssh,home/lab/.ssh,etc/systemd/system/multi-user.target.wants}
  chmod 755 "$upper"
  chmod 700 "$upper/home/lab" "$upper/home/lab/.ssh"
  ssh-keygen -q -t ed25519 -N '' -C "root@$one" -f "$upper/etc/ssh/ssh_host_ed25519_key"
  echo "${ADDRESS[$one]},$one $(cut -d' ' -f1,2 "$upper/etc/ssh/ssh_host_ed25519_key.pub")" >>"$STATE/known_hosts"
  cp "$STATE/id.pub" "$upper/home/lab/.ssh/authorized_keys"
  chown -R 1000:1000 "$upper/home/lab"
  echo "$one" >"$upper/etc/hostname"
  {
    echo "127.0.0.1 localhost"
    echo "127.0.1.1 $one"
    for other in "${HOSTS[@]}"; do echo "${ADDRESS[$other]} $other"; done
  } >"$upper/etc/hosts"
  truncate -s 6G "$DIR/$one/disk.img" # sparse: it takes what is written
  mkfs.ext4 -q -m 0 -L srv "$DIR/$one/disk.img"
  printf '%s\n' "$BASE" >"$DIR/$one/base"
  if [ "$one" = mac ]; then seed_launchd "$upper"; fi
  if [ "$one" = onexplayer ] && [ -n "${LAB_WIN:-}" ]; then
    printf '%s\n' "$WINE_BASE" >"$DIR/$one/base"
    seed_windows "$upper"
  fi
}

# The Mac's service manager: a strict stand-in for launchctl, and a unit that loads /Library/LaunchDaemons at boot.
seed_launchd() {
  mkdir -p "$1/usr/bin" "$1/Library/LaunchDaemons"
  install -m 755 "$HERE/launchctl.py" "$1/usr/bin/launchctl"
  install -m 644 "$HERE/lab-launchd.service" "$1/etc/systemd/system/lab-launchd.service"
  ln -s ../lab-launchd.service "$1/etc/systemd/system/multi-user.target.wants/lab-launchd.service"
}

# Boot. In a mount namespace of its own stand a pure cgroup2 tree (systemd needs it), nspawn's /run/systemd, the overlay and
# the disk; all of them end with the starter. It first enters the host's own cgroup, so that cgroup.freeze and cgroup.kill
# there mean exactly this host. A reboot from inside ends nspawn with code 133, and it is started again.
start() {
  # shellcheck disable=SC2016
  setsid unshare --mount --propagation private bash -c '
    set -e
    prefix=$1 one=$2 base=$3 folder=$4
    umount -R /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir -p "/sys/fs/cgroup/$prefix-$one"
    echo $$ >"/sys/fs/cgroup/$prefix-$one/cgroup.procs"
    mkdir -p /run/systemd
    mount -t tmpfs -o mode=755 tmpfs /run/systemd
    mount -t overlay overlay -o "lowerdir=$base,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
    srv=
    if mount -o loop "$folder/disk.img" "$folder/disk"; then srv=--bind=$folder/disk:/srv; fi
    echo $$ >"$folder/pid"
    code=133
    while [ $code -eq 133 ]; do
      code=0
      env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin systemd-nspawn --quiet --boot --directory="$folder/root" $srv \
        --register=no --keep-unit --machine="$prefix-$one" --hostname="$one" \
        --network-namespace-path="/run/netns/$prefix-$one" \
        --link-journal=no --resolv-conf=off --timezone=off --console=pipe || code=$?
    done
  ' lab "$PREFIX" "$1" "$(cat "$DIR/$1/base")" "$DIR/$1" </dev/null >>"$DIR/$1/console.log" 2>&1 8>&- 9>&- &
}

# Its systemd has finished booting, and a login by ssh works.
wait_up() {
  local one=$1 tries state=
  for tries in $(seq 300); do
    state=$(enter "$one" systemctl is-system-running 2>/dev/null) || true
    case $state in
      running | degraded) ssh -F "$STATE/ssh_config" "$one" true 2>"$DIR/$one/ssh.log" && break ;;
    esac
    [ "$tries" -lt 300 ] || {
      tail -20 "$DIR/$one/console.log" "$DIR/$one/ssh.log" >&2
      fail "$one did not come up within 30 s (state: ${state:-none}); its console and ssh's last words are above"
    }
    sleep 0.1
  done
  if [ "$state" = degraded ]; then
    say "$one is degraded:"
    enter "$one" systemctl --failed --no-legend >&2
  fi
}

# The starter's pid; fails when the host is off. A dead process that nobody has reaped yet counts as gone.
starter() {
  local pid
  pid=$(cat "$DIR/$1/pid" 2>/dev/null) || return 1
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = bash ] && ! grep -q '^State:.Z' "/proc/$pid/status" && echo "$pid"
}

child() { # PID: its first child
  local pid
  pid=$(cut -d' ' -f1 "/proc/$1/task/$1/children" 2>/dev/null) && [ -n "$pid" ] && echo "$pid"
}

# PID of the host's own PID 1 as this machine sees it: starter, nspawn, init.
leader() {
  local pid
  pid=$(starter "$1") && pid=$(child "$pid") && child "$pid"
}

enter() {
  local one=$1 pid
  shift
  pid=$(leader "$one") || fail "$one is off: run $ME boot $one"
  nsenter --target "$pid" --all -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"
}

# End a host: TERM is an orderly shutdown, KILL a power loss. Only what is in its own cgroup is ended.
halt() {
  local one=$1 how=$2 group=$CGROUPS/$PREFIX-$1 pid tries
  if [ -d "$group" ]; then echo 0 >"$group/cgroup.freeze"; fi
  if [ "$how" = TERM ] && pid=$(starter "$one") && pid=$(child "$pid"); then
    kill -TERM "$pid" || true # nspawn hands it to its init as a poweroff
    for tries in $(seq 100); do
      starter "$one" >/dev/null || break
      sleep 0.1
    done
  fi
  if [ -d "$group" ]; then
    echo 1 >"$group/cgroup.kill"
    for tries in $(seq 100); do
      grep -q 'populated 0' "$group/cgroup.events" && break
      sleep 0.05
    done
    find "$group" -depth -type d -exec rmdir {} \;
  fi
  if pid=$(starter "$one"); then fail "$one: its starter (pid $pid) is still there after a kill"; fi
  for tries in $(seq 100); do # its loop device goes with the last user of its mount
    [ -z "$(losetup --associated "$DIR/$one/disk.img" 2>/dev/null)" ] && break
    sleep 0.05
  done
  rm -f "$DIR/$one/pid"
}

# End the ssh masters that Ansible keeps for some seconds: they would hold a dead host's connection.
end_masters() {
  local socket
  for socket in "$RUN"/*; do
    if [ -S "$socket" ]; then ssh -o ControlPath="$socket" -O exit lab 2>/dev/null || rm -f "$socket"; fi
  done
}

down_all() {
  local one jobs=()
  end_masters
  for one in "${HOSTS[@]}"; do
    halt "$one" TERM &
    jobs+=($!)
  done
  for one in "${jobs[@]}"; do wait "$one"; done
  for one in "${HOSTS[@]/#/$PREFIX-}" "$CTL"; do ip netns del "$one" 2>/dev/null || true; done
  rm -rf "$DIR" "$RUN" "$STATE"
  rmdir "$(dirname "$DIR")" 2>/dev/null || true
}

# Labs of checkouts that are gone cannot be taken down by their own script any more.
clear_stale() {
  local file
  for file in "$(dirname "$DIR")"/*/checkout; do
    [ -e "$file" ] || continue
    [ -d "$(cat "$file")" ] && continue
    say "removing the lab of $(cat "$file"), which is gone"
    (
      DIR=$(dirname "$file")
      PREFIX=$(basename "$DIR")
      STATE=$DIR/state RUN=/run/iop-lab/$PREFIX CTL=$PREFIX-ctl
      down_all
      rm -f "/run/iop-lab/$PREFIX.lock"
    )
  done
}

status() {
  local one state group
  for one in "${HOSTS[@]}"; do
    group=$CGROUPS/$PREFIX-$one
    if [ ! -e "/run/netns/$PREFIX-$one" ]; then
      state="not there (make lab)"
    elif ! starter "$one" >/dev/null; then
      state="off ($ME boot $one)"
    elif [ "$(cat "$group/cgroup.freeze" 2>/dev/null)" = 1 ]; then
      state="frozen ($ME thaw $one)"
    elif ip -n "$CTL" link show "v-$one" | grep -q 'state DOWN'; then
      state="cut off ($ME restore $one)"
    else
      state=$(enter "$one" systemctl is-system-running 2>/dev/null) || true
    fi
    printf '%-11s %-11s %s\n' "$one" "${ADDRESS[$one]}" "${state:-booting}"
  done
}
