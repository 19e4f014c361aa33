# The folder and the scheduled tasks of iop on this host. Run in PowerShell as administrator:
#   powershell -NoProfile -ExecutionPolicy Bypass -File register.ps1              as often as you like
#   powershell -NoProfile -ExecutionPolicy Bypass -File register.ps1 -Power       and keep the machine awake
#   powershell -NoProfile -ExecutionPolicy Bypass -File register.ps1 -Remove      take the tasks away again
#   powershell -NoProfile -ExecutionPolicy Bypass -File register.ps1 -Remove -Purge    and the folder
# State of this text: NOT yet run on a real Windows.
param([switch]$$Power, [switch]$$Remove, [switch]$$Purge)
$$ErrorActionPreference = 'Stop'
$$root = '${root}'
$$units = @(${units})

# icacls and schtasks say in their exit code alone what went wrong
function Invoke-Checked([string]$$Program, [string[]]$$Arguments) {
    & $$Program @Arguments
    if ($$LASTEXITCODE -ne 0) { throw "$$Program $$Arguments failed with exit code $$LASTEXITCODE" }
}

$$me = New-Object Security.Principal.WindowsPrincipal([Security.Principal.WindowsIdentity]::GetCurrent())
if (-not $$me.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
    throw 'this needs a PowerShell that was started as administrator'
}

if ($$Remove) {
    foreach ($$unit in $$units) {
        if (Get-ScheduledTask -TaskName $$unit -ErrorAction SilentlyContinue) {
            Stop-ScheduledTask -TaskName $$unit
            Unregister-ScheduledTask -TaskName $$unit -Confirm:$$false
        }
        Remove-Item -Force -ErrorAction SilentlyContinue "$$root\shared\run\$$unit.xml", "$$root\shared\run\$$unit.cmd"
    }
    # what a task started may outlive it
    Get-CimInstance Win32_Process | Where-Object { $$_.CommandLine -like "*iop-release=$$root\releases\*" } |
        ForEach-Object { Stop-Process -Id $$_.ProcessId -Force -ErrorAction SilentlyContinue }
    Remove-Item -Force -ErrorAction SilentlyContinue "$$root\shared\definitions.json"
    if ($$Purge -and (Test-Path $$root)) { Remove-Item -Recurse -Force $$root }
    Write-Output "removed: $$($$units -join ', ')"
    exit 0
}

# For administrators and the system; the services' account, LOCAL SERVICE, reads all and writes two folders
foreach ($$folder in '', '\releases', '\incoming', '\shared', '\shared\run', '\shared\state', '\shared\logs', '\shared\tokens') {
    New-Item -ItemType Directory -Force "$$root$$folder" | Out-Null
}
$$full = '*S-1-5-32-544:(OI)(CI)F', '*S-1-5-18:(OI)(CI)F'
Invoke-Checked icacls (@($$root, '/inheritance:r', '/grant:r') + $$full + '*${service}:(OI)(CI)RX')
foreach ($$folder in 'state', 'logs') {
    Invoke-Checked icacls @("$$root\shared\$$folder", '/grant:r', '*${service}:(OI)(CI)M')
}

foreach ($$unit in $$units) {
    Copy-Item -Force "$$PSScriptRoot\$$unit.xml" "$$root\shared\run\$$unit.xml"
    Invoke-Checked schtasks @('/Create', '/TN', $$unit, '/XML', "$$root\shared\run\$$unit.xml", '/F')
}
Copy-Item -Force "$$PSScriptRoot\definitions.json" "$$root\shared\definitions.json"

if ($$Power) {
    Invoke-Checked powercfg @('/change', 'standby-timeout-ac', '0')
    Invoke-Checked powercfg @('/change', 'hibernate-timeout-ac', '0')
}
Write-Output "registered: $$($$units -join ', ')"
