"""Windows' job objects by way of ctypes. Not run on a real Windows yet: tests use a stand-in for kernel32."""

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

_KILL_ON_JOB_CLOSE = 0x2000
_EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation
_ACCOUNTING = 1  # JobObjectBasicAccountingInformation
_SET_QUOTA_AND_TERMINATE = 0x0100 | 0x0001
_EXIT_CODE = 1


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("per_process_user_time_limit", ctypes.c_int64),
        ("per_job_user_time_limit", ctypes.c_int64),
        ("limit_flags", ctypes.c_uint32),
        ("minimum_working_set_size", ctypes.c_size_t),
        ("maximum_working_set_size", ctypes.c_size_t),
        ("active_process_limit", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("basic", _BasicLimits),
        ("io_counters", ctypes.c_uint64 * 6),
        ("process_memory_limit", ctypes.c_size_t),
        ("job_memory_limit", ctypes.c_size_t),
        ("peak_process_memory_used", ctypes.c_size_t),
        ("peak_job_memory_used", ctypes.c_size_t),
    )


class _Accounting(ctypes.Structure):
    _fields_ = (
        ("times", ctypes.c_int64 * 4),
        ("total_page_fault_count", ctypes.c_uint32),
        ("total_processes", ctypes.c_uint32),
        ("active_processes", ctypes.c_uint32),
        ("total_terminated_processes", ctypes.c_uint32),
    )


class Kernel32(Protocol):
    """The functions of kernel32.dll that a job needs, with Windows' own names and meanings (0 = it did not work)."""

    # ruff: noqa: D102, N802 - the names are Windows' own
    def CreateJobObjectW(self, attributes: object, name: object) -> int | None: ...
    def SetInformationJobObject(self, job: int, kind: int, data: object, size: int) -> int: ...
    def QueryInformationJobObject(self, job: int, kind: int, data: object, size: int, used: object) -> int: ...
    def AssignProcessToJobObject(self, job: int, process: int) -> int: ...
    def TerminateJobObject(self, job: int, code: int) -> int: ...
    def OpenProcess(self, access: int, inherit: int, pid: int) -> int | None: ...
    def CloseHandle(self, handle: int) -> int: ...


class Job:
    """One job object, whose members end when it is closed, by us or by Windows after our end."""

    def __init__(self, kernel: Kernel32, handle: int) -> None:
        self._kernel = kernel
        self._handle = handle

    def take(self, pid: int) -> bool:
        """Put a process into the job; False when Windows refuses."""
        process = self._kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, 0, pid)
        if not process:
            return False
        try:
            return bool(self._kernel.AssignProcessToJobObject(self._handle, process))
        finally:
            self._kernel.CloseHandle(process)

    def members(self) -> int:
        """Return how many processes of the job run; 0 when it cannot be told."""
        info = _Accounting()
        if not self._kernel.QueryInformationJobObject(
            self._handle, _ACCOUNTING, ctypes.byref(info), ctypes.sizeof(info), None
        ):
            return 0
        return int(info.active_processes)

    def terminate(self) -> None:
        """End all members."""
        self._kernel.TerminateJobObject(self._handle, _EXIT_CODE)

    def close(self) -> None:
        """Close the job, which ends whatever is still in it."""
        self._kernel.CloseHandle(self._handle)


def open_job(kernel: Kernel32 | None = None) -> Job | None:
    """Return a new job that ends its members when it is closed; None where there are none to be had."""
    kernel = kernel or _kernel32()
    if kernel is None:
        return None
    handle = kernel.CreateJobObjectW(None, None)
    if not handle:
        return None
    limits = _ExtendedLimits()
    limits.basic.limit_flags = _KILL_ON_JOB_CLOSE
    if not kernel.SetInformationJobObject(handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)):
        kernel.CloseHandle(handle)
        return None
    return Job(kernel, handle)


def _kernel32() -> Kernel32 | None:
    load: Callable[..., Any] | None = getattr(ctypes, "WinDLL", None)  # Windows only
    if load is None:
        return None
    kernel = load("kernel32", use_last_error=True)
    handle = ctypes.c_void_p
    for name in ("CreateJobObjectW", "OpenProcess"):
        getattr(kernel, name).restype = handle
    kernel.CreateJobObjectW.argtypes = (handle, handle)
    kernel.OpenProcess.argtypes = (ctypes.c_uint32, ctypes.c_int, ctypes.c_uint32)
    kernel.SetInformationJobObject.argtypes = (handle, ctypes.c_int, handle, ctypes.c_uint32)
    kernel.QueryInformationJobObject.argtypes = (handle, ctypes.c_int, handle, ctypes.c_uint32, handle)
    kernel.AssignProcessToJobObject.argtypes = (handle, handle)
    kernel.TerminateJobObject.argtypes = (handle, ctypes.c_uint32)
    kernel.CloseHandle.argtypes = (handle,)
    found: Kernel32 = kernel
    return found
