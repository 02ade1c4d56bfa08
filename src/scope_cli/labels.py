"""Labels of machines as people write them: NAME=VALUE sets one, NAME- deletes one."""

import argparse


def label(text: str) -> tuple[str, str]:
    """A label, for argparse.

    Raises:
        argparse.ArgumentTypeError: the text is not NAME=VALUE.
    """
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"'{text}' is no label; write it as NAME=VALUE, such as role=gpu")
    return name, value


def change(text: str) -> tuple[str, str | None]:
    """A change of a label, for argparse; a value of None deletes it.

    Raises:
        argparse.ArgumentTypeError: the text is neither NAME=VALUE nor NAME-.
    """
    if "=" not in text and len(text) > 1 and text.endswith("-"):
        return text[:-1], None
    try:
        return label(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no change; NAME=VALUE sets a label, NAME- deletes one, such as role=gpu rack-"
        ) from None


def shown(labels: dict[str, str]) -> str:
    """All labels in one line."""
    return " ".join(f"{name}={value}" for name, value in sorted(labels.items()))
