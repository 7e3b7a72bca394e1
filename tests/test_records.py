"""Verdicts as JSON: nothing is lost, and nothing else is read."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness import records
from harness.case import Case, Recipe, Row
from harness.errors import HarnessError
from harness.layouts import Layout
from harness.records import Environment, SavedFinding, VerdictRecord
from harness.verdict import Finding, Tally, Verdict

HERE = Environment(versions={"harness": "0.1.0"}, device_name="a processor", system="Linux x86_64")


def a_case(seed: int = 3, **scalars: Any) -> Case:
    planted = Row(
        "uniform", seed=seed, params=(("lo", -1.5), ("n", 2)), plant=((1, "nan"), (-1, "-0x1.8p+0"))
    )
    recipe = Recipe(
        "float16", Layout((1, 0), (2, 1), (0, 3), offset=1), (planted, Row("literal", values=("inf",)))
    )
    return Case(
        {"*shape": (2, 3), "N": 5}, {"dim": -1, "window": (1, None), **scalars}, {"x": recipe, "weight": None}
    )


def a_finding(check: str = "accuracy", fmt: str = "float16", **changes: Any) -> Finding:
    fields = {
        "element": (0, 2),
        "replay": "harness replay 'a b.py:f' --case '{}'",
        "snippet": "import torch\nf(x)",
        "explanation": "right if claims={'dot': 'tf32'}",
        "output": "lse",
        **changes,
    }
    return Finding(check, "out[0, 2] is 1, exact 2 …\nsecond line", a_case(), format=fmt, **fields)


def a_full_tally() -> Tally:
    """A tally none of whose fields has its default, so that a field left out of the record shows."""
    values: dict[str, Any] = {}
    for number, item in enumerate(dataclasses.fields(Tally), start=2):
        default = getattr(Tally(), item.name)
        if isinstance(default, Counter):
            values[item.name] = Counter({f"{item.name} — why": number})
        elif isinstance(default, bool):
            values[item.name] = True
        elif item.name == "largest_ratio_case":
            values[item.name] = a_case(number)
        else:
            values[item.name] = type(default)(number)
    values["seconds"] = Counter({"kernel": 0.25})
    return Tally(**values)


def a_verdict(**changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "subject": "kernels/softmax.py:softmax",
        "contract": "softmax",
        "device": "cpu",
        "findings": (a_finding(), a_finding("layout", element=None), a_finding("raises", "bfloat16")),
        "tallies": {
            "float16": a_full_tally(),
            "bfloat16": Tally(launches=1),
            "float32": Tally(largest_ratio=0.1),
        },
        "claims": {"depth": "sequential", "roundings": ("shifted", "total"), "ulp": {"exp": 3.0}},
        "excluded": ("ndim=(1, 2)", "finite=True"),
        "seed": 7,
        "interrupted": True,
    }
    return Verdict(**{**fields, **changes})


def round_trip(verdict: Verdict, tmp_path: Path) -> Verdict:
    path = tmp_path / "deep" / "verdict.json"
    records.write(path, records.record(verdict, {"ndim": (1, 2)}, HERE))
    return records.read(path, VerdictRecord).verdict()


def test_a_verdict_read_back_equals_the_one_written(tmp_path: Path) -> None:
    verdict = a_verdict()
    back = round_trip(verdict, tmp_path)
    assert back == verdict
    assert str(back) == str(verdict)
    assert [finding.case.digest for finding in back.findings] == [
        finding.case.digest for finding in verdict.findings
    ]


def test_every_field_of_a_finding_and_of_a_tally_is_recorded() -> None:
    finding = set(records.FindingRecord.__struct_fields__) | {"format"}
    assert finding == {item.name for item in dataclasses.fields(Finding)}
    tally = set(records.FormatRecord.__struct_fields__) - {"format", "outcome", "reason", "findings"}
    assert tally == {item.name for item in dataclasses.fields(Tally)}


def test_an_infinite_ratio_survives(tmp_path: Path) -> None:
    verdict = a_verdict(tallies={"float16": Tally(largest_ratio=math.inf), "bfloat16": Tally()})
    assert round_trip(verdict, tmp_path).tallies["float16"].largest_ratio == math.inf


def test_the_json_can_be_read_without_the_harness(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    records.write(path, records.record(a_verdict(), {"ndim": (1, 2)}, HERE))
    data = json.loads(path.read_text())
    assert data["outcome"] == "FAIL"
    assert data["domain"] == {"ndim": [1, 2]}
    first = data["formats"][0]
    assert (first["format"], first["outcome"]) == ("float16", "FAIL")
    assert first["findings"][0]["case"]["tensors"]["x"]["format"] == "float16"
    assert data["formats"][2]["reason"] == "nothing was judged"
    assert not [part for part in tmp_path.iterdir() if part.name.endswith(".part")]


def test_the_environment_names_versions_and_processor() -> None:
    here = records.environment("cpu")
    assert {"harness", "python", "torch", "numpy", "hypothesis"} <= set(here.versions)
    assert here.device_name and here.system


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 2}, "schema"),
        ({"outcome": "GOOD"}, "outcome"),
        ({"colour": 1}, "unknown field `colour`"),
        ({"formats": [{"format": "float16"}]}, "missing required field"),
    ],
)
def test_anything_else_is_refused_with_its_place(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "verdict.json"
    records.write(path, records.record(a_verdict(), None, HERE))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(HarnessError, match="is no verdict record") as caught:
        records.read(path, VerdictRecord)
    assert words in str(caught.value)


def test_a_missing_file_and_a_broken_one_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"cannot read .*No such file"):
        records.read(tmp_path / "none.json", VerdictRecord)
    (tmp_path / "broken.json").write_text('{"schema": 1, ')
    with pytest.raises(HarnessError, match=r"broken\.json.* is no saved finding: .*truncated"):
        records.read(tmp_path / "broken.json", SavedFinding)


def test_a_saved_finding_has_a_telling_name_and_is_saved_once(tmp_path: Path) -> None:
    saved = SavedFinding(
        schema=1,
        target="f.py:f",
        contract="my_file.py:fused",
        device="cpu",
        claims={},
        domain={"finite": True},
        format="float16",
        finding=records.finding_record(a_finding("special values")),
        environment=HERE,
    )
    path = records.save_finding(tmp_path, saved)
    assert path == records.save_finding(tmp_path, saved)
    assert path.parent == tmp_path / "findings"
    assert path.name == f"my-file-py-fused-float16-special-values-{a_case().digest}.json"
    assert records.read(path, SavedFinding).finding.case == a_case()


def test_verdicts_on_formats_join_into_one() -> None:
    half = a_verdict(findings=(a_finding(),), tallies={"float16": a_full_tally()}, interrupted=False)
    brain = a_verdict(findings=(a_finding("raises", "bfloat16"),), tallies={"bfloat16": Tally(launches=1)})
    whole = records.joined([half, brain])
    assert list(whole.tallies) == ["float16", "bfloat16"]
    assert whole.findings == half.findings + brain.findings
    assert whole.interrupted
    with pytest.raises(ValueError, match="two verdicts on float16"):
        records.joined([half, half])


def test_a_case_in_a_file_has_no_field_that_no_case_has(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    records.write(path, records.record(a_verdict(), None, HERE))
    given = json.loads(path.read_text())
    given["formats"][0]["findings"][0]["case"]["tensors"]["x"]["foo"] = 1
    path.write_text(json.dumps(given))
    with pytest.raises(
        HarnessError, match=r"verdict\.json': tensor 'x' has 'foo'; known: format, layout, rows"
    ):
        records.read(path, VerdictRecord)
