"""Foreign text for people: names and messages come from users, reports and files."""


def printable(text: str) -> str:
    """The text with an escape for each character that is not printed as itself, such as controls, line breaks
    and the marks that turn the direction of writing (Unicode's categories Other and Separator, without the
    space)."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
