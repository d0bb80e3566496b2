import stat
from pathlib import Path

import pytest

from local.host.errors import ConfigurationError
from local.host.keys import Keys, load_or_create, new_keys


@pytest.fixture
def keys() -> Keys:
    return Keys(
        master="m" * 20, host={"default": "h" * 20}, system={"durabletask_extension": "s" * 20},
        functions={"orders": {"default": "f" * 20}},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("level", "given", "expected"),
    [
        ("anonymous", None, True),
        ("function", None, False),
        ("function", "", False),
        ("function", "wrong", False),
        ("function", "f" * 20, True),
        ("function", "h" * 20, True),
        ("function", "m" * 20, True),
        ("admin", "h" * 20, False),
        ("admin", "f" * 20, False),
        ("admin", "m" * 20, True),
        ("function", "\udcff", False),
    ],
)
def test_each_level_opens_to_its_keys(keys: Keys, level: str, given: str | None, expected: bool) -> None:
    assert expected is keys.allows(level, "orders", given)


def test_a_function_key_opens_no_other_function(keys: Keys) -> None:
    assert not keys.allows("function", "other", "f" * 20)


def test_system_endpoints_open_to_system_and_master_key(keys: Keys) -> None:
    accepted = [keys.allows_system("durabletask_extension", key) for key in ("s" * 20, "m" * 20, "h" * 20, None)]
    assert [True, True, False, False] == accepted


def test_keys_are_kept_for_the_owner_alone_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "keys.json"
    made = load_or_create(path)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert made == load_or_create(path)
    assert [path] == list(path.parent.iterdir())


def test_a_key_file_others_may_read_is_closed_again(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    load_or_create(path)
    path.chmod(0o644)
    load_or_create(path)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("text", ["", "{}", '{"master": "short", "host": {}, "system": {}}', "[]"])
def test_a_damaged_key_file_is_one_clear_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="key file"):
        load_or_create(path)


def test_keys_are_never_shown() -> None:
    keys = new_keys()
    assert keys.master not in repr(keys)
    assert keys.development not in repr(keys)
