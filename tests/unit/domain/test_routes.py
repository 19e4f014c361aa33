"""Who may serve which request."""

from iop.domain.fleet import Fleet, Node, Provider
from iop.domain.line import Request
from iop.domain.routes import Routes


def _routes() -> Routes:
    fleet = Fleet()
    fleet.providers = {name: Provider(name, Node("n"), 1) for name in "abc"}
    fleet.providers["c"].removing = True
    routes = Routes(fleet)
    routes.configure({"m": ("b", "a", "c"), "other": ("b",), "nobody": ()})
    return routes


def _request(model: str = "m", **options: object) -> Request:
    return Request("r", model, 1, 0.0, 9.0, **options)  # type: ignore[arg-type]


def _names(request: Request) -> str:
    return "".join(provider.id for provider in _routes().candidates(request))


def test_a_model_is_served_by_its_declared_providers_in_their_order() -> None:
    """Removed ones, unknown models and models without a provider give nobody."""
    assert [_names(_request(model)) for model in ("m", "other", "nobody", "unknown")] == ["ba", "b", "", ""]


def test_a_named_provider_is_the_only_one() -> None:
    """An owner must serve the model, a check need not; a provider that is gone is nobody."""
    assert [_names(_request("other", only=name)) for name in "abc"] == ["", "b", ""]
    assert [_names(_request("other", only=name, is_check=True)) for name in "abcx"] == ["a", "b", "", ""]


def test_who_failed_a_request_is_no_candidate_of_it() -> None:
    """Whether it is one of many or the only one."""
    assert _names(_request(failures={"b": "reset"})) == "a"
    assert _names(_request(only="a", failures={"a": "reset"})) == ""


def test_why_nobody_is_left_is_told() -> None:
    """The provider, the model, the response's owner is gone, or all were tried."""
    asked = (
        _request("m", only="x", is_check=True), _request("unknown"), _request("m", only="x"),
        _request(failures={"a": "reset"}),
    )  # fmt: skip
    assert [_routes().nobody_left(request).code for request in asked] == [
        "not_found", "model_not_found", "previous_response_not_found", "upstream_unreachable",
    ]  # fmt: skip
