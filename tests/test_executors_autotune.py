"""Each configuration of an autotuned kernel is a kernel to be judged."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import harness
import references
from harness.errors import HarnessError
from harness.jobs import Budget, Local, judge, plan
from harness.jobs.messages import UnderTest
from harness.search import replay

DOMAIN = {"ndim": (1, 2), "dim": "last", "max_elements": 2000, "finite": True}


def tuned(*configs):
    """A launcher of row sums by an autotuned kernel; without LOOP it fits rows up to BLOCK."""
    stages = [config.pop("num_stages", 3) for config in configs]
    usual = {"MASK": True, "LOOP": False}

    @triton.autotune(
        configs=[
            triton.Config({**usual, **config}, num_stages=each)
            for config, each in zip(configs, stages, strict=True)
        ],
        key=["n"],
    )
    @triton.jit
    def sum_kernel(x, y, n, BLOCK: tl.constexpr, MASK: tl.constexpr, LOOP: tl.constexpr):
        row, index = tl.program_id(0), tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n if LOOP else BLOCK, BLOCK):
            if MASK:
                total += tl.load(x + row * n + start + index, mask=start + index < n, other=0.0)
            else:
                total += tl.load(x + row * n + start + index)
        tl.store(y + row, tl.sum(total, 0))

    def row_sum(x, dim):
        x = x.contiguous()
        rows = x.reshape(-1, x.shape[-1]) if x.numel() else x.new_zeros(x.shape[:-1].numel(), 1)
        y = torch.empty(len(rows), dtype=x.dtype)
        if len(rows):
            sum_kernel[(len(rows),)](rows, y, rows.shape[1])
        return y.reshape(x.shape[:-1])

    return row_sum


def checked(fn, examples=100, **options):
    return harness.check(fn, references.sum, "float32", domain=DOMAIN, examples=examples, **options)


def test_a_kernel_of_which_every_configuration_is_right_passes():
    assert checked(
        tuned({"BLOCK": 64, "LOOP": True}, {"BLOCK": 256, "LOOP": True}, {"BLOCK": 2048}), shrink=False
    ).ok


@pytest.mark.parametrize("blocks", [(2048, 64), (64, 2048)], ids=str)
def test_a_configuration_that_is_wrong_is_found_and_its_replay_shows_it(blocks):
    fn = tuned(*({"BLOCK": block} for block in blocks))
    verdict = checked(fn)
    (finding,) = verdict.findings
    assert finding.check == "accuracy" and finding.case.sizes == {"*shape": (65,)}
    assert ("in configuration 1 of sum_kernel (MASK: True, LOOP: False, BLOCK: 64, " in finding.message) == (
        blocks[1] == 64
    )
    assert verdict.claim == ""
    (again,) = replay(fn, references.sum, finding.case).findings
    assert (again.check, again.message) == (finding.check, finding.message)


def test_what_a_configuration_reads_outside_is_found():
    verdict = checked(tuned({"BLOCK": 2048}, {"BLOCK": 2048, "MASK": False}), shrink=False)
    assert "undefined values" in {finding.check for finding in verdict.findings}
    assert all("in configuration 1 of sum_kernel" in finding.message for finding in verdict.findings)


def test_configurations_take_turns_or_are_all_judged():
    many = [*({"BLOCK": 2048, "num_stages": stages} for stages in range(1, 20)), {"BLOCK": 64}]
    some = checked(tuned(*map(dict, many)), examples=300, shrink=False)
    every = checked(tuned(*map(dict, many)), shrink=False, configs="all")
    for verdict in (some, every):
        assert "in configuration 19 of sum_kernel" in verdict.findings[0].message
    assert every.tallies["float32"].launches <= some.tallies["float32"].launches
    with pytest.raises(HarnessError, match="configs='every': write configs='all'"):
        checked(tuned(*map(dict, many)), configs="every")


def test_the_command_line_passes_it_on(monkeypatch):
    seen = []

    def check(*args, **kwargs):
        seen.append(kwargs["configs"])
        raise HarnessError("seen")

    monkeypatch.setattr("harness.search.check", check)
    for configs in ("", "all"):
        under = UnderTest(target="tests/test_executors_autotune.py:row_sum", contract="sum", configs=configs)
        with pytest.raises(HarnessError, match="seen"):
            judge(Local(), plan(Local(), under), Budget(examples=1), lambda event: None)
    assert seen == [None, "all"]


row_sum = tuned({"BLOCK": 2048})
