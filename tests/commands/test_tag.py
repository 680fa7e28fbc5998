"""`mlestruct tag` and `mlestruct predict`: sentences in columns."""

import io
import json
from itertools import chain

import numpy as np
import pytest

from mlestruct import BipartiteMatchingCRF, ChainCRF
from mlestruct.cli import main
from mlestruct.datasets import make_people
from mlestruct.tagging import read_sentences


def addresses(n, seed):
    """Lines of addresses, some without a town, some with the number last."""
    rng = np.random.default_rng(seed)
    left, _, _ = make_people(n, missing=0.0, random_state=seed)
    lines = []
    for street, town in zip(left["street"], left["town"], strict=True):
        number, name, kind = street.split()
        parts = [(number, "NUMBER"), (name, "STREET"), (kind, "KIND"), (town.title(), "TOWN")]
        parts = parts[: 3 + int(rng.random() < 0.8)]
        if rng.random() < 0.3:
            parts = [*parts[1:3], parts[0], *parts[3:]]
        lines += [f"{word}\t{label}" for word, label in parts] + [""]
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.tsv").write_text(addresses(60, 0))
    (tmp_path / "test.tsv").write_text(addresses(40, 1))
    return tmp_path


def test_learn_judge_and_apply(folder, capsys):
    arguments = ["tag", "train.tsv", "-m", "model.mls", "--test", "test.tsv"]
    assert main(arguments) == 0
    spoken = capsys.readouterr()
    assert spoken.out == ""
    assert "% of the words in test.tsv right" in spoken.err.splitlines()[0]
    assert main([*arguments, "--json", "--quiet", "--alpha", "0.1", "--strict"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["test_accuracy"] > 0.95
    assert summary["labels"] == 4
    assert summary["classes"] == ["KIND", "NUMBER", "STREET", "TOWN"]

    assert main(["predict", "model.mls", "test.tsv", "-o", "tagged.tsv", "--top", "2"]) == 0
    tagged = read_sentences((folder / "tagged.tsv").read_text().splitlines(), "tagged.tsv")
    truth = read_sentences((folder / "test.tsv").read_text().splitlines(), "test.tsv")
    pairs = list(zip(chain(*tagged), chain(*truth), strict=True))
    assert all(found[0] == true[0] for found, true in pairs)
    right = [found[1] == true[1] for found, true in pairs]
    assert np.mean(right) == pytest.approx(summary["test_accuracy"])
    first = tagged[0][0]
    assert len(first) == 7  # word, label and probability, twice an alternative and its probability
    assert float(first[4]) >= float(first[6])


def test_the_test_file_is_judged_by_label(folder, capsys):
    """Against counts of the answers that `mlestruct predict` writes."""
    lines = (folder / "test.tsv").read_text().splitlines()
    lines[0] = lines[0].split("\t")[0] + "\tFLOOR"  # which training has not
    lines[1] = lines[1].split("\t")[0] + "\t"  # not known
    lines[4:8] = [line.split("\t")[0] + "\tNUMBER" if line else "" for line in lines[4:8]]
    (folder / "test.tsv").write_text("\n".join(lines) + "\n")
    learn = ["tag", "train.tsv", "-m", "model.mls", "--test", "test.tsv", "--alpha", "1"]
    assert main([*learn, "--json"]) == 0
    spoken = capsys.readouterr()
    summary = json.loads(spoken.out)
    assert main(["predict", "model.mls", "test.tsv", "-o", "tagged.tsv"]) == 0
    answers = [line.split("\t")[1] for line in (folder / "tagged.tsv").read_text().splitlines()
               if line]  # fmt: skip
    truth = [line.split("\t")[1] for line in lines if line]
    pairs = [(y, a) for y, a in zip(truth, answers, strict=True) if y]
    assert set(summary["test_labels"]) == {y for pair in pairs for y in pair}
    for name, row in summary["test_labels"].items():
        right = sum(y == a == name for y, a in pairs)
        n_true, n_found = sum(y == name for y, _ in pairs), sum(a == name for _, a in pairs)
        assert row["words"] == n_true
        assert row["precision"] == (pytest.approx(right / n_found) if n_found else None)
        assert row["recall"] == pytest.approx(right / n_true)
        assert row["f1"] == pytest.approx(2 * right / (n_true + n_found))
        line = next(li for li in spoken.err.splitlines() if li.startswith(f"{name} "))
        assert line.split()[2:] == [f"{row['recall']:.3f}", f"{row['f1']:.3f}", str(n_true)]
    assert summary["test_labels"]["FLOOR"] == {
        "precision": None, "recall": 0.0, "f1": 0.0, "words": 1
    }  # fmt: skip
    assert summary["test_labels_not_in_training"] == ["FLOOR"]
    assert "Labels in test.tsv that train.tsv has not: FLOOR." in spoken.err
    (folder / "test.tsv").write_text("a\t\n")
    assert main(learn) == 1
    assert "test.tsv: no label is known" in capsys.readouterr().err
    assert main([*learn[:4], "--alpha", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_labels"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "train.tsv: has no tokens"),
        (b"word\n", "train.tsv: one column only"),
        (b"a\tX\nb\tc\tX\n", "train.tsv, line 2: 3 columns, but the lines before have 2"),
        (b"M\xfcller\tX\n", "train.tsv: not UTF-8"),
        (b"a\tX\n\nb\tX\n", "train.tsv: "),  # one label: nothing to learn
    ],
)
def test_malformed_sentences(folder, capsys, content, message):
    (folder / "train.tsv").write_bytes(content)
    assert main(["tag", "train.tsv", "-m", "model.mls", "--alpha", "1"]) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "model.mls").exists()


def test_predict_says_what_it_takes(folder, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 3, 3, 2))
    BipartiteMatchingCRF().fit(X, [rng.permutation(3) for _ in X]).save("matching.mls")
    assert main(["predict", "matching.mls", "train.tsv"]) == 1
    assert "a BipartiteMatchingCRF predicts from arrays" in capsys.readouterr().err
    words = [[{"a": 1.0}, {"b": 1.0}]] * 2
    ChainCRF().fit(words, [["A", "B"]] * 2).save("chain.mls")
    assert main(["predict", "chain.mls", "train.jsonl"]) == 1
    assert "a ChainCRF predicts in Python; for files learn a" in capsys.readouterr().err
    assert main(["tag", "train.tsv", "-m", "model.mls", "--alpha", "1", "--quiet"]) == 0
    (folder / "wide.tsv").write_text("a b c d\n")
    assert main(["predict", "model.mls", "wide.tsv"]) == 1
    assert "wide.tsv: 4 columns, but the model has 1 column" in capsys.readouterr().err
    assert main(["predict", "model.mls", "nowhere.tsv"]) == 1
    assert "nowhere.tsv: there is no such file" in capsys.readouterr().err


