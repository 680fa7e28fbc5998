"""Benchmarks of multi-label classification and Ising models run from end to end."""

from benchmarks import ising, multi_label


def test_all_methods_are_compared(capsys):
    command = ["--sets", "tumours", "--samples", "120", "--alphas", "1"]
    assert multi_label.main(command) == 0
    printed = capsys.readouterr().out
    for name in multi_label.METHODS:
        assert name in printed


def test_exact_inference_attains_the_maximum(capsys):
    assert ising.main(["likelihood", "--sizes", "4", "6"]) == 0
    printed = capsys.readouterr().out
    assert "pseudo-likelihood" in printed
    assert "ising: pass" in printed


def test_ensembles_are_recovered(capsys):
    command = ["ensembles", "--seeds", "1", "--shuffles", "6", "--frames", "1500"]
    command += ["--neurons", "30"]
    assert ising.main(command) == 0
    assert "recall" in capsys.readouterr().out
