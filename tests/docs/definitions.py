"""The classes and functions of generator, from their source code: signature, docstring, members and types.

Importing them instead would start Node for `generator.components`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from inspect import cleandoc
from pathlib import Path

from tests.conftest import ROOT

_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns):\n((?: {4}.*\n|\n)*)", re.MULTILINE)
_ROW = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_PROPERTIES = {"property", "cached_property"}


@dataclass(frozen=True)
class Docstring:
    """A docstring in Google style.

    Attributes:
        prose: the paragraphs outside of the other sections.
        returns: the section `Returns`; empty if the first sentence describes the result.
        rows: section → name → text, for the sections `Args`, `Attributes` and `Raises`.
    """

    prose: str
    returns: str = ""
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Docstring:
        """Return the sections of a docstring."""
        text = cleandoc(text) + "\n"
        bodies = dict(_SECTION.findall(text))
        returns = _join(bodies.pop("Returns", ""))
        rows = {name: {key: _join(about) for key, about in _ROW.findall(body)} for name, body in bodies.items()}
        return cls(_SECTION.sub("", text).strip(), returns, rows)


@dataclass(frozen=True)
class Definition:
    """A class, function, method or property.

    Attributes:
        name: its name.
        module: the module that defines it.
        signature: `def name(…) -> …` in one line; for a class, `class Name(…)` with its parameters, or else its bases.
        parameters: the names of the arguments, without `self` and `cls`; for a class, of its constructor.
        result: the type that a function returns or a property has; empty for a class.
        docstring: its docstring.
        bases: the base classes.
        members: the public methods and properties of a class.
        is_property: True for a property.
        types: (module, name) of each class of generator that the signature names.
    """

    name: str
    module: str
    signature: str
    parameters: tuple[str, ...]
    result: str
    docstring: Docstring
    bases: tuple[str, ...] = ()
    members: tuple[Definition, ...] = ()
    is_property: bool = False
    types: frozenset[tuple[str, str]] = frozenset()


def define(module: str, name: str) -> Definition:
    """Return the class or function that a module defines or imports.

    Raises:
        LookupError: neither the module nor a module that it imports from has such a class or function.
    """
    match _origin(module, name):
        case (str(home), ast.ClassDef() as statement):
            return _define_class(home, statement)
        case (str(home), ast.FunctionDef() as statement):
            return _define_function(home, statement)
    raise LookupError(f"{module} has no class or function {name}")


def file_of(module: str) -> Path:
    """Return the file of a module."""
    folder = ROOT.joinpath(*module.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


@cache
def _statements(module: str) -> list[ast.stmt]:
    """Return the statements of a module, with those below a top-level `if`."""
    body = ast.parse(file_of(module).read_text("utf-8")).body
    return [part for node in body for part in (node.body if isinstance(node, ast.If) else [node])]


@cache
def _origin(module: str, name: str) -> tuple[str, ast.stmt] | None:
    """Return the module and the statement that define a name in generator; None for another name."""
    for node in _statements(module):
        match node:
            case ast.ImportFrom(module=str(source)) if source.startswith("generator."):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return _origin(source, alias.name)
            case ast.ClassDef() | ast.FunctionDef() if node.name == name:
                return module, node
            case ast.Assign(targets=[ast.Name(id=assigned)]) if assigned == name:
                return module, node
    return None


class _Types(ast.NodeTransformer):
    """Expand the aliases in a type, remove modules and `Annotated`, and collect the classes of generator."""

    def __init__(self, module: str, classes: set[tuple[str, str]]) -> None:
        self.module = module
        self.classes = classes

    def text(self, node: ast.expr | None) -> str:
        """Return the type as text; empty for None."""
        return ast.unparse(self.visit(deepcopy(node))) if node else ""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        home, name = f"generator.{ast.unparse(node.value)}", ast.Name(node.attr)
        return _Types(home, self.classes).visit_Name(name) if file_of(home).exists() else name

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.slice, ast.Tuple) and ast.unparse(node.value) == "Annotated":
            result: ast.AST = self.visit(node.slice.elts[0])
            return result
        whole = self.generic_visit(node)
        match whole:  # an alias with type variables, such as `MappingOf[Name, Image]`
            case ast.Subscript(value=ast.Subscript(value=generic, slice=ast.Tuple(elts=variables)), slice=arguments):
                if all(isinstance(variable, ast.Name) and variable.id.startswith("_") for variable in variables):
                    return ast.Subscript(generic, arguments)
        return whole

    def visit_Name(self, node: ast.Name) -> ast.expr:
        match _origin(self.module, node.id):
            case (str(home), ast.ClassDef(name=name)):
                self.classes.add((home, name))
            case (str(home), ast.Assign(value=ast.Subscript() as alias)):
                expanded: ast.expr = _Types(home, self.classes).visit(deepcopy(alias))
                return expanded
        return node


def _define_function(module: str, node: ast.FunctionDef) -> Definition:
    classes: set[tuple[str, str]] = set()
    types = _Types(module, classes)
    arguments = deepcopy(node.args)
    if arguments.args and arguments.args[0].arg in {"self", "cls"}:
        arguments.args.pop(0)
    named = [*arguments.args, *filter(None, [arguments.vararg]), *arguments.kwonlyargs]
    for argument in named:
        argument.annotation = types.visit(argument.annotation) if argument.annotation else None
    result = types.text(node.returns)
    return Definition(
        node.name,
        module,
        f"def {node.name}({ast.unparse(arguments)}) -> {result}",
        tuple(argument.arg for argument in named),
        result,
        Docstring.parse(ast.get_docstring(node) or ""),
        is_property=not _PROPERTIES.isdisjoint(map(ast.unparse, node.decorator_list)),
        types=frozenset(classes),
    )


def _define_class(module: str, node: ast.ClassDef) -> Definition:
    functions = [_define_function(module, part) for part in node.body if isinstance(part, ast.FunctionDef)]
    classes: set[tuple[str, str]] = set()
    creator = next((function for function in functions if function.name == "__init__"), None)
    bases = tuple(_Types(module, set()).text(base) for base in node.bases)
    if creator:
        classes |= creator.types
        arguments = creator.signature.removeprefix("def __init__(").removesuffix(") -> None")
        parameters = creator.parameters
    else:
        fields = dict(_fields(module, node, classes))
        keyword_only = ["*"] if "Section" in bases else []
        arguments, parameters = ", ".join([*keyword_only, *fields.values()] if fields else bases), tuple(fields)
    return Definition(
        node.name,
        module,
        f"class {node.name}({arguments})",
        parameters,
        "",
        Docstring.parse(ast.get_docstring(node) or ""),
        bases=bases,
        members=tuple(function for function in functions if not function.name.startswith("_")),
        types=frozenset(classes),
    )


def _fields(module: str, node: ast.ClassDef, classes: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the name and the declaration of each field of a class and its base classes."""
    for base in node.bases:
        match _origin(module, ast.unparse(base)):
            case (str(home), ast.ClassDef() as parent):
                yield from _fields(home, parent, classes)
    types = _Types(module, classes)
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=declared) if not (
                name.startswith("_") or ast.unparse(declared).startswith("ClassVar")
            ):
                default = _default(part.value)
                yield name, f"{name}: {types.text(declared)}" + (f" = {default}" if default else "")


def _default(value: ast.expr | None) -> str:
    """Return the default of a field as text; empty if the field is required."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in {"field", "Field"}):
        return ast.unparse(value) if value else ""
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in value.keywords}
    made = f"{options['default_factory']}()" if "default_factory" in options else options.get("default", "")
    return {"dict()": "{}", "list()": "[]"}.get(made, made)


def _join(text: str) -> str:
    return " ".join(text.split())
