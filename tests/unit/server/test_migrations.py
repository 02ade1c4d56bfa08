"""The numbered SQL files of the schema."""

from importlib.resources import files

from scope_server.store.schema.migrate import migrations


def test_each_number_is_one_files() -> None:
    """The numbers count from 1 without a gap, and no two files have one: a database would get only one of them."""
    folder = files("scope_server.store.schema") / "migrations"
    numbers = sorted(int(file.name[:4]) for file in folder.iterdir() if file.name.endswith(".sql"))
    assert numbers == list(range(1, len(numbers) + 1))
    assert list(migrations()) == numbers
