"""The models that answer without a language model."""

import asyncio
from pathlib import Path

import pytest

from longmemeval.core.event_loop import complete
from longmemeval.core.text.words import content_words, stem
from longmemeval.errors import HarnessError, ModelError
from longmemeval.llm.extractive.matching import fullest_sentence
from longmemeval.llm.offline import ABSTENTION, ExtractiveModel, ScriptedModel
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from longmemeval.records import Usage
from tests.support import IN_PROPORTION, growth

PASSAGES = (
    "2023/05/20 (Sat) user: I finally adopted a dog! His name is Rex. He sleeps all day.",
    "2023/05/21 (Sun) assistant: A dog needs exercise.\nA name of two syllables is easy to learn.",
    "2023/06/02 (Fri) user: My sister lives in Lisbon. She moved there for work in 2019.",
)


def extract(question: str, passages: tuple[str, ...] = PASSAGES) -> ChatReply:
    request = ChatRequest((ChatMessage("user", "ignored"),), 50, question=question, passages=passages)
    return asyncio.run(ExtractiveModel().complete(request))


def test_best_sentence_is_the_answer() -> None:
    assert extract("Where does my sister live?").text.endswith("My sister lives in Lisbon.")
    assert extract("When did she move there for work?").text == "She moved there for work in 2019."


def test_reply_counts_one_free_call() -> None:
    reply = extract("Where does my sister live?")
    assert reply.usage == Usage(calls=1)
    assert (reply.finish_reason, reply.attempts, reply.served_model) == ("stop", 1, "offline/extractive")


@pytest.mark.parametrize(
    ("question", "passages"),
    [
        ("Where does my sister live?", ()),
        ("Where does my sister live?", ("", "   \n ")),
        ("What is the address of my dentist?", PASSAGES),
        ("What did I do?", PASSAGES),
        ("?!", PASSAGES),
    ],
)
def test_abstains_without_support(question: str, passages: tuple[str, ...]) -> None:
    assert extract(question, passages).text == ABSTENTION


def test_enough_of_the_question_is_answered_and_less_is_not() -> None:
    # Two of four words are half of the question, two of five are not.
    passage = ("The red bike is broken.",)
    assert extract("red bike brake cable", passage).text == "The red bike is broken."
    assert extract("red bike brake cable bell", passage).text == ABSTENTION


def test_sentences_of_one_passage_support_each_other_and_passages_do_not() -> None:
    # Two of four words in the passage, one in each of its sentences: a passage without a date is a session of its own.
    question = "dog collar breed colour"
    assert extract(question, ("I adopted a dog. Rex ate the collar.",)).text == "I adopted a dog. Rex ate the collar."
    assert extract(question, ("I adopted a dog.", "Rex ate the collar.")).text == ABSTENTION


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    passages = ("Lisbon is far.", "A bike is useful.", "This bike broke.", "Any bike rusts.")
    assert extract("bike Lisbon", passages).text == "Lisbon is far."


def test_the_later_of_nearly_equal_statements_wins() -> None:
    old, new = "My rent is 700 a month.", "From now on the rent I pay is 740 a month."
    assert extract("How much is my rent each month?", (old, new)).text == new
    assert extract("How much is my rent each month?", (new, old)).text == old


def test_a_clearly_better_statement_wins_wherever_it_stands() -> None:
    passages = ("My rent for the studio is 700 a month.", "The rent of a car is 40.")
    assert extract("How much is the rent for my studio?", passages).text == passages[0]


def test_a_statement_beats_a_later_question() -> None:
    passages = ("The cello lesson costs 38.", "Is a cello lesson worth it?", 'She asked: "Why a cello lesson?"')
    assert extract("How much is a cello lesson?", passages).text == passages[0]


def test_user_statement_beats_the_same_words_of_a_guide() -> None:
    passages = ("Running shoes cost money today.", "Running shoes cost my savings.")
    assert extract("running shoes cost", passages).text == "Running shoes cost my savings."


def test_first_of_equals_in_one_passage_wins() -> None:
    assert fullest_sentence("A red bike. My red bike.") == "A red bike."


def test_same_request_same_answer() -> None:
    assert len({extract("What is the name of my dog?").text for _ in range(5)}) == 1


def test_words_are_folded_and_stemmed_and_stop_words_dropped() -> None:
    assert content_words("What is my SISTER\u2019s name, and didn't Z\u00fcrich's clubs win 3-1?") == [
        "sister",
        "nam",
        "didn't",
        "z\u00fcrich",
        "club",
        "win",
        "3",
        "1",
    ]


