"""The steps of a registered machine, by name, and how each is stored as JSON.

A step's fields go through the codec of arguments, so that they come back as they were given. A step that is
stored in another shape than the code's is an error that shows what is stored.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from types import FunctionType
from typing import Any, get_args, get_origin

from holdfast.codec.complaints import quoted
from holdfast.codec.signature import Signature
from holdfast.domain.job import ARGS_LIMIT, check_name
from holdfast.domain.limit_keys import KindLimit
from holdfast.domain.redaction import Redaction, named
from holdfast.errors import InvalidArguments, InvalidInput, Undecodable
from holdfast.flows.machine import Machine, Step
from holdfast.worker.context import Context


@dataclass(frozen=True, slots=True)
class StepKind:
    """A class of steps under its name in the machine."""

    name: str
    step: type[Step]
    signature: Signature
    takes_context: bool

    def encode(self, step: Step) -> str:
        """Its fields as the text of a JSON object, read back once to be sure of it."""
        return self.signature.encode((), {name: getattr(step, name) for name in _names(self.step)})

    def decode(self, text: str) -> Step:
        return self.step(**self.signature.decode(text))


def stored_step(name: str, fields: str) -> str:
    """A step as the arguments of a machine's job hold it; `fields` is JSON text."""
    return f'{{"step":{json.dumps(name)},"fields":{fields}}}'


class MachineSignature(Signature):
    """What starts a machine: a step. Stored as its name and its fields."""

    __slots__ = ("_by_class", "_by_name", "_machine")

    def __init__(self, machine: type[Machine[Any]], secret_names: tuple[str, ...] = ()) -> None:
        _check(machine)
        super().__init__(_ending(machine), {}, Context, secret_names)
        self.name = machine.__name__
        self._machine = machine
        self._by_name: dict[str, StepKind] = {}
        self._by_class: dict[type, StepKind] = {}
        for name, step in _steps_of(machine).items():
            self._by_name[name] = self._by_class[step] = _kind(machine, name, step, secret_names)
        if not self._by_name:
            raise InvalidInput(f"{self.name} has no steps: write class …(Step) inside of it")

    @property
    def takes_context(self) -> bool:
        return False

    @property
    def names(self) -> frozenset[str]:
        return frozenset({"step", "fields"})

    @property
    def redaction(self) -> Redaction:
        """The secret fields of all steps: a stored step says its name, but is masked without knowing it."""
        steps = [kind.signature.redaction.declared().written() for kind in self._by_name.values()]
        fields = [f"/fields{path}" for paths in steps for path in paths]
        return Redaction.of([*fields, *named(self._secret_names)])

    @property
    def may_hold_secrets(self) -> bool:
        return any(kind.signature.may_hold_secrets for kind in self._by_name.values())

    def json_schema(self) -> dict[str, Any]:
        one_of = [
            {
                "type": "object",
                "properties": {"step": {"const": name}, "fields": kind.signature.json_schema()},
                "required": ["step", "fields"],
            }
            for name, kind in self._by_name.items()
        ]
        return {"oneOf": one_of}

    def resolve(self, localns: Mapping[str, Any] | None = None) -> None:
        super().resolve(localns)
        for kind in self._by_name.values():
            kind.signature.resolve(localns)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, limit: int = ARGS_LIMIT) -> str:
        if kwargs or len(args) != 1:
            raise InvalidArguments(self.name, None, "it is started with one step")
        kind = self.kind_of(args[0])
        text = stored_step(kind.name, kind.encode(args[0]))
        if len(text.encode()) > limit:
            raise InvalidArguments(self.name, None, f"the step takes more than {limit:,} bytes")
        return text

    def decode(self, text: str) -> dict[str, Any]:
        """As it is: a machine that has moved on does not need its first step any more."""
        return {"first": text}

    def keyed(self, text: str) -> str:
        """All fields of a step are stored, those with defaults too."""
        return text

    def limited(self, limit: str, by: tuple[str, ...]) -> KindLimit:
        """By fields of the step that starts the machine."""
        self.check_names(by, f'limit "{limit}"')
        is_secret = any(self.redaction.covers(["fields", name]) for name in by)
        return KindLimit(limit, by, within="fields", is_secret=is_secret)

    def check_names(self, names: Iterable[str], whose: str) -> None:
        """A step that starts the machine must have all of them; which one that is only its caller knows."""
        steps = {name: set(_names(kind.step)) for name, kind in self._by_name.items()}
        wanted = set(names)
        if any(wanted <= fields for fields in steps.values()):
            return
        has = "; ".join(f"{name} has {', '.join(sorted(each)) or 'none'}" for name, each in steps.items())
        raise InvalidInput(
            f"{whose} names {', '.join(sorted(wanted))}, and no step of {self.name} has fields of these "
            f"names: {has}"
        )

    def kind_of(self, step: object) -> StepKind:
        """Under which name the machine knows this step."""
        if kind := self._by_class.get(type(step)):
            return kind
        raise InvalidInput(
            f"{step!r} is not a step of {self.name}, which has {', '.join(self._by_name)}; name the class "
            f"inside of the machine, such as {self.name}.{next(iter(self._by_name))}(…)"
        )

    def kind_named(self, name: str, text: str) -> StepKind:
        """The class of a stored step, or Undecodable with what is stored."""
        if kind := self._by_name.get(name):
            return kind
        raise Undecodable(
            f'{self.name} has no step "{name}", it has {", ".join(self._by_name)}. Its definition has '
            f"probably changed between storing and running. Stored: {quoted(text)}",
            text=text,
        )

    def first(self, text: str) -> tuple[str, str]:
        """Name and fields of the step that a machine was started with."""
        match json.loads(text):
            case {"step": str(name), "fields": dict(given), **more} if not more:
                return name, json.dumps(given, ensure_ascii=False)
        raise Undecodable(
            f'{self.name} is started with {{"step": "…", "fields": {{…}}}}. Stored: {quoted(text)}', text=text
        )


