from datetime import datetime
from pathlib import Path

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.benchmarks.longmemeval.quirks import LongMemEvalQuirks
from longmemeval.benchmarks.stats import DatasetStats, TypeCount, dataset_stats
from tests.benchmarks.longmemeval.test_loader import make_record, write


def stats_of(tmp_path: Path, *records: object) -> DatasetStats:
    return dataset_stats(LongMemEvalDataset(write(tmp_path / "data.json", *records)))


def tidy(question_id: str, **changes: object) -> dict[str, object]:
    """A record without any quirk."""
    tidy_parts: dict[str, object] = {
        "haystack_dates": ["2023/05/21 (Sun) 09:30", "2023/05/22 (Mon) 10:00"],
        "haystack_session_ids": ["answer_b", "late"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I moved to Oslo", "has_answer": True},
                {"role": "assistant", "content": "Oh"},
            ],
            [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
        ],
    }
    return make_record(question_id, **(tidy_parts | changes))


def test_a_tidy_file_has_no_quirks(tmp_path: Path) -> None:
    assert stats_of(tmp_path, tidy("q1")).quirks == LongMemEvalQuirks()


def test_counts(tmp_path: Path) -> None:
    without_haystack: dict[str, object] = {"haystack_dates": [], "haystack_session_ids": [], "haystack_sessions": []}
    stats = stats_of(
        tmp_path,
        tidy("q1"),
        make_record("q2_abs", answer=3),
        tidy("q3", question_type="knowledge-update", **without_haystack),
    )
    dataset = LongMemEvalDataset(tmp_path / "data.json")
    assert (stats.name, stats.sha256, stats.content_sha256) == ("data", dataset.sha256, dataset.content_sha256)
    assert stats.by_type == {"multi-session": TypeCount(2, 1), "knowledge-update": TypeCount(1, 0)}
    assert (stats.questions, stats.integer_answers) == (3, 1)
    assert (stats.evidence_sessions, stats.evidence_turns) == (3, 2)
    assert (stats.haystacks, stats.sessions, stats.turns) == (2, 5, 9)
    assert (stats.fewest_sessions, stats.mean_sessions, stats.most_sessions) == (2, 2.5, 3)
    assert (stats.fewest_turns, stats.mean_turns, stats.most_turns) == (1, 1.8, 2)
    assert stats.first_session == datetime(2023, 5, 21, 9, 30)
    assert stats.last_session == datetime(2023, 5, 22, 10, 0)
    assert not stats.stand_in_dates
    assert stats.groups == []
    assert isinstance(stats.quirks, LongMemEvalQuirks)
    assert stats.quirks.questions_without_haystack == 1


def test_quirks(tmp_path: Path) -> None:
    # Out of order, a wrong weekday (two of them), asked before the last session, a repeated id, an evidence session
    # without a label; then sessions that start with the assistant, have no user, have one turn, a blank turn, no turn.
    record = make_record(
        question_date="2023/05/22 (Tue) 09:59",
        haystack_dates=[
            "2023/05/22 (Mon) 10:00",
            "2023/05/21 (Fri) 09:30",
            "2023/05/22 (Mon) 10:00",
            "2023/05/22 (Mon) 10:00",
        ],
        haystack_session_ids=["answer_b", "x", "x", "y"],
        haystack_sessions=[
            [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " \n"}],
            [{"role": "assistant", "content": "Hello", "mood": "glad"}, {"role": "user", "content": "Hi", "mood": ""}],
            [{"role": "assistant", "content": "Hello"}],
            [],
        ],
        note="extra",
    )
    assert stats_of(tmp_path, record, tidy("q2")).quirks == LongMemEvalQuirks(
        haystacks_out_of_order=1,
        repeated_session_ids=1,
        questions_before_last_session=1,
        blank_turns=1,
        sessions_not_starting_with_user=2,
        sessions_without_user_turn=2,
        odd_length_sessions=1,
        wrong_weekdays=2,
        evidence_sessions_without_labelled_turn=1,
        unknown_keys={"record.note": 1, "turn.mood": 2},
    )


def test_real_record(real_longmemeval: Path) -> None:
    stats = dataset_stats(LongMemEvalDataset(real_longmemeval))
    assert (stats.questions, stats.haystacks, stats.sessions, stats.turns) == (1, 1, 53, 550)
    assert (stats.evidence_sessions, stats.evidence_turns) == (1, 2)
    assert stats.quirks == LongMemEvalQuirks(sessions_not_starting_with_user=4, odd_length_sessions=4)


def test_what_misleads_a_memory_that_honours_dates(tmp_path: Path) -> None:
    twice = [[{"role": "user", "content": "Hi"}], [{"role": "user", "content": "Hi", "has_answer": True}]]
    stats = stats_of(
        tmp_path,
        tidy("q1"),
        # Before the last session, which is not evidence; at the minute of the evidence; before the evidence.
        tidy("q2", question_date="2023/05/22 (Mon) 09:59"),
        tidy("q3", question_date="2023/05/21 (Sun) 09:30"),
        tidy("q4", question_date="2023/05/21 (Sun) 09:29", answer_session_ids=["answer_b"]),
        tidy("q5", question_date="2023/05/23 (Tue) 09:29", haystack_sessions=twice),
    )
    assert (stats.questions_before_last_session, stats.questions_with_later_evidence) == (3, 1)
    assert stats.duplicated_sessions == 1
