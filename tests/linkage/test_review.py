"""Questions about pairs, answers in a file, and the server that asks: without a browser."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from mlestruct.cli import main
from mlestruct.datasets import make_people
from mlestruct.exceptions import FileProblem
from mlestruct.linkage import RecordLinker, review
from mlestruct.linkage.answer_file import AnswerFile
from mlestruct.linkage.known import KnownRow, KnownRows, known_rows
from mlestruct.linkage.review import Contradiction, Review, marked
from mlestruct.linkage.review_server import ReviewServer


@pytest.fixture(scope="module")
def people():
    left, right, links = make_people(
        120, household=0.6, errors=0.25, missing=0.1, overlap=0.7, random_state=0
    )
    return left, right, set(map(tuple, links.to_numpy()))


@pytest.fixture
def asked(people, tmp_path):
    """A review that has learned, in a file that does not exist yet."""
    found = Review(*people[:2], AnswerFile(str(tmp_path / "a.csv")), KnownRows([]), RecordLinker)
    found.learn()
    return found


@pytest.fixture
def served(asked):
    server = ReviewServer(asked, "mlestruct link")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def pair_of(state):
    return state["question"]["left"], state["question"]["right"]


def rows_of(asked):
    table = asked.answers.read()
    return list(zip(table["left"], table["right"], table["checked"], strict=True))


# ---------------------------------------------------------------------- questions
def test_questions_are_doubtful_and_of_different_groups(asked):
    pairs = asked._model.pairs.set_index(["left", "right"])
    groups = []
    for _ in range(4):
        state = asked.state("one")
        pair = pair_of(state)
        chance = pairs.loc[pair, "probability"]
        assert state["question"]["probability"] == pytest.approx(chance)
        assert 0.1 < chance < 0.9
        groups.append(pairs.loc[pair, "group"])
        asked.answer(*pair, "")
    assert len(set(groups)) == len(groups)


def test_a_question_has_cells_and_competing_candidates(asked, people):
    left, right, _ = people
    for _ in range(10):
        found = asked.state("one")["question"]
        for side, table in (("left", left), ("right", right)):
            for column in found["columns"]:
                cell = "".join(text for text, _ in column[side])
                assert cell == table.loc[found[side], column["name"]]
        pairs = asked._model.pairs
        own = pairs[(pairs["left"] == found["left"]) & (pairs["right"] != found["right"])]
        expected = own.nlargest(review.RIVALS, "probability")["right"].tolist()
        assert [one["id"] for one in found["rivals"]["left"]] == expected
        asked.answer(found["left"], found["right"], "")


def test_two_tabs_have_different_questions_and_keep_them(asked):
    one, two = pair_of(asked.state("one")), pair_of(asked.state("two"))
    assert one != two
    assert pair_of(asked.state("one")) == one
    asked.answer(*one, "no")  # from the page of the other tab
    assert pair_of(asked.state("one")) not in (one, two)


def test_no_question_is_left_if_nothing_is_doubtful(asked, monkeypatch):
    monkeypatch.setattr(review, "CLEAR", 0.5)
    state = asked.state("one")
    assert state["question"] is None
    assert state["progress"]["links"] > 0


@pytest.mark.parametrize(
    ("one", "other", "differing", "compare"),
    [
        ("Anna", "anna", [[], []], "same"),
        ("", "anna", [[], []], "missing"),
        ("47 cliff street", "19 birch street", [["47", "cliff"], ["19", "birch"]], "similar"),
        ("grantham", "granthaam", [[], ["a"]], "similar"),
        ("maria", "zoe", [["maria"], ["zoe"]], "different"),
        ("İzmir", "izmir", [["İ"], ["i"]], "similar"),  # two letters when folded
    ],
)
def test_marks(one, other, differing, compare):
    found = marked(one, other)
    assert ["".join(text for text, _ in found[side]) for side in ("left", "right")] == [one, other]
    assert [[text for text, differs in found[side] if differs] for side in ("left", "right")] == (
        differing
    )
    assert found["compare"] == compare


# ---------------------------------------------------------------------- answers
def test_answers_are_written_at_once_and_taken_back(asked):
    pair = pair_of(asked.state("one"))
    asked.answer(*pair, "yes")
    assert rows_of(asked) == [(*pair, "yes")]
    asked.answer(*pair, "yes")  # pressed twice
    assert rows_of(asked) == [(*pair, "yes")]
    assert asked.state("one")["progress"]["last"] == [*pair, "yes"]
    asked.undo("one", *pair)
    assert rows_of(asked) == []
    assert pair_of(asked.state("one")) == pair  # and it is asked again
    asked.answer(*pair, "no")
    assert rows_of(asked) == [(*pair, "no")]


def test_answers_that_contradict_are_refused(asked):
    left, right = pair_of(asked.state("one"))
    other = next(key for key in asked.right.index if key != right)
    asked.answer(left, right, "yes")
    with pytest.raises(Contradiction, match=f"{left} is linked to {right} already"):
        asked.answer(left, other, "yes")
    with pytest.raises(Contradiction, match="have the answer yes already"):
        asked.answer(left, right, "no")
    with pytest.raises(Contradiction, match="There is no record nobody"):
        asked.answer("nobody", right, "yes")
    assert rows_of(asked) == [(left, right, "yes")]


def test_a_skipped_pair_may_be_answered_later(asked):
    pair = pair_of(asked.state("one"))
    asked.answer(*pair, "")
    assert pair_of(asked.state("one")) != pair
    asked.answer(*pair, "yes")
    assert rows_of(asked) == [(*pair, "yes")]


def test_a_review_goes_on_where_it_ended(asked, people):
    pairs = []
    for says in ("yes", "no", ""):
        pairs.append(pair_of(asked.state("one")))
        asked.answer(*pairs[-1], says)
    again = Review(*people[:2], AnswerFile(asked.answers.path), KnownRows([]), RecordLinker)
    again.learn()
    state = again.state("other")
    assert (state["progress"]["yes"], state["progress"]["no"]) == (1, 1)
    assert pair_of(state) not in pairs
    links = again._model.pairs
    assert links.set_index(["left", "right"]).loc[pairs[0], "probability"] == 1.0
    assert pairs[1] not in set(zip(links["left"], links["right"], strict=True))


def test_link_reads_the_answers_with_the_probabilities_that_were_shown(asked):
    shown = []
    for says in ("yes", "no", "yes", ""):
        found = asked.state("one")["question"]
        asked.answer(found["left"], found["right"], says)
        if says:
            shown.append(found["probability"])
    found = known_rows(pd.read_csv(asked.answers.path, dtype=str, keep_default_na=False))
    assert [row.is_link for row in found.rows] == [True, False, True]
    assert (found.passed_over, found.unmarked) == (1, 0)
    np.testing.assert_allclose([row.shown for row in found.rows], shown, rtol=1e-5)
    assert found.reviewed().expected == pytest.approx(sum(shown), rel=1e-5)


def test_answers_of_two_processes_at_once_are_all_kept(tmp_path):
    path = tmp_path / "a.csv"
    program = (
        "import sys; from mlestruct.linkage.answer_file import AnswerFile\n"
        "file = AnswerFile(sys.argv[1])\n"
        "for k in range(25): file.add(sys.argv[2] + str(k), str(k), 'yes', .5)"
    )
    ours = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in "pq"]
    file = AnswerFile(str(path))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda k: file.add(f"r{k}", str(k), "no", 0.5), range(25)))
    assert [one.wait(timeout=60) for one in ours] == [0, 0]
    assert sorted(file.read()["left"]) == sorted(f"{name}{k}" for name in "pqr" for k in range(25))
    assert os.listdir(tmp_path) == ["a.csv"]


def test_ids_that_a_spreadsheet_would_run(tmp_path):
    file = AnswerFile(str(tmp_path / "a.csv"))
    file.add("=1+1", "@x", "yes", 0.5)
    file.add("-2", "y", "no", 0.5)
    assert b"\n'=1+1,'@x," in (tmp_path / "a.csv").read_bytes()
    assert file.read()["left"].tolist() == ["=1+1", "-2"]
    file.remove("=1+1", "@x")
    assert file.read()["left"].tolist() == ["-2"]


def test_files_that_are_not_answers_are_refused(tmp_path, people):
    path = tmp_path / "a.csv"
    path.write_text("left,right\na1,b1\n")
    with pytest.raises(FileProblem, match="no column 'checked'"):
        AnswerFile(str(path)).read()
    path.write_text("left,right,checked\nnobody,b1,yes\n")
    with pytest.raises(ValueError, match="no id 'nobody'"):
        Review(*people[:2], AnswerFile(str(path)), KnownRows([]), RecordLinker)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        AnswerFile(str(tmp_path / "none" / "a.csv"))


# ---------------------------------------------------------------------- learning
def test_the_model_is_fitted_again_in_the_background(asked, people):
    stop = asked.start()
    before = asked._model
    for _ in range(review.EVERY):
        pair = pair_of(asked.state("one"))
        asked.answer(*pair, "yes" if pair in people[2] else "no")
    end = time.monotonic() + 60
    while asked.state("one")["progress"]["learning"] and time.monotonic() < end:
        time.sleep(0.05)
    stop()
    assert asked._model is not before
    assert asked._model.n_answers == review.EVERY
    assert asked.state("one")["progress"]["error"] == ""


def test_an_error_in_the_background_is_shown_and_questions_go_on(asked, monkeypatch):
    monkeypatch.setattr(asked, "learn", lambda: 1 / 0)
    stop = asked.start()
    for _ in range(review.EVERY):
        asked.answer(*pair_of(asked.state("one")), "no")
    end = time.monotonic() + 60
    while not asked.error and time.monotonic() < end:
        time.sleep(0.02)
    state = asked.state("one")
    stop()
    assert state["progress"]["error"] == "division by zero"
    assert not state["progress"]["learning"]
    assert state["question"] is not None


def test_known_links_are_not_asked_about(people, tmp_path):
    left, right, true = people
    rows = [KnownRow(*pair, True, "known", k) for k, pair in enumerate(sorted(true)[:40])]
    found = Review(left, right, AnswerFile(str(tmp_path / "a.csv")), KnownRows(rows), RecordLinker)
    found.learn()
    lefts = {row.left for row in rows}
    for _ in range(20):
        state = found.state("one")
        if state["question"] is None:
            break
        assert state["question"]["left"] not in lefts
        found.answer(*pair_of(state), "")


# ---------------------------------------------------------------------- server
def ask(server, method="POST", path="state", body=None, host=None, token=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    where = f"/{server.token if token is None else token}/{path}"
    headers = {"Host": host or f"127.0.0.1:{server.server_port}", **headers}
    content = json.dumps({"tab": "t"} if body is None else body)
    connection.request(method, where, content if method == "POST" else None, headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def test_the_page_and_its_parts_are_served(served):
    for name, start in (("", "<!doctype html>"), ("review.js", '"use strict"'), ("style.css", ":")):
        status, text, headers = ask(served, "GET", name)
        assert (status, text.startswith(start)) == (200, True)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    status, text, _ = ask(served)
    found = json.loads(text)
    assert status == 200
    body = {"tab": "t", "left": found["question"]["left"], "right": found["question"]["right"]}
    again = json.loads(ask(served, path="answer", body={**body, "says": "no"})[1])
    assert again["progress"]["no"] == 1
    undone = json.loads(ask(served, path="undo", body=body)[1])
    assert undone["question"]["left"] == body["left"]
    wrong = json.loads(ask(served, path="answer", body={**body, "left": "x", "says": "no"})[1])
    assert wrong["message"] == "There is no record x."


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_strangers_are_refused(served, method):
    home = f"http://127.0.0.1:{served.server_port}"
    name = "" if method == "GET" else "state"
    assert ask(served, method, name, Origin=home)[0] == 200
    assert ask(served, method, name, Origin="http://evil.example")[0] == 403
    assert ask(served, method, name, Origin="null")[0] == 403
    assert ask(served, method, name, host="evil.example")[0] == 403
    assert ask(served, method, name, token="guess")[0] == 403
    assert ask(served, method, name, token="gu%C3%9F")[0] == 403
    assert ask(served, "GET", "../review.py")[0] == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("state", {}),
        ("state", []),
        ("state", {"tab": 1}),
        ("delete", {"tab": "t"}),
        ("answer", {"tab": "t", "left": "a1", "right": "b1", "says": "maybe"}),
        ("answer", {"tab": "t", "left": "a1", "right": "b1"}),
        ("answer", {"tab": "x" * 200_000}),
    ],
)
def test_requests_that_make_no_sense_are_refused(served, path, body):
    status, text, _ = ask(served, path=path, body=body)
    assert status == 400
    assert "Not understood" in text
    assert rows_of(served.review) == []


def test_a_spoilt_file_is_named(served):
    with open(served.review.answers.path, "w") as file:
        file.write("left,right\na,b\n")
    status, text, _ = ask(served)
    assert status == 500
    assert "no column 'checked'" in text


# ---------------------------------------------------------------------- command
def test_the_command_says_how_to_go_on(people, tmp_path, monkeypatch):
    for name, table in zip(("left", "right"), people[:2], strict=True):
        table.rename_axis("id").to_csv(tmp_path / f"{name}.csv")
    words = [
        "review",
        "left.csv",
        "right.csv",
        "-o",
        "my answers.csv",
        "--columns",
        "surname,birth",
    ]
    program = "import sys; from mlestruct.cli import main; sys.exit(main())"
    running = subprocess.Popen(
        [sys.executable, "-c", program, *words], cwd=tmp_path, text=True, stdout=subprocess.PIPE
    )
    first = running.stdout.readline()
    assert "http://127.0.0.1:" in first
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    again = "left.csv right.csv --columns surname,birth -o 'my answers.csv'"
    assert f"To go on: mlestruct review {again}" in rest
    assert "mlestruct link left.csv right.csv --known 'my answers.csv'" in rest


@pytest.mark.parametrize("out", ["-", "a.parquet", "left.csv"])
def test_answers_need_a_file_of_their_own(people, tmp_path, monkeypatch, capsys, out):
    monkeypatch.chdir(tmp_path)
    for name, table in zip(("left", "right"), people[:2], strict=True):
        table.rename_axis("id").to_csv(f"{name}.csv")
    assert main(["review", "left.csv", "right.csv", "-o", out]) == 2
    assert "-o" in capsys.readouterr().err
