# Node ${node_id} on Windows, as a scheduled task under LOCAL SERVICE. Run on that machine, in PowerShell as administrator.
# State of this text: NOT yet run on a real Windows; the task's XML was read by an XML parser only.

# 1. Python 3.11 or newer for all users (python.org), a folder that only administrators may change, and the wheel of the
#    release that the Edge runs (a deploy keeps it in build/<env>-runtime/dist/<release>/)
New-Item -ItemType Directory -Force ${root} | Out-Null
icacls ${root} /inheritance:r /grant:r '*S-1-5-32-544:(OI)(CI)F' '*S-1-5-18:(OI)(CI)F' '*S-1-5-19:(OI)(CI)RX'
New-Item -ItemType Directory -Force ${root}\state, ${root}\logs | Out-Null
icacls ${root}\state /grant '*S-1-5-19:(OI)(CI)M'
icacls ${root}\logs /grant '*S-1-5-19:(OI)(CI)M'
py -3 -m venv ${root}\venv
& ${root}\venv\Scripts\pip.exe install ${wheel}

# 2. The token: copied from the Edge's host as a file, never typed into a command line
scp "EDGE-HOST:${token_file}" ${root}\node.token
icacls ${root}\node.token /inheritance:r /grant:r '*S-1-5-32-544:F' '*S-1-5-19:R'

# 3. ${root}\node.yaml
@'
${node_yaml}'@ | Set-Content -Encoding ascii ${root}\node.yaml

# 4. ${service_path}
$$task = @'
${service}'@
Register-ScheduledTask -TaskName iop-node -Xml $$task -Force
Start-ScheduledTask -TaskName iop-node

# 5. See it
Get-ScheduledTask -TaskName iop-node
Get-Content ${root}\logs\node.log -Tail 20