def test_predict_links_tables(folder, capsys):
    left, right, links = make_people(60, random_state=0)
    left.to_csv("left.csv")
    right.to_csv("right.csv")
    links.iloc[:30].to_csv("known.csv", index=False)
    known = ["--known", "known.csv", "--alpha", "1", "-m", "model.mls", "--quiet"]
    assert main(["link", "left.csv", "right.csv", *known]) == 0
    linked = capsys.readouterr().out
    tables = ["left.csv", "right.csv", "--known", "known.csv"]
    assert main(["predict", "model.mls", *tables]) == 0
    assert capsys.readouterr().out == linked
    assert main(["predict", "model.mls", "left.csv"]) == 2


def test_features_as_json_lines(folder, capsys):
    def lines(name):
        sentences = read_sentences((folder / name).read_text().splitlines(), name)
        return [
            {"x": [{"word": w, "first": k == 0, "length": float(len(w))} for k, (w, _) in
                   enumerate(s)], "y": [label for _, label in s]}
            for s in sentences
        ]  # fmt: skip

    for name in ("train", "test"):
        text = "\n".join(json.dumps(line) for line in lines(f"{name}.tsv"))
        (folder / f"{name}.jsonl").write_text(text + "\n")
    learn = ["tag", "train.jsonl", "-m", "model.mls", "--test", "test.jsonl", "--alpha", "0.1"]
    assert main([*learn, "--json", "--quiet"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["test_accuracy"] > 0.8
    assert main(["predict", "model.mls", "test.jsonl", "-o", "found.jsonl", "--top", "2"]) == 0
    found = [json.loads(line) for line in (folder / "found.jsonl").read_text().splitlines()]
    truth = lines("test.tsv")
    right = [a == b for one, other in zip(found, truth, strict=True)
             for a, b in zip(one["y"], other["y"], strict=True)]  # fmt: skip
    assert np.mean(right) == pytest.approx(summary["test_accuracy"])
    assert all(len(two) == 2 for one in found for two in one["alternatives"])
    assert main(["predict", "model.mls", "test.tsv"]) == 1
    assert "but the model has features (JSON lines)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1", "train.jsonl, line 1: not JSON"),
        ('{"y": []}', "line 1: expected an object with a list"),
        ('{"x": ["a"], "y": ["b"]}', "line 1: tokens in"),
        ('{"x": [{"a": 1}], "y": []}', 'line 1: expected a list "y" of 1 labels'),
        ('{"x": [{"a": 1}]}', "train.jsonl: no sentence has labels"),
        ("", "train.jsonl: has no tokens"),
    ],
)
def test_malformed_json_lines(folder, capsys, text, message):
    (folder / "train.jsonl").write_text(text)
    assert main(["tag", "train.jsonl", "-m", "model.mls", "--alpha", "1"]) == 1
    assert message in capsys.readouterr().err


