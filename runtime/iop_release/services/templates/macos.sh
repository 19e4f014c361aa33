# Node ${node_id} on macOS, as a launchd daemon that runs under your own account (so that a CLI agent finds its login).
# Run on that Mac, as a user who may sudo.
# State of this text: NOT yet run on a real Mac; the plist was read by Python's plistlib only.

# 1. Python 3.11 or newer (python.org or Homebrew; the one of Xcode is older), and the wheel of the release that the
#    Edge runs (a deploy keeps it in build/<env>-runtime/dist/<release>/)
sudo install -d -o "$$(id -un)" -m 0755 ${root}
install -d -m 0700 ${root}/state ${root}/logs
python3 -m venv ${root}/venv
${root}/venv/bin/pip install ${wheel}

# 2. The token: copied from the Edge's host as a file, never typed into a command line
scp "EDGE-HOST:${token_file}" ${root}/node.token && chmod 600 ${root}/node.token

# 3. ${root}/node.yaml
cat > ${root}/node.yaml <<'END'
${node_yaml}END

# 4. ${service_path}
sudo tee ${service_path} >/dev/null <<END
${service}END
sudo launchctl bootstrap system ${service_path}

# 5. See it (a changed plist: sudo launchctl bootout system/iop-node, wait until print fails, bootstrap again)
sudo launchctl print system/iop-node | head -20
tail -20 ${root}/logs/node.log
