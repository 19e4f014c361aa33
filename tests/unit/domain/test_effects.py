"""The records admission hands out."""

import pytest

from iop.domain.effects import Effect, EffectType, Lease, Load, Outcome


def test_the_event_types_are_those_of_the_interface() -> None:
    """Admission makes these events under these names; direct_* and gap are the Edge's."""
    assert " ".join(EffectType) == (
        "queued granted returned ended refused expired abandoned adopted capacity provider node"
    )
    assert " ".join(Outcome) == "completed failed cancelled"


def test_an_effect_cannot_be_changed() -> None:
    """Door, feed and metrics read the same record; none can change it for the others."""
    load = Load(1, 0, 0)
    effect = Effect(EffectType.GRANTED, load, lease=Lease(1, "r", "m", "p", "n", 1, 0.0))
    for record, field in ((effect, "reason"), (load, "queued"), (effect.lease, "epoch")):
        with pytest.raises(AttributeError):
            setattr(record, field, 7)


def test_what_does_not_apply_is_none() -> None:
    """An effect names only what it is about."""
    effect = Effect(EffectType.NODE, Load(1, 0, 0), node_id="n")
    assert (effect.request_id, effect.provider_id, effect.outcome, effect.lease, effect.error) == (None,) * 5
