"""A mapping file: which column of a table is which field, which rows count, what the arms are."""

from collections.abc import Mapping

import msgspec

from twoarm.programs.folder import SourceError, only_file
from twoarm.programs.format import Condition
from twoarm.text.escape import named, visible

CONDITION = "write COLUMN=VALUE or COLUMN!=VALUE"


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    arm_key: str | None = None
    arms: dict[str, str] = {}
    columns: dict[str, str] = {}
    where: list[str] = []
    input_includes_cache: bool = False


class TableMapping(msgspec.Struct, frozen=True, kw_only=True):
    """What a mapping file says; the options of the command line can say the same."""

    arm_key: str | None
    arms: Mapping[str, str]
    columns: Mapping[str, str]
    where: tuple[Condition, ...]
    input_includes_cache: bool


NO_MAPPING = TableMapping(arm_key=None, arms={}, columns={}, where=(), input_includes_cache=False)


def read_mapping(path: str) -> TableMapping:
    """A TOML file with the keys of `TableMapping`."""
    import tomllib

    folder, name = only_file(path, "a mapping file")
    where = folder.where(name)
    try:
        file = msgspec.convert(tomllib.loads(folder.read(name).decode("utf-8")), _File)
    except UnicodeDecodeError as error:
        raise SourceError(where, "not UTF-8; save the mapping as UTF-8") from error
    except (msgspec.ValidationError, RecursionError) as error:
        raise SourceError(where, f"not a mapping: {visible(str(error))}") from error
    except ValueError as error:
        raise SourceError(where, f"not TOML: {visible(str(error))}") from error
    conditions = []
    for text in file.where:
        condition = parse_condition(text)
        if condition is None:
            raise SourceError(where, f"where {named(text)}: {CONDITION}")
        conditions.append(condition)
    return TableMapping(
        arm_key=file.arm_key,
        arms=file.arms,
        columns=file.columns,
        where=tuple(conditions),
        input_includes_cache=file.input_includes_cache,
    )


def parse_condition(text: str) -> Condition | None:
    """`COLUMN=VALUE` or `COLUMN!=VALUE`; the value may be empty. None if it is neither."""
    column, equals, value = text.partition("=")
    equal = not column.endswith("!")
    column = column if equal else column[:-1]
    return Condition(column=column, value=value, equal=equal) if column and equals else None
