"""Counts words with a merge operator, and shows the most frequent ones."""

import sys
import tempfile

import esker


def add(left: bytes, right: bytes) -> bytes:
    return b"%d" % (int(left) + int(right))


def main(text: str) -> None:
    operator = esker.MergeOperator.associative("add", add)
    with esker.open(tempfile.mkdtemp() + "/words", merge_operator=operator) as db:
        for word in text.split():
            db.merge(word.encode(), b"1")
        counts = sorted(((int(count), word.decode()) for word, count in db.items()), reverse=True)
        for number, word in counts[:5]:
            print(number, word)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "the ridge and the river and the ice")
