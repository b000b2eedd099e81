# ===- config.py - configuration files ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Reads a configuration file (TOML, JSON or YAML) into checked dataclasses: an unknown key, a missing one or a value of the
# wrong type is an InputError that names the file, the key and what was expected.
#
# ===--------------------------------------------------------===#
"""Configuration files of models and jobs."""

import dataclasses
import json
import pathlib
import typing
from typing import Any, Dict, Type, TypeVar

from .command import InputError, read_text

__all__ = ["build", "read_table"]

T = TypeVar("T")


def read_table(path: pathlib.Path) -> Dict[str, Any]:
    """The table that a file holds, by its suffix: .toml, .json, or .yaml / .yml (which needs PyYAML)."""
    suffix = path.suffix.lower()
    text = read_text(path)
    try:
        if suffix == ".toml":
            try:
                import tomllib
            except ModuleNotFoundError:
                raise InputError(f"'{path}': reading TOML needs Python 3.11 or newer; write it as JSON") from None
            table = tomllib.loads(text)
        elif suffix == ".json":
            table = json.loads(text)
        elif suffix in (".yaml", ".yml"):
            try:
                import yaml
            except ModuleNotFoundError:
                raise InputError(
                    f"'{path}': reading YAML needs PyYAML (pip install pyyaml); TOML needs nothing"
                ) from None
            try:
                table = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise InputError(f"'{path}' is not YAML: {' '.join(str(error).split())}") from None
        else:
            raise InputError(f"expected a file named .toml, .json, .yaml or .yml, but got '{path}'")
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'{path}' is not {suffix[1:].upper()}: {error}") from None
    if not isinstance(table, dict):
        raise InputError(f"'{path}': expected a table of keys, but got {type(table).__name__}")
    return table


def build(kind: Type[T], table: Any, where: str) -> T:
    """A dataclass from a table. Keys are the fields' names; a field without a default is required.

    Fields are int, float, str, bool, a tuple of those, another dataclass, or Optional of one; a value that is a field's
    dataclass already is taken. Ints must be positive or zero; a dataclass checks more in `__post_init__` by raising
    InputError.
    """
    if not isinstance(table, dict):
        raise InputError(f"{where}: expected a table, but got {table!r}")
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for key in table:
        if key not in fields:
            raise InputError(f"{where}: unknown key '{key}', expected one of {', '.join(fields)}")
    values = {}
    for name, field in fields.items():
        if name in table:
            values[name] = _value(hints[name], table[name], f"{where}: '{name}'")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InputError(f"{where}: expected a key '{name}'")
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _value(hint: Any, value: Any, where: str) -> Any:
    """A value checked against the type of its field."""
    origin = typing.get_origin(hint)
    if origin is typing.Union:
        inner = [argument for argument in typing.get_args(hint) if argument is not type(None)]
        return _value(inner[0], value, where)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{where}: expected a list, but got {value!r}")
        return tuple(_value(typing.get_args(hint)[0], entry, where) for entry in value)
    if dataclasses.is_dataclass(hint):
        if isinstance(value, hint):
            return value
        return build(hint, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not hint:
        raise InputError(f"{where}: expected {_WORDS.get(hint, hint.__name__)}, but got {value!r}")
    if hint is int and value < 0:
        raise InputError(f"{where}: expected 0 or more, but got {value}")
    return value
