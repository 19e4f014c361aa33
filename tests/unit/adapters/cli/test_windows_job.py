"""Windows' job objects against a stand-in for kernel32 (never run on a real Windows)."""

import ctypes

from iop.adapters.cli.windows_job import _kernel32, open_job


class FakeKernel:
    """Keeps the calls; a name in `fails` answers 0."""

    def __init__(self, *fails):
        self.fails = fails
        self.calls = []
        self.active = 3

    def _answer(self, name, *facts, value=1):
        self.calls.append((name, *facts))
        return 0 if name in self.fails else value

    def CreateJobObjectW(self, attributes, name):  # noqa: N802
        return self._answer("create", value=7)

    def SetInformationJobObject(self, job, kind, data, size):  # noqa: N802
        flags = ctypes.c_uint32.from_address(ctypes.addressof(data._obj) + 16).value
        return self._answer("limits", job, kind, flags, size)

    def QueryInformationJobObject(self, job, kind, data, size, used):  # noqa: N802
        ctypes.c_uint32.from_address(ctypes.addressof(data._obj) + 40).value = self.active
        return self._answer("query", job, kind, size)

    def AssignProcessToJobObject(self, job, process):  # noqa: N802
        return self._answer("assign", job, process)

    def TerminateJobObject(self, job, code):  # noqa: N802
        return self._answer("terminate", job, code)

    def OpenProcess(self, access, inherit, pid):  # noqa: N802
        return self._answer("open", access, pid, value=9)

    def CloseHandle(self, handle):  # noqa: N802
        return self._answer("close", handle)


def test_a_jobs_life():
    """Members end with the job; sizes and offsets are those of 64-bit Windows; each handle is closed once."""
    kernel = FakeKernel()
    job = open_job(kernel)
    assert job.take(42)
    assert job.members() == 3
    job.terminate()
    job.close()
    assert kernel.calls == [
        ("create",),
        ("limits", 7, 9, 0x2000, 144),
        ("open", 0x101, 42),
        ("assign", 7, 9),
        ("close", 9),
        ("query", 7, 1, 48),
        ("terminate", 7, 1),
        ("close", 7),
    ]


def test_refusals_of_windows():
    """What Windows refuses is told, and no handle is left open."""
    assert open_job(FakeKernel("create")) is None
    kernel = FakeKernel("limits")
    assert open_job(kernel) is None
    assert kernel.calls[-1] == ("close", 7)
    assert not open_job(FakeKernel("open")).take(1)
    kernel = FakeKernel("assign")
    assert not open_job(kernel).take(1)
    assert kernel.calls[-1] == ("close", 9)
    assert open_job(FakeKernel("query")).members() == 0


def test_elsewhere_there_are_none():
    """Without kernel32 there is no job."""
    assert _kernel32() is None
    assert open_job() is None
