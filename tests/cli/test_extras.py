"""A command that lacks an extra names it, and writes nothing."""

import pytest

from helpers import fork_server

VOCAB = ("vocab", "public.txt", "-o", "vocab.parquet")


@pytest.mark.parametrize(
    ("package", "arguments", "message"),
    [
        (
            "pyspark",
            ("--engine", "spark"),
            "error: --engine spark: pyspark is not installed; pip install 'bayesgram[spark]', or use --engine local.",
        ),
        (
            "tokenizers",
            ("--tokenizer", "file:tokenizer.json"),
            "error: --tokenizer file: the package tokenizers is not installed; pip install 'bayesgram[tokenizers]'.",
        ),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(tmp_path, package, arguments, message):
    (tmp_path / "public.txt").write_text("the red fish\n", encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    code = f"""if True:
        import sys
        sys.modules[{package!r}] = None
        sys.argv = ["bayesgram", *{[*VOCAB, *arguments]!r}]
        from bayesgram.cli.app import main
        main()
    """
    done = fork_server.run_code(code, cwd=tmp_path, COLUMNS="200")
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["public.txt", "tokenizer.json"]
