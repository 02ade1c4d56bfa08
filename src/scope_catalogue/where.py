"""The filter grammar of `--where` and of the REST API: from text such as `ret < 0 and path ~ '/etc/*'` to a condition.

    filter     = term { ("and" | "or") term }       "and" binds closer than "or"
    term       = "not" term | "(" filter ")" | comparison
    comparison = COLUMN OPERATOR VALUE
               | COLUMN [ "not" ] "in" "(" VALUE { "," VALUE } ")"
               | COLUMN "is" [ "not" ] "null"
    OPERATOR   = "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~"

`~` matches a text against a pattern: `*` stands for any characters, `?` for one character; a backslash before `*`, `?`
or a backslash makes it an ordinary character. Texts are quoted, with single or double quotes; inside a text, the same
quote is written twice. A word without blanks needs no quotes. As in SQL, a comparison with null is neither true nor
false, and so is its negation. NaN counts as null. The unit at the end of a column's name may be left out if only one
column matches: `duration` for `duration_ns`. Columns of errors and signals take names: `ret = -ENOENT`.
"""

import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from scope_catalogue.condition import And, Condition, IsNull, Matches, Not, OneOf, Or, Ordered, Value
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.literal import ColumnType, Kind, exact, shortened, wanted
from scope_catalogue.nearest import meant, unknown

LONGEST = 4096  # characters
_MOST_TERMS = 64
_DEEPEST = 32
_MOST_WILDCARDS = 32  # `*` in a pattern: the time to match grows with their number
_LARGEST = Fraction(sys.float_info.max)
_TOKEN = re.compile(
    r"""\s*+(?: (?P<text> '(?:[^']|'')*+' | "(?:[^"]|"")*+" )
              | (?P<sign> == | != | <= | >= | !~ | [=<>~(),] )
              | (?P<word> [^\s'"()=!<>~,]+ ) )""",
    re.VERBOSE,
)
_ESCAPED = re.compile(
    r"\\([*?\\])|([*?])|([%_\\])"
)  # in a pattern: an escaped character, a wildcard, a special character of LIKE
_KEYWORDS = ("and", "or", "not", "in", "is", "null")
_OPERATORS = ("=", "==", "!=", "<", "<=", ">", ">=", "~", "!~")


def read_filter(text: str, columns: Mapping[str, ColumnType]) -> Condition:
    """Reads a filter and checks it against these columns.

    Raises:
        InvalidFilter: the filter has a syntax error, an unknown column, or a value that does not suit its column; or
            it is too long, is nested too deeply, or has too many comparisons.
    """
    if len(text) > LONGEST:
        raise InvalidFilter(f"where: {len(text)} characters are too many; at most {LONGEST} are taken")
    return _Parser(text, columns).whole()


