"""The guide's page on Python: each snippet prints what the page says. The examples run."""

import doctest
import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs/guide/src/python.md"
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_each_snippet_of_the_guide_prints_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    # Doctest takes a fence behind a snippet for output.
    snippets = re.sub(r"^```.*$", "", page, flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(snippets, {}, "python.md", str(PAGE), 0)
    assert len(test.examples) > 50
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_run(example, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [example.name])
    runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out
    assert {"counters": "3 the", "transfer": "{'ada': 60, 'grace': 140}"}[example.stem] in printed
