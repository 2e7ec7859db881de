"""What the offline reader makes of dated messages, rule by rule; every answer worked out by hand."""

import asyncio
from datetime import datetime

import pytest

from longmemeval.llm.extractive.answers import find_answer
from longmemeval.llm.extractive.matching import number, values_of
from longmemeval.llm.offline import ExtractiveModel
from longmemeval.llm.protocol import ChatRequest, Passage

ASKED = datetime(2024, 6, 30, 12, 0)


def user(day: str, text: str) -> Passage:
    return Passage(text, "user", datetime.fromisoformat(f"2024-{day}T10:00"))


def assistant(day: str, text: str) -> Passage:
    return Passage(text, "assistant", datetime.fromisoformat(f"2024-{day}T10:00"))


def answer(question: str, *passages: Passage) -> str | None:
    return find_answer(question, passages, ASKED)


SHED = (
    user("03-01", "What should a garden shed cost these days?"),
    assistant("03-01", "A garden shed costs what its floor costs. Most people pay for the roof twice."),
    user("03-01", "Mine came to $480 with the floor. I painted it green."),
)


def test_the_kind_of_value_asked_for_outweighs_words_in_common() -> None:
    assert answer("How much did I pay for the garden shed?", *SHED) == "Mine came to $480 with the floor."
    assert answer("What colour is my garden shed?", *SHED) == "I painted it green."


@pytest.mark.parametrize(
    ("question", "said", "expected"),
    [
        ("On which days do I swim?", "Swimming is fun. I swim on Mondays. Swim slowly.", "I swim on Mondays."),
        ("How long is my walk to work?", "My walk to work is dull. It takes 25 minutes.", "It takes 25 minutes."),
        ("What time does my shift start?", "My shift is long. I begin my shift at 6:45.", "I begin my shift at 6:45."),
        ("How far did I run?", "I ran and ran. I ran 12 km before lunch.", "I ran 12 km before lunch."),
        ("Where did I meet Ada?", "I met Ada by chance. I met Ada in Porto.", "I met Ada in Porto."),
        ("How old is my parrot?", "My parrot sings. My parrot is nine and bald.", "My parrot is nine and bald."),
        ("When is my exam?", "My exam scares me. My exam is on 3 July.", "My exam is on 3 July."),
    ],
)
def test_each_kind_of_value(question: str, said: str, expected: str) -> None:
    assert answer(question, user("05-01", said)) == expected


def test_other_forms_of_a_word_are_found() -> None:
    said = (user("05-01", "Nettles are tall. I'm allergic to wool."), assistant("05-01", "Try cotton."))
    assert answer("What do I have an allergy to?", *said) == "I'm allergic to wool."
    assert answer("Where does my dad work?", user("05-01", "My father has a job in Lille.")) is not None


def test_what_another_person_said_of_themselves_does_not_answer() -> None:
    mine, hers = user("05-01", "My piano lessons are £30."), user("05-02", "My friend Eve pays £45 for piano lessons.")
    assert answer("How much do I pay for piano lessons?", mine, hers) == mine.text
    assert answer("How much do I pay for piano lessons?", hers) is None
    assert answer("How much does my friend Eve pay for piano lessons?", mine, hers) == hers.text


def test_between_two_speakers_only_the_one_named_answers() -> None:
    day = datetime(2023, 5, 8, 13, 0)
    ann, bob = Passage("I adopted a cat.", "Ann", day), Passage("I ran a marathon in Oslo.", "Bob", day)
    assert find_answer("Where did Bob run a marathon?", [ann, bob]) == bob.text
    assert find_answer("Where did Ann run a marathon?", [ann, bob]) is None


def test_the_assistant_is_quoted_where_the_question_asks_for_its_words() -> None:
    said = (
        user("04-01", "Which glue for a cracked vase? I was thinking of 3 drops of super glue."),
        assistant("04-01", "Use epoxy for the vase. Let it cure for two days before you move it."),
        user("04-01", "The vase thanks you."),
        assistant("04-01", "My pleasure. A vase deserves it."),
    )
    assert answer("Which glue did you recommend for my vase?", *said) == said[1].text
    assert answer("How long did you say the vase has to cure?", *said) == "Let it cure for two days before you move it."


RENT = (
    user("01-10", "The rent for my studio is $700 a month."),
    user("03-10", "My landlord wrote to me. From now on the studio is $760, heating included."),
)


def test_a_later_value_brings_an_earlier_one_up_to_date() -> None:
    assert answer("How much is the rent for my studio?", *RENT) == "From now on the studio is $760, heating included."


def test_what_was_stays_what_it_was() -> None:
    assert answer("What was the rent for my studio?", *RENT) == RENT[0].text


