"""Tables within a width."""

from scope_cli.text_table import EXTRA, Column, Part, cut, laid_out


def test_without_a_width_everything_is_there() -> None:
    """Without a width nothing is cut: texts are aligned left, numbers right, and totals have the last line."""
    layout = laid_out([Column("a", ["x" * 99, "y"], "total"), Column("number", ["1", "22"], "23", number=True)])
    assert layout.lines == [
        (Part.HEADING, f"{'a':99}  number"),
        (Part.ROW, f"{'x' * 99}       1"),
        (Part.ROW, f"{'y':99}      22"),
        (Part.TOTAL, f"{'total':99}      23"),
    ]


def test_the_widest_text_is_cut_first() -> None:
    """The widest text is cut first; others stay whole as long as there is room."""
    columns = [Column("a", ["x" * 50]), Column("b", ["y" * 20]), Column("n", ["7"], number=True)]
    assert laid_out(columns, 60).lines[1][1] == f"{'x' * 34}…  {'y' * 20}  7"
    assert laid_out(columns, 40).lines[1][1] == f"{'x' * 17}…  {'y' * 16}…  7"


def test_extra_columns_go_before_texts_are_cut_to_the_utmost() -> None:
    """Extra columns are left out first, then others with the largest left_out first; columns without left_out stay."""
    columns = [
        Column("a", ["x" * 30]),
        Column("must", ["1"], number=True),
        Column("may", ["2"], number=True, left_out=1),
        Column("rather", ["3"], number=True, left_out=2),
        Column("extra", ["4"], number=True, left_out=EXTRA),
    ]
    assert laid_out(columns, 50).left_out == []
    assert laid_out(columns, 46).left_out == ["extra"]
    assert laid_out(columns, 32).left_out == ["extra"]
    assert laid_out(columns, 24).left_out == ["rather", "extra"]
    narrow = laid_out(columns, 10)
    assert narrow.left_out == ["may", "rather", "extra"]
    assert narrow.lines[1][1] == f"{'x' * 11}…     1"


def test_cells_take_one_line_and_no_effect() -> None:
    """Control characters are shown as escapes, which count with their shown width."""
    assert laid_out([Column("a", ["\x1b[31m"]), Column("b", ["x\ny"])]).lines[1][1] == "\\x1b[31m  x\\ny"


def test_wide_characters_count_as_they_are_shown() -> None:
    """A wide character counts as two cells."""
    assert cut("日本語", 5) == "日本…"
    assert cut("/usr/lib/libc.so", 9) == "…/libc.so"
    lines = laid_out([Column("a", ["日本", "x"]), Column("b", ["y", "z"])], 20).lines
    assert [line for _, line in lines] == ["a     b", "日本  y", "x     z"]