@pytest.mark.parametrize(
    "forms",
    [
        "lesson lessons",
        "graduate graduates graduated graduating",
        "study studies studied studying",
        "play plays played playing",
        "knit knits knitted knitting",
        "call calls called calling",
        "watch watches watched watching",
        "use uses used using",
        "tie ties tied",
        "go goes going went gone",
        "buy buys buying bought",
        "make makes making made",
        "glass glasses",
        "potato potatoes",
        "day days",
        "child children",
    ],
)
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize("word", ["string", "thing", "bed", "need", "bus", "yes", "100", "11"])
def test_what_only_looks_like_an_ending_stays(word: str) -> None:
    assert stem(word) == word


def test_a_question_finds_other_forms_of_its_words() -> None:
    passages = ("I graduated with a degree in law.", "I bought my sisters two concert tickets.")
    assert extract("What do I need to graduate?", passages).text == passages[0]
    assert extract("What did I buy my sister?", passages).text == passages[1]


def test_without_a_question_the_last_user_message_is_the_passage() -> None:
    messages = (
        ChatMessage("system", "Take notes."),
        ChatMessage("user", "Old message about Berlin."),
        ChatMessage("assistant", "Noted."),
        ChatMessage("user", "Hello there. Ann plays the violin. Ann plays the violin in an orchestra on Sundays."),
    )
    reply = asyncio.run(ExtractiveModel().complete(ChatRequest(messages, 50)))
    assert reply.text == "Ann plays the violin in an orchestra on Sundays."


def test_without_a_question_or_message_it_abstains() -> None:
    assert asyncio.run(ExtractiveModel().complete(ChatRequest((), 50))).text == ABSTENTION


def test_calls_finish_in_the_order_they_were_started() -> None:
    finished: list[int] = []

    async def call(number: int) -> None:
        passages = PASSAGES * (20 - number)
        await ExtractiveModel().complete(ChatRequest((), 50, question="dog?", passages=passages))
        finished.append(number)

    async def calls() -> None:
        await asyncio.gather(*map(call, range(20)))

    complete(calls())
    assert finished == list(range(20))


@pytest.mark.thorough
def test_a_whole_history_takes_time_in_proportion() -> None:
    sentence = "Thanks for the advice about marathon training number {}, I will think about it on my way home today. "
    passages = tuple("".join(sentence.format(index * 10 + piece) for piece in range(10)) for index in range(550))
    question = "What did I say about my advice number 4321?"
    assert "number 4321" in extract(question, passages).text
    # All of the 5,500 sentences match, ten times what a real history has.
    assert growth(lambda size: extract(question, passages[:size]), 137) < IN_PROPORTION


def scripted(path: Path, question_id: str) -> str:
    model = load_chat_model(f"offline/scripted:{path}")
    return asyncio.run(model.complete(ChatRequest((), 5, question_id=question_id))).text


def test_lines_are_replayed_by_question(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"question_id": "q1", "hypothesis": "Rex"}\n\n'
        '{"question_id": "q2", "hypothesis": "Lisbon\u2028", "autoeval_label": {"label": true}}\n',
        encoding="utf-8",
    )
    assert scripted(path, "q1") == "Rex"
    assert scripted(path, "q2") == "Lisbon\u2028"


def test_a_single_line_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"question_id": "q1", "hypothesis": "Rex"}')
    assert scripted(path, "q1") == "Rex"


def test_object_is_replayed_by_question(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text('{\n  "q1": "Rex",\n  "q2": ""\n}')
    assert scripted(path, "q1") == "Rex"
    assert scripted(path, "q2") == ""


def test_question_without_an_answer_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text('{"q1": "Rex"}')
    with pytest.raises(ModelError, match=r"q2.*answers\.json"):
        scripted(path, "q2")


def test_relative_path_starts_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "answers.json").write_text('{"q1": "Rex"}')
    monkeypatch.chdir(tmp_path)
    assert scripted(Path("answers.json"), "q1") == "Rex"


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"question_id": "q1", "hypothesis": "Rex"}\n{"question_id": "q2"}', "line 2.*hypothesis|hypothesis.*line 2"),
        ('{"question_id": "q1", "hypothesis": null}', "line 1"),
        ('{"question_id": "q1", "hypothesis": "Rex"}\n{"question', "line 2"),
        ('{"question_id": "q1", "hypothesis": "a"}\n\n{"question_id": "q1", "hypothesis": "b"}', "q1.*line 3"),
        ("not json", "line 1"),
        ("[1, 2]", "line 1"),
        ('{"q1": 3}', r"answers\.json"),
        ("", "no answers"),
    ],
)
def test_bad_file_is_refused_with_its_place(tmp_path: Path, content: str, place: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(content)
    with pytest.raises(HarnessError, match=place):
        ScriptedModel(path)


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    for broken in (path, tmp_path, tmp_path / "missing"):
        with pytest.raises(HarnessError, match="cannot be read"):
            ScriptedModel(broken)
