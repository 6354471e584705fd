from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbench.generation.campaign.spec import CampaignSpec, read_spec, runs_of
from kbench.schemas import DataError, UnknownNameError, UserError


def test_a_spec_names_one_run_for_every_cell() -> None:
    spec = CampaignSpec(problems=["matmul_square"], backends=["triton"], random_seeds=[0, 1])
    runs, uncovered = runs_of(spec)
    assert uncovered == []
    assert len({run.run_id for run in runs}) == len(runs) == 5 * 2
    assert {run.search_method for run in runs} == {"random", "hill_climb", "evolve", "puct", "puct+surrogate"}


def test_overrides_change_single_problems() -> None:
    spec = CampaignSpec(
        problems=["matmul_square", "matmul_batched"], backends=["triton"], methods=["random"],
        overrides={"matmul_square": {"batch": 7, "budget": {"measurements": 99}}},
    )  # fmt: skip
    one, two = runs_of(spec)[0]
    assert (one.batch, one.budget.measurements) == (7, 99)
    assert (two.batch, two.budget.measurements) == (4, 12)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "a campaign is a JSON object"),
        ("{", "not JSON"),
        ('{"backends": ["hip"], "problems": ["matmul_square"]}', "backend 'hip'"),
        ('{"settings": {"patients": 3}, "problems": ["matmul_square"]}', "unknown setting 'patients'"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(DataError, match=message):
        runs_of(read_spec(tmp_path / "c.json"))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"budget": {"measurments": 4}}, "campaign.budget has unknown field 'measurments'"),
        ({"budget": 4}, "campaign.budget is 4; it must be an object"),
        ({"budget": {"measurements": "4"}}, "campaign.budget.measurements is '4' (str); it must be int"),
        ({"budget": {"measurements": 0.5}}, "campaign.budget.measurements is 0.5 (float); it must be int"),
        ({"budget": {"measurements": -4}}, "campaign.budget.measurements is -4; it must be more than 0"),
        ({"budget": {"gpu_seconds": float("nan")}}, "campaign.budget.gpu_seconds is nan; it must be finite"),
        ({"seeds": "4"}, "campaign.seeds is '4' (str); it must be int"),
        ({"seeds": 2.5}, "campaign.seeds is 2.5 (float); it must be int"),
        ({"seeds": 0}, "campaign.softmax.seeds is 0; it must be at least 1"),
        ({"batch": True}, "campaign.batch is True (bool); it must be int"),
        ({"random_seeds": 0}, "campaign.random_seeds is 0; it must be a list"),
        ({"random_seeds": ["0"]}, "campaign.random_seeds[0] is '0' (str); it must be int"),
        ({"problems": "softmax"}, "campaign.problems is 'softmax'; it must be a list"),
        ({"draw": "3x"}, "campaign.draw is '3x' (str); it must be int"),
        ({"draw": 1, "methods": ["puct+surrogate"]}, "campaign.softmax.filter.draw is 1; it must be at least 2"),
        ({"settings": []}, "campaign.settings is []; it must be an object"),
        ({"settings": {"patience": "3"}}, "campaign.softmax.patience is '3' (str); it must be int"),
        ({"settings": {"exploration": float("inf")}}, "campaign.softmax.exploration is inf; it must be finite"),
        ({"settings": {"budget": 4}}, "campaign.settings.budget is 4; it must be an object"),
        ({"overrides": []}, "campaign.overrides is []; it must be an object"),
        ({"overrides": {"softmax": 4}}, "campaign.overrides.softmax is 4; it must be an object"),
        ({"overrides": {"softmax": {"method": "puct"}}}, "campaign.overrides.softmax has unknown setting 'method'"),
        ({"overrides": {"sofmax": {"batch": 2}}}, "unknown problem 'sofmax'; did you mean 'softmax'"),
        ({"overrides": {"matmul_square": {}}}, "campaign.overrides names 'matmul_square', which is not among"),
        ({"order": "names"}, "campaign.order is 'names'; it must be one of rounds, problems"),
        ({"methods": ["none"]}, "unknown method 'none'; known: bayes, evolve, hill_climb, puct, random"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_field_is_one_line_with_its_name_and_value(
    tmp_path: Path, field: dict[str, object], message: str
) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"problems": ["softmax"]} | field))
    with pytest.raises(UserError) as caught:
        runs_of(read_spec(tmp_path / "c.json"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_campaign_that_is_no_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.json"):
        with pytest.raises(UserError, match=f"campaign file '{path}' cannot be read"):
            read_spec(path)


@pytest.mark.parametrize(
    "field",
    [
        {"problems": ["matmul_sqare"]},
        {"problems": ["fp8_quant_float32"]},
        {"problems": ["matmul_square"], "methods": ["anneal"]},
    ],
)
def test_unknown_names_in_a_spec_are_named(tmp_path: Path, field: dict[str, list[str]]) -> None:
    (tmp_path / "c.json").write_text(json.dumps(field))
    with pytest.raises(UnknownNameError):
        runs_of(read_spec(tmp_path / "c.json"))


def test_the_example_campaign_is_valid() -> None:
    assert runs_of(read_spec(Path(__file__).parents[2] / "examples" / "campaign.json"))[0]
