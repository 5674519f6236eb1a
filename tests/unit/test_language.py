"""Texts and names follow the rules of plain English that a program can check; see tests/language.py."""

from __future__ import annotations

from tests.language import check_texts, pending_files, text_files


def test_texts_use_plain_words_and_no_file_waits_that_does_so_already() -> None:
    breaches = check_texts(text_files())
    pending = pending_files()
    assert [str(breach) for breach in breaches if breach.file not in pending] == []
    assert pending - {breach.file for breach in breaches} == set()
