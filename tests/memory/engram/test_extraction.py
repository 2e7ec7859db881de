"""Rule extraction on hand-written cases: precise first, and what is missed is told."""

import sys

from tests.memory.engram.cases import Case, extracted, meets, read_cases


def wrong_and_missed(case: Case) -> tuple[list[str], list[str]]:
    claims = extracted(case)
    wrong = [
        f"{claim.kind} {claim.subject}: {claim.predicate} = {claim.object} from {claim.valid_at:%Y-%m-%d}"
        for claim in claims
        if not any(meets(claim, one) for one in case.expected)
    ]
    missed = [str(one) for one in case.expected if not any(meets(claim, one) for claim in claims)]
    return wrong, missed


def test_the_rules_are_precise_on_hand_written_cases() -> None:
    cases = read_cases()
    assert len(cases) >= 150
    assert sum(not case.expected for case in cases) >= 50
    found = sum(len(extracted(case)) for case in cases)
    expected = sum(len(case.expected) for case in cases)
    results = {case: wrong_and_missed(case) for case in cases}
    wrong = sum(len(one) for one, _ in results.values())
    missed = sum(len(one) for _, one in results.values())
    for case, (more, less) in results.items():
        if more or less:
            sys.stdout.write(f"{case.said!r}: wrong {more}, missed {less}\n")
    sys.stdout.write(f"{len(cases)} cases: precision {1 - wrong / found:.3f}, recall {1 - missed / expected:.3f}\n")
    assert 1 - wrong / found >= 0.9
    assert 1 - missed / expected >= 0.8
