from harness.errors import HarnessError, Unsupported, nearest


def test_nearest_names_the_closest_and_lets_the_message_continue() -> None:
    assert nearest("sotfmax", ["sum", "softmax", "logsumexp"]) == "did you mean 'softmax'? "


def test_nearest_is_silent_when_nothing_is_close() -> None:
    assert nearest("attention", ["sum", "prod"]) == ""
    assert nearest("sum", []) == ""


def test_of_several_the_nearest_length_counts() -> None:
    assert nearest("tf33", ["ieee", "tf32x3", "tf32", "bf16"]) == "did you mean 'tf32'? "


def test_nearest_takes_what_is_no_string() -> None:
    assert nearest(16, ["17", "float16"]) == ""
    assert nearest(None, ["Nonne"]) == "did you mean 'Nonne'? "


def test_declining_is_no_usage_error() -> None:
    assert not issubclass(Unsupported, HarnessError)
    assert not issubclass(HarnessError, Unsupported)
