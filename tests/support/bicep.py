"""Bicep files as plain values: what they declare and refer to, as far as can be seen without a compiler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import tree_sitter
import tree_sitter_bicep

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bicep.language()))


@dataclass(frozen=True)
class Expression:
    """Whatever is no literal: its text, and the node it was read from."""

    text: str
    node: tree_sitter.Node = field(compare=False, repr=False)


Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value] | Expression | None"


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One param, var, resource, module or output."""

    kind: str
    name: str
    #: A resource's type and version, or a module's file.
    target: str
    value: Value
    node: tree_sitter.Node = field(compare=False, repr=False)


class BicepError(Exception):
    """A file does not parse."""


@dataclass(frozen=True, kw_only=True)
class BicepFile:
    path: Path
    root: tree_sitter.Node = field(repr=False)
    declarations: tuple[Declaration, ...]

    def of(self, kind: str) -> list[Declaration]:
        return [one for one in self.declarations if one.kind == kind]

    def named(self, name: str) -> Declaration:
        return next(one for one in self.declarations if one.name == name)


def parse(path: Path, text: str | None = None) -> BicepFile:
    source = path.read_text(encoding="utf-8") if text is None else text
    root = PARSER.parse(source.encode()).root_node
    if root.has_error:
        broken = next(node for node in walk(root) if node.is_error or node.is_missing)
        raise BicepError(f"{path.name}:{broken.start_point.row + 1}: does not parse")
    found = [_declaration(node) for node in root.children if node.type.endswith("_declaration")]
    return BicepFile(path=path, root=root, declarations=tuple(found))


def walk(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def text_of(node: tree_sitter.Node) -> str:
    return (node.text or b"").decode()


def _declaration(node: tree_sitter.Node) -> Declaration:
    kind = node.type.removesuffix("_declaration")
    names = [child for child in node.named_children if child.type == "identifier"]
    rest = [child for child in node.named_children if child.type != "type" and child.id != names[0].id]
    target = ""
    if kind in ("resource", "module"):
        target, rest = str(value_of(rest[0])), rest[1:]
    given = [child for child in rest if child.type not in ("nullable_return_type", "comment", "diagnostic_comment")]
    return Declaration(
        kind=kind, name=text_of(names[0]), target=target, value=value_of(given[-1]) if given else None, node=node
    )


def value_of(node: tree_sitter.Node) -> Value:
    """The value of a literal, with everything else left as an expression. Loops and conditions give their body."""
    if node.type == "object":
        return dict(_property(child) for child in node.named_children if child.type == "object_property")
    if node.type == "array":
        return [value_of(child) for child in node.named_children if child.type not in ("comment", "diagnostic_comment")]
    if node.type == "string" and not any(child.type == "interpolation" for child in node.named_children):
        return text_of(node)[1:-1].replace("\\\\", "\0").replace("\\'", "'").replace("\0", "\\")
    if node.type == "number":
        return int(text_of(node))
    if node.type == "boolean":
        return text_of(node) == "true"
    if node.type == "for_statement":
        body = node.child_by_field_name("body")
        return [value_of(body if body is not None else node.named_children[-1])]
    if node.type == "if_statement":
        return value_of(node.named_children[-1])
    return Expression(text=text_of(node), node=node)


def _property(node: tree_sitter.Node) -> tuple[str, Value]:
    key, value = node.named_children[0], node.named_children[-1]
    return (text_of(key).strip("'"), value_of(value))


def unresolved(file: BicepFile) -> list[str]:
    """Names that nothing declares, as `line: name`."""
    known = {one.name for one in file.declarations} | FUNCTIONS
    return sorted(_unresolved(file.root, known))


#: Functions of Bicep that these files may call.
FUNCTIONS = {
    "empty", "environment", "guid", "items", "resourceGroup", "subscription", "subscriptionResourceId", "toLower",
    "union", "uniqueString",
}  # fmt: skip


def _unresolved(node: tree_sitter.Node, known: set[str]) -> Iterator[str]:
    if node.type in ("decorators", "type", "property_identifier"):
        return
    if node.type == "for_statement":
        variable = node.child_by_field_name("initializer")
        known = known | ({text_of(variable)} if variable is not None else set())
    if node.type == "identifier" and text_of(node) not in known:
        yield f"line {node.start_point.row + 1}: {text_of(node)}"
    # What an object calls its properties is no reference.
    skip = node.named_children[0].id if node.type == "object_property" else None
    for child in node.children:
        if child.id != skip:
            yield from _unresolved(child, known)


def outputs_asked_of_modules(file: BicepFile) -> list[tuple[str, str]]:
    """(module, output) for every `module.outputs.output`."""
    modules = {one.name for one in file.of("module")}
    found = []
    for node in walk(file.root):
        parts = text_of(node).split(".") if node.type == "member_expression" else []
        if len(parts) == 3 and parts[0] in modules and parts[1] == "outputs":
            found.append((parts[0], parts[2]))
    return found