@dataclass(frozen=True)
class _Token:
    kind: str  # text, sign, word, or end
    text: str
    place: int

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, ColumnType]) -> None:
        self._tokens = _tokens(text)
        self._columns = columns
        self._next = 0
        self._depth = 0
        self._terms = 0

    def whole(self) -> Condition:
        found = self._either()
        if self._at.kind != "end":
            raise _wrong(self._at, f"{shortened(self._at.text)} is not expected; join comparisons with 'and' or 'or'")
        return found

    @property
    def _at(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._at
        if token.kind != "end":
            self._next += 1
        return token

    def _takes(self, sign: str) -> bool:
        """Whether the next token is this keyword or sign; if so, takes it."""
        found = self._at.is_word(sign) or (self._at.kind == "sign" and self._at.text == sign)
        self._next += found
        return found

    def _either(self) -> Condition:
        terms = [self._every()]
        while self._takes("or"):
            terms.append(self._every())
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _every(self) -> Condition:
        terms = [self._term()]
        while self._takes("and"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _term(self) -> Condition:
        begin = self._at
        if self._takes("not"):
            return Not(self._within(begin, self._term))
        if self._takes("("):
            found = self._within(begin, self._either)
            self._expect(")", begin)
            return found
        self._terms += 1
        if self._terms > _MOST_TERMS:
            raise _wrong(begin, f"the filter has more than {_MOST_TERMS} comparisons")
        return self._comparison()

    def _within(self, begin: _Token, read: Callable[[], Condition]) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _wrong(begin, f"the filter is nested more than {_DEEPEST} deep")
        found = read()
        self._depth -= 1
        return found

    def _expect(self, sign: str, begin: _Token) -> None:
        if not self._takes(sign):
            raise _wrong(self._at, f"'{sign}' is missing, for the '{begin.text}' of character {begin.place + 1}")

    def _comparison(self) -> Condition:
        name = self._take()
        if name.kind != "word" or name.text.lower() in _KEYWORDS:
            raise _wrong(name, f"a column is missing{_before(name)}")
        column = self._column(name)
        if self._takes("is"):
            negated = self._takes("not")
            if not self._takes("null"):
                raise _wrong(self._at, "'null' is missing after 'is'")
            return Not(IsNull(column)) if negated else IsNull(column)
        negated = self._takes("not")
        if self._takes("in"):
            found = self._one_of(column)
            return Not(found) if negated else found
        operator = self._take()
        if negated or operator.kind != "sign" or operator.text not in _OPERATORS:
            raise _wrong(operator, f"after '{name.text}' one of {' '.join(_OPERATORS)}, 'in' or 'is' is missing")
        return self._compared(column, operator)

    def _column(self, name: _Token) -> str:
        if name.text in self._columns:
            return name.text
        found = [
            column for column, type_ in self._columns.items() if type_.unit and column.rpartition("_")[0] == name.text
        ]
        if len(found) == 1:
            return found[0]
        raise _wrong(name, unknown("column", name.text, found or self._columns))

    def _one_of(self, column: str) -> OneOf:
        begin = self._at
        if not self._takes("("):
            raise _wrong(begin, "'(' is missing after 'in'")
        values = [self._equal(column)]
        while self._takes(","):
            values.append(self._equal(column))
        self._expect(")", begin)
        return OneOf(column, tuple(dict.fromkeys(value for each in values for value in each)))

    def _compared(self, column: str, operator: _Token) -> Condition:
        type_, sign = self._columns[column], operator.text
        if sign in ("=", "==", "!="):
            found: Condition = OneOf(column, self._equal(column))
        elif sign in ("~", "!~"):
            if type_.kind is not Kind.TEXT:
                raise _wrong(operator, f"'{sign}' is for texts, and {column} is {type_.kind}")
            found = Matches(column, self._pattern(column))
        elif type_.kind in (Kind.WHOLE, Kind.NUMBER):
            found = _ordered(column, sign, self._number(column), type_)
        else:
            raise _wrong(operator, f"'{sign}' is for numbers, and {column} is {type_.kind}; use =, !=, ~, !~ or in")
        return Not(found) if sign in ("!=", "!~") else found

    def _equal(self, column: str) -> tuple[Value, ...]:
        """The value that the column has to equal, as a tuple; empty if the column cannot hold the value."""
        type_ = self._columns[column]
        if type_.kind is Kind.TEXT:
            return (self._value(column).text,)
        if type_.kind is Kind.TRUTH:
            value = self._value(column)
            if value.text not in ("true", "false"):
                raise _wrong(value, f"{column} takes {type_.kind}, not {shortened(value.text)}")
            return (value.text == "true",)
        number = self._number(column)
        if type_.kind is Kind.NUMBER:
            return (float(number),)
        return (int(number),) if number.denominator == 1 and type_.least <= number <= type_.most else ()

    def _number(self, column: str) -> Fraction:
        value, type_ = self._value(column), self._columns[column]
        if value.kind == "text":
            raise _wrong(value, f"{column} is {type_.kind}; write it without quotes")
        number = exact(value.text, type_)
        if number is None:
            near = meant(value.text, type_.codes.numbers) if type_.codes else ""
            raise _wrong(value, f"{column} takes {wanted(type_)}, not {shortened(value.text)}{near}")
        if abs(number) > _LARGEST:
            raise _wrong(value, f"{shortened(value.text)} is too large")
        return number

    def _pattern(self, column: str) -> str:
        value = self._value(column)
        if sum(found[2] == "*" for found in _ESCAPED.finditer(value.text)) > _MOST_WILDCARDS:
            raise _wrong(value, f"the pattern has more than {_MOST_WILDCARDS} '*'")
        return _like(value.text)

    def _value(self, column: str) -> _Token:
        kind = self._columns[column].kind
        value = self._take()
        if kind is Kind.LIST:
            raise _wrong(value, f"{column} is a list; only 'is null' and 'is not null' can be asked of it")
        if value.kind == "text":
            quote = value.text[0]
            return _Token("text", value.text[1:-1].replace(2 * quote, quote), value.place)
        if value.is_word("null"):
            raise _wrong(value, f"a comparison with null is never true; write '{column} is null'")
        if value.kind != "word" or value.text.lower() in _KEYWORDS:
            quotes = "; a text that is a keyword needs quotes" if value.kind == "word" else ""
            raise _wrong(value, f"a value is missing{_before(value)}{quotes}")
        return value


def _tokens(text: str) -> list[_Token]:
    found, place = [], 0
    end = len(text.rstrip())
    while place < end:
        matched = _TOKEN.match(text, place)
        if matched is None or matched.lastgroup is None:
            begin = place + len(text[place:]) - len(text[place:].lstrip())
            odd = _Token("sign", text[begin], begin)
            raise _wrong(
                odd, "the quote is not closed" if odd.text in "'\"" else f"{shortened(odd.text)} is no operator"
            )
        found.append(_Token(matched.lastgroup, matched[matched.lastgroup], matched.start(matched.lastgroup)))
        place = matched.end()
    for token in found:
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in token.text):
            raise _wrong(token, "it has a NUL or what is no character of UTF-8")
    return [*found, _Token("end", "", end)]


def _ordered(column: str, sign: str, number: Fraction, type_: ColumnType) -> Condition:
    if type_.kind is Kind.NUMBER:
        return Ordered(column, sign, float(number))
    # For whole numbers, `< 1.5` is `<= 1`. A bound outside the column's range is moved into it, or matches no row.
    if sign in ("<", "<="):
        most = math.floor(number) if sign == "<=" else math.ceil(number) - 1
        return Ordered(column, "<=", min(most, type_.most)) if most >= type_.least else OneOf(column, ())
    least = math.ceil(number) if sign == ">=" else math.floor(number) + 1
    return Ordered(column, ">=", max(least, type_.least)) if least <= type_.most else OneOf(column, ())


def _like(pattern: str) -> str:
    def translated(found: re.Match[str]) -> str:
        plain, wildcard, own = found.groups()
        if wildcard:
            return "%" if wildcard == "*" else "_"
        return f"\\{own}" if own else plain.replace("\\", "\\\\")

    return _ESCAPED.sub(translated, pattern)


def _before(token: _Token) -> str:
    return "" if token.kind == "end" else f" before {shortened(token.text)}"


def _wrong(token: _Token, why: str) -> InvalidFilter:
    at = "at its end" if token.kind == "end" else f"character {token.place + 1}"
    return InvalidFilter(f"where, {at}: {why}", token.place)
