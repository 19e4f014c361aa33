"""What is counted from effects, and under which names."""

from iop.config.models import EdgeConfig
from iop.domain.effects import Effect, EffectType, Lease, Load, Outcome
from iop.edge.tallies import BOUNDS, Durations, Tallies, known_code
from tests.fakes.edge_under_test import config

TOTALS = Load(2, 1, 0)
LEASE = Lease(id=7, request_id="r1", model="m", provider_id="p1", node_id="n1", epoch=1, waited=0.3)


class Clock:
    """Time that stands still until it is told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def _tallies(**changes: object) -> tuple[Tallies, Clock]:
    clock = Clock()
    tallies = Tallies(clock)
    tallies.declare(EdgeConfig.model_validate(config(**changes)))
    return tallies, clock


def _effect(kind: EffectType, **facts: object) -> Effect:
    lease = facts.pop("lease", LEASE)
    assert isinstance(lease, Lease)
    return Effect(kind, TOTALS, "r1", lease.model, lease.provider_id, "n1", lease=lease)._replace(**facts)


def test_a_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    """A bound belongs to its own bucket; what is longer than all falls into the last one."""
    durations = Durations()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] + 0.001, BOUNDS[-1] + 1):
        durations.add(seconds)
    assert (durations.counts[0], durations.counts[1], durations.counts[-1], sum(durations.counts)) == (2, 1, 1, 4)
    assert durations.total == 2 * BOUNDS[0] + 0.001 + BOUNDS[-1] + 1


def test_a_grant_and_its_end_are_a_wait_a_hold_and_an_outcome() -> None:
    """The wait is the lease's; the hold runs from grant to end; the model counts one completed request."""
    tallies, clock = _tallies()
    tallies.see((_effect(EffectType.GRANTED),))
    clock.now += 4.0
    tallies.see((_effect(EffectType.ENDED, outcome=Outcome.COMPLETED),))

    model = tallies.models["m"]
    assert (model.waits.total, sum(model.waits.counts)) == (0.3, 1)
    assert (tallies.holds["p1"].total, sum(tallies.holds["p1"].counts)) == (4.0, 1)
    assert +model.ended == {"completed": 1}


def test_a_returned_grant_is_no_hold_and_no_end() -> None:
    """Its request is in line again: it ends later, somewhere else."""
    tallies, _ = _tallies()
    tallies.see((_effect(EffectType.GRANTED), _effect(EffectType.RETURNED, reason="reset")))
    assert sum(tallies.holds["p1"].counts) == 0
    assert +tallies.models["m"].ended == {}


def test_adopted_work_has_no_hold() -> None:
    """When it began is not known here; its request was another Edge's."""
    tallies, _ = _tallies()
    adopted = LEASE._replace(model="")
    tallies.see((_effect(EffectType.ADOPTED, lease=adopted),))
    tallies.see((_effect(EffectType.ENDED, lease=adopted, outcome=Outcome.CANCELLED),))
    assert sum(tallies.holds["p1"].counts) == 0


def test_who_got_no_slot_is_counted_by_how_and_why() -> None:
    """Refused and expired have a code, abandoned has none."""
    tallies, _ = _tallies()
    tallies.see(
        (
            Effect(EffectType.REFUSED, TOTALS, "r1", "m", reason="queue_full"),
            Effect(EffectType.EXPIRED, TOTALS, "r2", "m", reason="queue_timeout"),
            Effect(EffectType.ABANDONED, TOTALS, "r3", "m"),
            Effect(EffectType.QUEUED, TOTALS, "r4", "m"),
        )
    )
    assert +tallies.models["m"].ended == {"refused": 1, "expired": 1, "abandoned": 1}
    assert tallies.models["m"].codes == {"queue_full": 1, "queue_timeout": 1}


def test_names_from_outside_make_no_series() -> None:
    """Models, providers and nodes that the config does not name are not counted; strange codes are all one."""
    tallies, _ = _tallies()
    stranger = LEASE._replace(model="made-up", provider_id="made-up")
    tallies.see((_effect(EffectType.GRANTED, lease=stranger),))
    tallies.see((_effect(EffectType.ENDED, lease=stranger, outcome=Outcome.FAILED),))
    tallies.see((Effect(EffectType.REFUSED, TOTALS, "r1", "made-up", reason="model_not_found"),))
    tallies.see_direct("made-up", 1.0)
    tallies.see_first_byte("made-up", 1.0)
    tallies.see_first_byte(None, 1.0)
    tallies.see_answer("pool", 418, "my very own code")

    assert (set(tallies.models), set(tallies.holds), set(tallies.direct)) == ({"m", "agent"}, {"p1"}, {"n1"})
    assert tallies.errors["other"] == 1
    assert tallies.answers == {("pool", "4xx"): 1}
    assert known_code("queue_full") == "queue_full"


def test_what_a_refresh_removes_is_forgotten_and_the_rest_goes_on() -> None:
    """Series do not pile up over the life of an Edge; a hold that outlives its provider's name is let go."""
    tallies, _ = _tallies()
    tallies.see((_effect(EffectType.GRANTED), _effect(EffectType.GRANTED, lease=LEASE._replace(id=8))))
    tallies.see((_effect(EffectType.ENDED, outcome=Outcome.COMPLETED),))
    changed = config(models=[{"id": "m", "providers": {"p1": "x"}}, {"id": "new", "providers": {"p1": "y"}}])
    tallies.declare(EdgeConfig.model_validate(changed))
    assert (set(tallies.models), +tallies.models["m"].ended) == ({"m", "new"}, {"completed": 1})

    changed["nodes"][0]["providers"] = [changed["nodes"][0]["providers"][0] | {"id": "p2"}]
    changed["models"] = [{"id": "new", "providers": {"p2": "y"}}]
    tallies.declare(EdgeConfig.model_validate(changed))
    tallies.see((_effect(EffectType.ENDED, lease=LEASE._replace(id=8), outcome=Outcome.COMPLETED),))
    assert (set(tallies.models), set(tallies.holds)) == ({"new"}, {"p2"})
    assert tallies._begun == {}


def test_a_direct_run_and_an_answer_are_counted() -> None:
    """By node, and by route and class of the status; a client that got nothing counts as none."""
    tallies, _ = _tallies()
    tallies.see_direct("n1", 2.0)
    tallies.see_answer("direct", 200, None)
    tallies.see_answer("pool", None, None)
    tallies.see_answer("pool", 429, "queue_full")
    tallies.see_first_byte("m", 0.5)

    assert tallies.direct["n1"].total == 2.0
    assert tallies.answers == {("direct", "2xx"): 1, ("pool", "none"): 1, ("pool", "4xx"): 1}
    assert +tallies.errors == {"queue_full": 1}
    assert tallies.models["m"].first_bytes.total == 0.5
