"""The check of documents finds prose that is too long, and wraps it without changing a word or what is no prose."""

from check_docs import WIDTH, rewrapped, too_long

LONG = "words " * 30
TABLE = "| " + LONG + " |"
TEXT = f"""# Title

{LONG}and `code of several words` at the end.

- an item that is short
- {LONG}
  goes on
1. {LONG}

  {LONG}

{TABLE}

```
{LONG}
```

    {LONG}

Short lines
stay as they are.
"""


def cases(suite):
    made = rewrapped(TEXT)
    suite.check("docs: the lines of prose that are too long are found, and no others", too_long(TEXT) == [3, 6, 8, 10], too_long(TEXT))
    suite.check("docs: none is left", not too_long(made), made)
    suite.check("docs: no word is changed", made.split() == TEXT.split(), made)
    kept = [TABLE, "```\n" + LONG + "\n```", "    " + LONG, "Short lines\nstay as they are."]
    suite.check("docs: tables, code and short paragraphs stay as they are", all(each in made for each in kept), made)
    suite.check("docs: what an item goes on with is indented", "\n  words words" in made and "\n   words words" in made, made)
    suite.check("docs: to wrap again changes nothing", rewrapped(made) == made, rewrapped(made))
    for begin in ("-", "#", "1."):  # what would come first in the second line
        risky = "w" * 100 + " " + "x" * (WIDTH - 102) + f" {begin} and more of it"
        lines = rewrapped(risky).split("\n")
        fits = len(lines) == 2 and not lines[1].startswith(begin) and max(map(len, lines)) <= WIDTH
        suite.check(f"docs: no line comes to begin with {begin}", fits, lines)
    suite.check("docs: one word that is too long is left", not too_long("x" * 200), "")
