"""Numbers with their noun: "1 question", "1,986 questions"."""


def count_of(number: int, noun: str, plural: str = "") -> str:
    """The number and its noun.

    Args:
        number: how many.
        noun: the singular.
        plural: where adding an "s" does not make it.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
