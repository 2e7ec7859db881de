"""Numbers with their noun: "1 question", "1,986 questions"."""


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return the number and its noun.

    Args:
        noun: singular form.
        plural: plural form, if it is not the singular with an "s".
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
