# Node ${node_id} on Linux, as a systemd service. Run on that host, as a user who may sudo.
# State of this text: the unit passes systemd-analyze; the whole of it was not yet run on a fresh host.

# 1. Python 3.11 or newer with venv (Debian, Ubuntu: sudo apt-get install -y python3 python3-venv), an account without
#    login, and the wheel of the release that the Edge runs (a deploy keeps it in build/<env>-runtime/dist/<release>/)
sudo useradd --system --home-dir ${root} --shell /usr/sbin/nologin ${user}
sudo install -d -o root -g ${user} -m 0750 ${root}
sudo install -d -o ${user} -g ${user} -m 0700 ${root}/state
sudo python3 -m venv ${root}/venv
sudo ${root}/venv/bin/pip install ${wheel}

# 2. The token: copied from the Edge's host as a file, never typed into a command line
scp "EDGE-HOST:${token_file}" node.token
sudo install -o ${user} -g ${user} -m 0600 node.token ${root}/node.token && rm node.token

# 3. ${root}/node.yaml
sudo tee ${root}/node.yaml >/dev/null <<'END'
${node_yaml}END

# 4. ${service_path}
sudo tee ${service_path} >/dev/null <<'END'
${service}END
sudo systemctl daemon-reload
sudo systemctl enable --now iop-node

# 5. See it
systemctl status iop-node --no-pager
journalctl -u iop-node -n 20 --no-pager
