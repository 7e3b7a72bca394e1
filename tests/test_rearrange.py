"""The same values in other layouts: what stays, what changes, and what a trial makes of it."""

from __future__ import annotations

import numpy as np
import torch

import references
from harness import search
from harness.arithmetic import Arithmetic
from harness.case import Case, Recipe, Row, logical_values, shape_of
from harness.domain import Domain
from harness.layouts import Layout, channels_last
from harness.rearrange import rearranged
from harness.trial import Subject, run_trial


def plane(layout: Layout) -> Case:
    recipe = Recipe("float32", layout, (Row("gaussian", seed=3),))
    return Case({"*shape": (3, 4, 5, 2)}, {"dim": -1}, {"x": recipe})


CASE = plane(Layout.contiguous(4))


def layouts_of(case: Case, domain: Domain, numbers: range) -> set[Layout]:
    found = set()
    for number in numbers:
        recipe = rearranged(references.softmax, case, domain, number).tensors["x"]
        assert recipe is not None
        found.add(recipe.layout)
    return found


def test_values_stay_and_every_kind_of_layout_comes() -> None:
    exact = logical_values(references.softmax, CASE, "x")
    names = set()
    for number in range(0, 4000, 13):
        moved = rearranged(references.softmax, CASE, Domain(), number)
        recipe = moved.tensors["x"]
        assert recipe is not None and recipe.layout != Layout.contiguous(4) and not recipe.layout.expand
        assert np.array_equal(logical_values(references.softmax, moved, "x"), exact)
        names.add(recipe.layout.name)
    assert names == {"transposed", "permuted", "step", "offset", "padded", "combined"}
    assert channels_last(4) in layouts_of(CASE, Domain(), range(0, 4000, 13))


def test_a_domain_and_an_expanded_axis_are_kept() -> None:
    assert layouts_of(CASE, Domain(layouts=("contiguous", "offset")), range(0, 2000, 7)) == {
        Layout((0, 1, 2, 3), offset=offset) for offset in (1, 16, 3, 7)
    }
    assert rearranged(references.softmax, CASE, Domain(layouts=("contiguous",)), 5) == CASE
    expanded = plane(Layout((0, 1, 2, 3), expand=(1,)))
    assert rearranged(references.softmax, expanded, Domain(), 5) == expanded


def test_channels_last_are_the_fastest_axis() -> None:
    x = torch.empty(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert channels_last(4).strides((2, 3, 4, 5)) == x.stride()


def wrong_where_it_is_no_row_of_another(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Right for contiguous tensors alone."""
    return torch.softmax(x.double() * (1 if x.is_contiguous() else 2), dim).to(x.dtype)


def subject(function: object, **claims: object) -> Subject:
    return Subject(function, "kernel", references.softmax, Arithmetic(**claims))  # type: ignore[arg-type]


def cases(layout: Layout) -> list[Case]:
    """Cases that differ in their values, and so in which other layouts they take."""
    sizes, scalars = CASE.sizes, CASE.scalars
    rows = [(Row("gaussian", seed),) for seed in range(12)]
    return [Case(sizes, scalars, {"x": Recipe("float32", layout, row)}) for row in rows]


def test_a_trial_of_a_contiguous_case_tells_of_the_layout_that_is_wrong() -> None:
    found = []
    for case in cases(Layout.contiguous(4)):
        trial = run_trial(subject(wrong_where_it_is_no_row_of_another), case)
        for failure in trial.failures:
            recipe = trial.case.tensors["x"]
            assert recipe is not None and recipe.layout.name not in ("contiguous", "offset")
            assert shape_of(references.softmax, trial.case, "x") == (3, 4, 5, 2)
            assert failure.check == "layout" and "a contiguous copy is right" in failure.message
            found.append(failure)
    assert len(found) > 6


def test_a_trial_of_a_view_tells_plainly_of_a_contiguous_path_that_is_wrong() -> None:
    def wrong_where_contiguous(x: torch.Tensor, dim: int) -> torch.Tensor:
        return torch.softmax(x.double() * (2 if x.is_contiguous() else 1), dim).to(x.dtype)

    found = [
        (failure.check, trial.case.tensors["x"].layout.name)  # type: ignore[union-attr]
        for case in cases(Layout((0, 1, 3, 2)))
        for trial in [run_trial(subject(wrong_where_contiguous), case)]
        for failure in trial.failures
    ]
    assert ("accuracy", "contiguous") in found and {check for check, _ in found} == {"accuracy"}


def test_what_depends_on_the_order_of_calls_is_told_as_such() -> None:
    kept: list[tuple[int, ...]] = []

    def planned(x: torch.Tensor, dim: int) -> torch.Tensor:
        kept.append(x.stride())
        return torch.softmax(torch.as_strided(x, x.shape, kept[0], x.storage_offset()).double(), dim).to(
            x.dtype
        )

    texts = set()
    for case in cases(Layout.contiguous(4)):
        kept.clear()
        for failure in run_trial(subject(planned), case).failures:
            texts.add(failure.check)
    assert texts and texts <= {"layout", "surroundings", "accuracy", "special values", "out of bounds"}


def test_a_claim_of_invariance_is_held_in_any_layout() -> None:
    def by_layout(x: torch.Tensor, dim: int) -> torch.Tensor:
        exact = torch.softmax(x.double(), dim)
        return (exact * (1 if x.is_contiguous() else 1 + 2.0**-23)).to(x.dtype)

    plain, claimed = subject(by_layout), subject(by_layout, layout_invariant=True)
    failures = []
    for case in cases(Layout.contiguous(4)):
        assert run_trial(plain, case).passed
        failures += run_trial(claimed, case, thorough=False).failures
    assert len(failures) > 6
    assert all(failure.check == "layout" and "layout_invariant" in failure.message for failure in failures)


def test_a_replay_shows_the_case_that_is_wrong() -> None:
    """Where the contiguous path is wrong, the replay of a view tells of contiguous tensors."""

    def wrong_where_contiguous(x: torch.Tensor, dim: int) -> torch.Tensor:
        return torch.softmax(x.double() * (2 if x.is_contiguous() else 1), dim).to(x.dtype)

    layouts = set()
    for case in cases(Layout((0, 1, 3, 2))):
        for found in search.replay(wrong_where_contiguous, references.softmax, case).findings:
            layouts.add(found.case.tensors["x"].layout.name)  # type: ignore[union-attr]
    assert "contiguous" in layouts and "transposed" not in layouts


def test_what_fails_in_other_layouts_is_launched_there_once() -> None:
    """A kernel that raises there may have broken a device, which nothing more is launched on."""
    for case in cases(Layout.contiguous(4)):
        seen = []

        def raising(x: torch.Tensor, dim: int, seen: list[bool] = seen) -> torch.Tensor:
            seen.append(x.is_contiguous())
            if not x.is_contiguous():
                raise RuntimeError("no views")
            return torch.softmax(x.double(), dim).to(x.dtype)

        trial = run_trial(subject(raising), case)
        assert seen.count(False) <= 1 and len(trial.failures) == seen.count(False)
        assert not trial.failures or trial.case != case
