"""Questionnaires and pairs as CSV files, in the form in which a housing office would keep its own.

students_YYYY.csv has a row per student, pairs_YYYY.csv a row per pair, questions.csv a row per
question.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import as_path
from ..labels import pairs_from_partners, partners_from_pairs
from .campus import Campus, CampusYear, Question

Ints = NDArray[np.int64]


def write_campus(campus: Campus, folder: str | Path) -> None:
    """Write questions.csv and, for each year, students_YYYY.csv and pairs_YYYY.csv.

    Students: id and a column per question, empty where there is no answer. Pairs: id_a, id_b.
    Questions: name, kind, levels, labels (joined by semicolons). The true weights, which a housing
    office would not have, are not written.
    """
    place = as_path(folder, "folder")
    for question in campus.questions:
        if any(";" in label for label in question.labels):
            raise ValueError(f"question {question.name!r}: a label contains a semicolon")
    place.mkdir(parents=True, exist_ok=True)
    names = [question.name for question in campus.questions]
    _write(
        place / "questions.csv",
        ["name", "kind", "levels", "labels"],
        [[q.name, q.kind, q.levels, ";".join(q.labels)] for q in campus.questions],
    )
    for year in campus.years:
        _write(
            place / f"students_{year.year}.csv",
            ["id", *names],
            [
                [student, *("" if a < 0 else a for a in row)]
                for student, row in zip(year.students, year.answers.tolist(), strict=True)
            ],
        )
        _write(
            place / f"pairs_{year.year}.csv",
            ["id_a", "id_b"],
            [list(pair) for pair in pairs_from_partners(year.students, year.partner)],
        )


def _write(file: Path, header: list[str], rows: list[list[Any]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out, lineterminator="\n").writerows([header, *rows])


def read_campus(folder: str | Path) -> Campus:
    """Read what `write_campus` writes, or a housing office's own files of that form.

    Students in no pair are kept with partner -1; a year without a file of pairs has none (it is
    yet to be assigned). Columns other than the questions are passed over. What does not fit is a
    ValueError that names the file, the line and the column.
    """
    place = as_path(folder, "folder")
    questions = _read_questions(place / "questions.csv")
    years = []
    numbers = {file.stem.partition("_")[2] for file in place.glob("students_*.csv")}
    numbers |= {file.stem.partition("_")[2] for file in place.glob("pairs_*.csv")}
    for number in sorted(numbers):
        if not (number.isascii() and number.isdigit()):
            raise ValueError(f"{place}: expected names like students_2010.csv, got {number!r}")
        students, answers = _read_students(place / f"students_{number}.csv", questions)
        pairs = place / f"pairs_{number}.csv"
        partner = np.full(len(students), -1, dtype=np.int64)
        if pairs.is_file():
            partner = _read_pairs(pairs, students)
        years.append(CampusYear(int(number), students, answers, partner))
    if not years:
        raise FileNotFoundError(f"{place}: no files students_YYYY.csv and pairs_YYYY.csv")
    return Campus(questions, years)


def _read_questions(file: Path) -> list[Question]:
    questions: list[Question] = []
    for line, row in _rows(file, ["name", "kind", "levels"]):
        name, kind, count = row["name"], row["kind"], row["levels"]
        if not name or name in [question.name for question in questions]:
            raise ValueError(f"{file}, line {line}, column name: empty or twice: {name!r}")
        if kind not in ("binary", "ordinal"):
            raise ValueError(f"{file}, line {line}, column kind: not binary or ordinal: {kind!r}")
        if not (count.isascii() and count.isdigit() and int(count) >= 2):
            raise ValueError(f"{file}, line {line}, column levels: not a number from 2: {count!r}")
        if kind == "binary" and int(count) != 2:
            raise ValueError(f"{file}, line {line}, column levels: 2 if binary, got {count}")
        labels = tuple(row["labels"].split(";")) if row.get("labels") else None
        if labels is None:
            labels = tuple(str(level) for level in range(int(count)))
        if len(labels) != int(count):
            raise ValueError(
                f"{file}, line {line}, column labels: {len(labels)} for {count} levels"
            )
        questions.append(Question(name, kind, labels))
    if not questions:
        raise ValueError(f"{file}: no questions")
    return questions


def _read_students(file: Path, questions: list[Question]) -> tuple[list[str], Ints]:
    students: dict[str, list[int]] = {}
    for line, row in _rows(file, ["id", *(question.name for question in questions)]):
        if not row["id"] or row["id"] in students:
            raise ValueError(f"{file}, line {line}, column id: empty or twice: {row['id']!r}")
        answers = []
        for question in questions:
            cell = row[question.name].removesuffix(".0")  # spreadsheets write 2.0 beside gaps
            fits = cell.isascii() and cell.isdigit() and int(cell) < question.levels
            if cell and not fits:
                raise ValueError(
                    f"{file}, line {line}, column {question.name}: expected 0 to "
                    f"{question.levels - 1}, or nothing, got {cell!r}"
                )
            answers.append(int(cell) if cell else -1)
        students[row["id"]] = answers
    if not students:
        raise ValueError(f"{file}: no students")
    return list(students), np.array(list(students.values()), dtype=np.int64)


def _read_pairs(file: Path, students: list[str]) -> Ints:
    rows = list(_rows(file, ["id_a", "id_b"]))
    pairs = [(row["id_a"], row["id_b"]) for _, row in rows]
    return partners_from_pairs(students, pairs, [f"{file}, line {line}" for line, _ in rows])


def _rows(file: Path, columns: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and cells by column, in any order of columns."""
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 text: byte {error.start} ({error.reason})") from error
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        missing = [column for column in columns if column not in header]
        if missing or len(set(header)) != len(header):
            found = f"missing: {missing}" if missing else "some column occurs twice"
            raise ValueError(f"{file}, line 1: expected the columns {columns}; {found}")
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise ValueError(
                    f"{file}, line {reader.line_num}: expected {len(header)} cells, "
                    f"got {len(cells)}"
                )
            yield (
                reader.line_num,
                {column: cell.strip() for column, cell in zip(header, cells, strict=True)},
            )
    except csv.Error as error:
        raise ValueError(f"{file}, line {reader.line_num}: {error}") from error