def test_labels_that_are_not_known(folder, capsys):
    """Empty cells and null are no class, are not learned from and not judged by."""
    sentences = read_sentences((folder / "train.tsv").read_text().splitlines(), "train.tsv")
    hidden = [[label if (k + m) % 3 else None for k, (_, label) in enumerate(s)]
              for m, s in enumerate(sentences)]  # fmt: skip
    columns, objects = [], []
    for sentence, labels in zip(sentences, hidden, strict=True):
        words = [word for word, _ in sentence]
        columns += [f"{w}\t{y or ''}" for w, y in zip(words, labels, strict=True)] + [""]
        objects.append(json.dumps({"x": [{"word": w} for w in words], "y": labels}))
    (folder / "part.tsv").write_text("\n".join(columns))
    (folder / "part.jsonl").write_text("\n".join(objects))
    n_hidden = sum(y is None for labels in hidden for y in labels)
    for name in ("part.tsv", "part.jsonl"):
        learn = ["tag", name, "-m", "model.mls", "--alpha", "0.1", "--test", name]
        assert main([*learn, "--json"]) == 0
        spoken = capsys.readouterr()
        summary = json.loads(spoken.out)
        assert summary["classes"] == ["KIND", "NUMBER", "STREET", "TOWN"]
        assert summary["unlabelled"] == n_hidden
        assert summary["test_accuracy"] > 0.9
        assert "4 labels (KIND, NUMBER, STREET, TOWN) from 60 sentences" in spoken.err
        assert f"words, {n_hidden} without a label." in spoken.err


@pytest.mark.parametrize("option", ["--known", "--accept", "--precision", "--id"])
def test_options_that_would_do_nothing_are_refused(folder, capsys, option):
    assert main(["tag", "train.tsv", "-m", "tagger.mls", "--alpha", "1", "--quiet"]) == 0
    assert main(["predict", "tagger.mls", "train.tsv", option, "0.5"]) == 2
    assert f"{option}: only for models of link" in capsys.readouterr().err
    if option != "--precision":
        assert main(["report", "tagger.mls", "train.tsv", option, "0.5"]) == 2


def test_standard_input_is_read_once(folder, capsys, monkeypatch):
    text = (folder / "train.tsv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["tag", "-", "-m", "model.mls", "--alpha", "1", "--test", "-"]) == 1
    assert capsys.readouterr().err == "mlestruct: standard input: has no tokens\n"


def test_json_lines_may_begin_with_a_byte_order_mark(folder):
    line = '{"x": [{"a": 1}, {"b": 1}], "y": ["A", "B"]}\n'
    (folder / "train.jsonl").write_text(line, encoding="utf-8-sig")
    assert main(["tag", "train.jsonl", "-m", "model.mls", "--alpha", "1", "--quiet"]) == 0


def test_one_sentence_needs_a_number_for_alpha(folder, capsys):
    (folder / "train.tsv").write_text("a X\nb Y\n")
    assert main(["tag", "train.tsv", "-m", "model.mls"]) == 1
    assert "train.tsv: alpha: to choose it by cross-validation needs" in capsys.readouterr().err


def test_bio_labels(folder, capsys):
    text = "Mary B-PER\nAnn I-PER\nran O\n\nthe O\ndog O\n\nBob B-PER\nran O\n\n" * 4
    (folder / "train.tsv").write_text(text)
    learn = ["tag", "train.tsv", "-m", "model.mls", "--alpha", "1", "--quiet", "--bio"]
    assert main(learn) == 0
    (folder / "new.tsv").write_text("Ann\nAnn\nran\n")
    assert main(["predict", "model.mls", "new.tsv"]) == 0
    labels = [line.split("\t")[1] for line in capsys.readouterr().out.splitlines() if line]
    assert labels[0] != "I-PER"
    (folder / "train.tsv").write_text(text + "Ann I-PER\n")
    assert main(learn) == 1
    assert "train.tsv: Y[12]: begins with I-PER" in capsys.readouterr().err
