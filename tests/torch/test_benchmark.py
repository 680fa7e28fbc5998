"""The benchmark of the losses runs, and its rivals are what they are said to be."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'mlestruct[torch]'")

from benchmarks import torch as benchmark  # noqa: E402


def test_the_benchmark_compares_likelihoods(capsys):
    assert benchmark.main(["tagging", "--seeds", "1", "--epochs", "1"]) == 0
    assert "chain likelihood" in capsys.readouterr().out


def test_sinkhorn_of_the_benchmark_normalises():
    table = benchmark.sinkhorn(torch.randn(2, 4, 4, dtype=torch.float64), 200).exp()
    for axis in (1, 2):
        assert torch.allclose(table.sum(axis), torch.ones(2, 4, dtype=torch.float64))


@pytest.mark.skipif(benchmark.torch_struct is None, reason="needs torch-struct")
def test_torch_struct_has_the_same_chain():
    nodes = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    table = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    benchmark._torch_struct(nodes, table)
    expected = nodes.grad.clone()
    marginals = benchmark.ChainNLLLoss().marginals(nodes, table)
    assert torch.allclose(marginals, expected)
