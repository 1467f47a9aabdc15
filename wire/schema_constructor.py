"""The constructor of a declared struct, compiled when the first one is made: of 400 classes a broker makes a few dozen."""

from __future__ import annotations

from typing import Any, Final

from stratalog.wire.schema_fields import FieldSpec

__all__ = ["construct"]

_NOT_GIVEN: Final = object()


def construct(struct: Any, /, *unnamed: object, **given: object) -> None:
    """Stand in as ``__init__`` of a class that has no constructor yet: give it one and call that.

    Raises `TypeError` as any constructor does: a field without a default is missing, an argument is unknown or unnamed.
    """
    cls = type(struct)
    if cls.__init__ is construct:
        cls.__init__ = _compiled(cls.__qualname__, cls.fields_declared)
    cls.__init__(struct, *unnamed, **given)


def _compiled(owner: str, specs: tuple[FieldSpec, ...]) -> Any:
    """A function whose keyword-only arguments are the fields. A list and a struct are made anew for each caller."""
    arguments, lines = [], []
    names: dict[str, Any] = {"NOT_GIVEN": _NOT_GIVEN}
    for spec in specs:
        name, default = spec.name, f"default_{spec.name}"
        made = list if isinstance(spec.default, list) else spec.default
        if spec.required:
            arguments.append(name)
            lines.append(f" self.{name} = {name}")
        elif isinstance(made, type):
            names[default] = made
            arguments.append(f"{name}=NOT_GIVEN")
            lines.append(f" self.{name} = {default}() if {name} is NOT_GIVEN else {name}")
        else:
            names[default] = made
            arguments.append(f"{name}={default}")
            lines.append(f" self.{name} = {name}")
    head = ", ".join(["self", *(["*", *arguments] if arguments else [])])
    exec("\n".join([f"def __init__({head}):", *lines, " return"]), names)  # noqa: S102 - our own text
    constructor = names["__init__"]
    constructor.__qualname__ = f"{owner}.__init__"
    return constructor
