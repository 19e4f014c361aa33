"""Release folders on a host: stage, activate, roll back. Standard library only; imports nothing of `iop`."""