def _check(machine: object) -> None:
    if not isinstance(machine, type) or not issubclass(machine, Machine):
        raise InvalidInput(f"{machine!r} is not a state machine: write class …(Machine)")
    if vars(machine).get("__machine_job__") is not None:
        raise InvalidInput(f"{machine.__qualname__} belongs to an app already")


def _steps_of(machine: type[Machine[Any]]) -> dict[str, type[Step]]:
    """Also those of the machines that it is derived from, in the order in which they are written."""
    members = {name: value for each in reversed(machine.__mro__) for name, value in vars(each).items()}
    return {
        name: value
        for name, value in members.items()
        if isinstance(value, type) and issubclass(value, Step) and value is not Step
    }


def _kind(
    machine: type[Machine[Any]], name: str, step: type[Step], secret_names: tuple[str, ...]
) -> StepKind:
    full = f"{machine.__name__}.{name}"
    check_name("step name", name)
    run = getattr(step, "run", None)
    if not inspect.isfunction(run):
        raise InvalidInput(f"{full} has no method run: it does the step's work, and returns Next or Done")
    taken = list(inspect.signature(run).parameters)[1:]
    if len(taken) > 1:
        raise InvalidInput(f"{full}.run takes {', '.join(taken)}: it is given the Context, or nothing")
    signature = Signature.of(_maker(full, step), context=Context, secret_names=secret_names)
    return StepKind(name, step, signature, takes_context=bool(taken))


def _names(step: type[Step]) -> list[str]:
    return [field.name for field in fields(step) if field.init]  # type: ignore[arg-type]  # every subclass of Step is made a dataclass


def _maker(full: str, step: type[Step]) -> Callable[..., Step]:
    """A function with the step's fields as parameters, at home in the step's module: the codec looks up there
    what annotations name.
    """
    maker = _at_home(full, step)
    taken = inspect.signature(step).parameters.values()
    # By name only: the first one is a field like all others, and no context.
    by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in taken]
    vars(maker)["__signature__"] = inspect.Signature(by_name)
    return maker


def _ending(machine: type[Machine[Any]]) -> Callable[..., Any]:
    """A function that returns what the machine ends with."""
    result: Any = Any
    for base in getattr(machine, "__orig_bases__", ()):
        if get_origin(base) is Machine:
            (result,) = get_args(base)
    ending = _at_home(machine.__name__, machine)
    vars(ending)["__signature__"] = inspect.Signature(return_annotation=result)
    return ending


def _at_home(name: str, owner: type) -> FunctionType:
    def stand_in() -> None:
        """Never called: read for its signature."""

    made = FunctionType(stand_in.__code__, vars(sys.modules[owner.__module__]), name)
    made.__qualname__, made.__module__ = f"{owner.__qualname__}.stand_in", owner.__module__
    return made