def test_it_believes_an_old_value_that_is_told_last() -> None:
    """A reader that saw everything is misled by it; a memory that leaves it out is not."""
    stale = user("04-10", "The form still has the rent for my studio at $700 a month.")
    assert answer("How much is the rent for my studio?", *RENT, stale) == stale.text


def test_other_matters_do_not_bring_anything_up_to_date() -> None:
    later = user("05-10", "Dinner cost $95 for the two of them now that oysters are in season.")
    assert (
        answer("How much is the rent for my studio?", *RENT, later)
        == "From now on the studio is $760, heating included."
    )


SALES = (
    user("02-01", "I sold a bowl at the market for $40."),
    user("02-20", "A café bought two bowls from me, $75 for both. I sold them in a minute."),
    user("03-05", "I sold the last bowl of the winter today for $35, wrapped in a towel."),
)


def test_amounts_of_several_sessions_are_added_up() -> None:
    assert answer("How much have I earned with bowls in total?", *SALES) == "$150 ($40 + $75 + $35)"


def test_listed_items_are_added_up_and_nothing_else() -> None:
    said = (
        user("02-01", "The desk was €210."),
        user("02-02", "I paid €90 for the lamp."),
        user("02-03", "The chair came to €160 and the cat has taken it."),
        user("02-04", "My dentist wants €300."),
    )
    assert answer("What did the desk, the lamp and the chair cost me in all?", *said) == "€460 (€210 + €90 + €160)"


def test_units_and_things_are_counted() -> None:
    runs = (
        user("04-01", "I ran 12 km along the river."),
        user("04-08", "Only 7 km today, I ran in sandals."),
        user("04-09", "It took 40 minutes to find my sandals after I ran."),
    )
    assert answer("How many kilometres have I run this spring?", *runs) == "19 km (12 + 7)"
    plants = (user("04-01", "I planted three roses."), user("04-05", "I planted a rose by the gate."))
    assert answer("How many roses have I planted?", *plants) == "4 roses (3 + 1)"


MOVE = (
    user("03-04", "I signed the lease for the flat today."),
    user("03-11", "Painted the kitchen yellow."),
    user("04-22", "We moved into the flat last Saturday, in the rain."),
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # From Monday 4 March to Saturday 20 April, which "last Saturday" means on Monday the 22nd.
        ("How many days passed between signing the lease and moving into the flat?", "47 days"),
        ("How many days after I signed the lease did I paint the kitchen?", "7 days"),
        ("How many weeks after I signed the lease did I paint the kitchen?", "1 weeks"),
        # From 11 March to 30 June: 111 days.
        ("How many days ago did I paint the kitchen?", "111 days ago"),
        ("Which came first: painting the kitchen, or moving into the flat?", "painting the kitchen"),
        (
            "Put these in order, earliest first: my move into the flat, the yellow kitchen, the lease.",
            "the lease, then the yellow kitchen, then my move into the flat",
        ),
    ],
)
def test_dates_are_compared(question: str, expected: str) -> None:
    assert answer(question, *MOVE) == expected


def test_a_comparison_with_an_event_that_was_never_told_is_refused() -> None:
    assert answer("How many days passed between signing the lease and selling the yacht?", *MOVE) is None


def test_a_day_named_by_its_distance_is_worked_out() -> None:
    said = Passage("I went to the support group yesterday.", "Ann", datetime(2023, 5, 8, 13, 0))
    assert find_answer("When did Ann go to the support group?", [said]) == "7 May 2023"


def test_advice_rests_on_tastes() -> None:
    said = (
        user("05-01", "How long does rice keep?"),
        assistant("05-01", "A day in the fridge. I love rice."),
        user("05-01", "I never eat meat and I love anything with lemon. Is that a diet?"),
    )
    assert answer("What should I cook tonight?", *said) == "I never eat meat and I love anything with lemon."


def test_the_answer_is_the_same_whatever_the_question_is_called() -> None:
    def said(question_id: str) -> str:
        request = ChatRequest(
            (), 50, question_id=question_id, question="How much is the rent for my studio?", dated_passages=lambda: RENT
        )
        return asyncio.run(ExtractiveModel().complete(request)).text

    assert {said(name) for name in ("q1", "q1_abs", "answer_1")} == {
        "From now on the studio is $760, heating included."
    }


def test_numbers() -> None:
    assert [number(text) for text in ("$1,575", "thirty-one", "Twelve", "4.5 km", "lots")] == [1575, 31, 12, 4.5, None]
    assert values_of("money", "From €9,500 down to $3.50, or 20 pounds") == ("€9,500", "$3.50", "20 pounds")
