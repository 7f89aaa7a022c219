"""Rules: which match, how often, and what is refused."""

import pytest

from providers.simulator.faults import CALLS, HOST_WORDS, Faults, read_rules

SECOND = 1_000_000
OFFER = {"provider": "mock", "gpu": "RTX-4090", "vram_gb": 24.0, "price_per_hour": "0.40", "label": "gp-a"}


def put_up(*rules: dict[str, object], now: int = 0) -> Faults:
    """Faults of these rules."""
    return Faults(read_rules({"rules": list(rules)}, now))


def hits(faults: Faults, times: int, call: str = "create", now: int = 0) -> list[bool]:
    """Whether each of so many calls is hurt."""
    return [faults.on_call(call, "mock", [OFFER], now) is not None for _ in range(times)]


@pytest.mark.parametrize("call", CALLS)
def test_a_rule_hurts_once_by_default(call: str) -> None:
    """One hit, then the rule no longer matches."""
    assert hits(put_up({"on": call, "do": {"status": 500}}), 3, call) == [True, False, False]


def test_after_lets_matches_through_first() -> None:
    """after 2, times 2: two through, two hurt, then none."""
    faults = put_up({"on": "create", "after": 2, "times": 2, "do": {"status": 500}})
    assert hits(faults, 6) == [False, False, True, True, False, False]
    assert faults.show()[0]["hits"] == 2


def test_times_zero_is_always() -> None:
    """times 0 never ends."""
    assert all(hits(put_up({"on": "create", "times": 0, "do": {"status": 500}}), 50))


def test_a_window_is_open_from_the_post() -> None:
    """for_s alone means always within the window, and none after it."""
    faults = put_up({"on": "create", "for_s": 10, "do": {"status": 500}}, now=5 * SECOND)
    assert hits(faults, 3, now=14 * SECOND) == [True, True, True]
    assert hits(faults, 1, now=15 * SECOND) == [False]


def test_a_window_with_times_ends_by_either() -> None:
    """times still counts inside a window."""
    assert hits(put_up({"on": "create", "for_s": 10, "times": 1, "do": {"status": 500}}), 2) == [True, False]


def test_the_first_match_wins_and_a_spent_one_lets_the_next_match() -> None:
    """429 once, then 500 once."""
    faults = put_up({"on": "create", "do": {"status": 429}}, {"on": "create", "do": {"status": 500}})
    seen = [faults.on_call("create", "mock", [OFFER], 0) for _ in range(3)]
    assert [rule and rule.do["status"] for rule in seen] == [429, 500, None]


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ({"gpu": "RTX-4090"}, True),
        ({"gpu": "H100"}, False),
        ({"vram_gb": 24}, True),
        ({"price_per_hour": 0.4}, True),
        ({"price_per_hour": "0.4"}, True),
        ({"label": "gp-a", "gpu": "RTX-4090"}, True),
        ({"label": "gp-b"}, False),
        ({"region": "r1"}, False),
    ],
)
def test_match_looks_at_fields(match: dict[str, object], fits: bool) -> None:
    """Every field must have the value; amounts and numbers compare as numbers."""
    assert hits(put_up({"on": "create", "match": match, "do": {"status": 500}}), 1) == [fits]


def test_another_provider_is_not_hurt() -> None:
    """provider names whose face is hurt."""
    faults = put_up({"on": "create", "provider": "vast", "do": {"status": 500}})
    assert hits(faults, 1) == [False]
    assert faults.on_call("create", "vast", [OFFER], 0) is not None


def test_states_go_on_and_the_last_stays() -> None:
    """One word per answer; a rule with states has no end of its own."""
    faults = put_up({"on": "get", "do": {"states": ["a", "b"]}})
    words = []
    for _ in range(4):
        rule = faults.on_call("get", "mock", [OFFER], 0)
        assert rule is not None
        words.append(rule.word())
    assert words == ["a", "b", "b", "b"]


def test_host_words_count_machines() -> None:
    """after 1, times 1: the second machine is hurt, however often it is looked at, and no other."""
    faults = put_up({"on": "boot", "after": 1, "times": 1, "do": {"never_boots": True}})
    looks = [faults.on_machine("boot", "mock", {"id": name}, 0) is not None for name in ("a", "a", "b", "b", "c", "a")]
    assert looks == [False, False, True, True, False, False]
    assert faults.show()[0]["hits"] == 1


def test_counts_survive_a_dump() -> None:
    """A loaded rule goes on where it was."""
    faults = put_up({"on": "create", "times": 2, "do": {"status": 500}})
    hits(faults, 1)
    assert hits(Faults.load(faults.dump()), 2) == [True, False]


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"on": "create", "do": {"statsu": 500}}, "unknown deed 'statsu'"),
        ({"on": "create", "do": {}, "time": 3}, "unknown field 'time'"),
        ({"on": "creat", "do": {}}, "on is 'creat'"),
        ({"on": "create", "match": {"colour": 1}, "do": {}}, "unknown field 'colour'"),
        ({"on": "delete", "match": {"vram_gb": 1}, "do": {}}, "unknown field 'vram_gb'"),
        ({"on": "create", "do": {"status": "500"}}, "status is '500'"),
        ({"on": "create", "do": {"delay_before_s": -1}}, "delay_before_s is -1"),
        ({"on": "create", "do": {"states": []}}, "states is []"),
        ({"on": "delete", "do": {"reborn": {"after": 1}}}, "reborn is"),
        ({"on": "boot", "do": {"status": 500}}, "status does nothing on boot"),
        ({"on": "create", "after": -1, "do": {}}, "after is a whole number"),
        ({"on": "create"}, "do is an object"),
        ("create", "a rule is an object"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_reason(rule: object, reason: str) -> None:
    """Nothing is silently ignored."""
    with pytest.raises(ValueError, match="rules\\[0\\]") as caught:
        read_rules({"rules": [rule]}, 0)
    assert reason in str(caught.value)


def test_each_word_may_stand_alone() -> None:
    """Every word of the contract is known."""
    read_rules([{"on": word, "do": {}} for word in CALLS + HOST_WORDS], 0)
