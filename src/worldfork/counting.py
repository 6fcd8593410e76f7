"""Counts in words."""


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return the count with its noun; `nouns` is the plural where it does not end in s.

    >>> plural(1, "fork"), plural(1_200, "fork"), plural(2, "policy", "policies")
    ('1 fork', '1,200 forks', '2 policies')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
