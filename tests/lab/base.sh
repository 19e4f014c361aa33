# The tools of the lab and its base root folder; sourced by lab.sh.
# shellcheck shell=bash

# command -> Debian package; what is missing is installed, so a fresh machine needs nothing but apt
TOOLS="mmdebstrap:mmdebstrap systemd-nspawn:systemd-container ip:iproute2 nft:nftables ssh:openssh-client
 ssh-keygen:openssh-client mkfs.ext4:e2fsprogs unshare:util-linux nsenter:util-linux flock:util-linux setsid:util-linux
 mount:mount losetup:mount python3:python3"

PACKAGES=systemd,systemd-sysv,udev,dbus,dbus-user-session,libpam-systemd,openssh-server,sudo
PACKAGES=$PACKAGES,python3,python3-venv,ca-certificates,iproute2,procps,libfaketime
RECIPE=2 # one more whenever customize() changes what is in the base

# Install what is missing; exit 3 where that cannot be done.
tools() {
  local pair missing=() packages=()
  for pair in $TOOLS; do
    command -v "${pair%%:*}" >/dev/null && continue
    missing+=("${pair%%:*}")
    [[ " ${packages[*]-} " == *" ${pair#*:} "* ]] || packages+=("${pair#*:}")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null || cannot "it lacks ${missing[*]}, and there is no apt-get to install them"
  say "installing ${packages[*]} (for ${missing[*]})"
  apt-get update -qq >&2 || cannot "it lacks ${missing[*]}, and apt-get update failed"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
    cannot "it lacks ${missing[*]}, and apt-get could not install ${packages[*]}"
  hash -r
  for pair in $TOOLS; do
    command -v "${pair%%:*}" >/dev/null || cannot "${pair%%:*} is still missing after installing ${pair#*:}"
  done
}

# Where Debian comes from: LAB_MIRROR, else the mirror of this machine. No host is named here.
mirror() {
  local codename uri
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  # shellcheck disable=SC2016 # apt-get expands these itself
  uri=${LAB_MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v release="$codename" '$2 == release { print $1; exit }')}
  [ -n "$uri" ] || fail "no Debian mirror found in apt's lists: name one, as in LAB_MIRROR=http://…/debian $ME up"
  echo "$uri"
}

# The base root folders, made once per recipe and kept in the cache: $BASE, about half a minute and 200 MB; with LAB_WIN also
# $WINE_BASE, some minutes and 2 GB.
base() {
  make_base BASE "$SUITE" "$PACKAGES" "$RECIPE"
  if [ -n "${LAB_WIN:-}" ]; then make_base WINE_BASE "$SUITE-wine" "$WINE_PACKAGES" "$RECIPE.$WINE_RECIPE"; fi
}

make_base() { # VARIABLE NAME PACKAGES RECIPE: the variable becomes the path of a base that is there
  local path
  path=$CACHE/$2-$(echo "$3 $4" | sha256sum | cut -c1-12)
  printf -v "$1" %s "$path"
  [ -d "$path" ] && return 0
  mkdir -p "$CACHE"
  exec 8>"$CACHE/lock"
  flock 8 # another checkout may be making the same one
  if [ ! -d "$path" ]; then
    say "making a base, once: $path"
    [ -d "$path.debian" ] || debian "$path.debian" "$3"
    [ "$1" = BASE ] || add_windows "$path.debian"
    mv "$path.debian" "$path"
    say "base made: $(du -sh "$path" | cut -f1)"
  fi
  exec 8>&-
}

debian() { # ROOT PACKAGES: whole or not there
  local uri
  uri=$(mirror)
  rm -rf "$1.part"
  mmdebstrap -q --variant=minbase --format=directory --include="$2" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --customize-hook="$HERE/lab.sh customize-base \"\$1\"" \
    "$SUITE" "$1.part" "deb $uri $SUITE main" >&2 || fail "mmdebstrap could not make $1 from $uri"
  mv "$1.part" "$1"
}

# What every host of the lab has beyond Debian's packages (mmdebstrap calls this with the new root folder).
customize() {
  local root=$1 timer
  rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/etc/apt/sources.list"
  : >"$root/etc/machine-id"
  for timer in apt-daily apt-daily-upgrade e2scrub_all fstrim dpkg-db-backup; do
    ln -sf /dev/null "$root/etc/systemd/system/$timer.timer"
  done
  # for `lab.sh clock`: only the time of day is moved, and only for what is started under it
  mkdir -p "$root/etc/systemd/system.conf.d"
  printf '[Manager]\nDefaultEnvironment=FAKETIME_DONT_FAKE_MONOTONIC=1\n' >"$root/etc/systemd/system.conf.d/lab.conf"
  echo FAKETIME_DONT_FAKE_MONOTONIC=1 >>"$root/etc/environment"
  # the account that deploys; on a real host its sudo is one's own affair: only playbooks/bootstrap.yml needs root
  chroot "$root" useradd --create-home --shell /bin/bash lab
  printf '%s\n' 'lab ALL=(ALL) NOPASSWD: ALL' 'Defaults env_keep += "FAKETIME_DONT_FAKE_MONOTONIC"' >"$root/etc/sudoers.d/lab"
  chmod 440 "$root/etc/sudoers.d/lab"
}
