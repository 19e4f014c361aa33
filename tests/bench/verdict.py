"""What the rules of the judge say."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be. `rule` is its word in the summary, `t` the second of the run."""

    rule: str
    t: float
    text: str

    def __str__(self) -> str:
        return f"{self.t:8.2f} s  {self.rule}: {self.text}"
