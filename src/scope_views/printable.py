"""Texts of watched programs, made harmless: no effect on a terminal, one line, valid in JSON, XML and logs."""


def printable(text: str) -> str:
    """The text with every control character escaped (`\\x1b`, `\\n`, `\\u202e`): it takes one line and no effect."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_json(text: str) -> str:
    """JSON with the same meaning, and every control character within its strings escaped. Lines stay lines."""
    odd = {each for each in set(text) if not each.isprintable() and each != "\n"}
    return text.translate({ord(each): _in_json(each) for each in odd}) if odd else text


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
