"""XML from strangers, read into a small tree: no DTD, no entities, bounded depth and number of elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from local.broker.errors import InvalidDescription

from .names import INSTANCE

DEPTH_MAX = 32
ELEMENTS_MAX = 5000
_SEPARATOR = "\n"


@dataclass(slots=True)
class Element:
    namespace: str
    name: str
    #: By (namespace, name).
    attributes: dict[tuple[str, str], str]
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def is_nil(self) -> bool:
        return self.attributes.get((INSTANCE, "nil"), "").strip().lower() in ("true", "1")

    @property
    def type(self) -> str:
        """The local part of xsi:type; empty when there is none."""
        return self.attributes.get((INSTANCE, "type"), "").strip().rpartition(":")[2]

    def child(self, namespace: str, name: str) -> Element | None:
        return next((child for child in self.children if (child.namespace, child.name) == (namespace, name)), None)


def read_xml(body: bytes) -> Element:
    """InvalidDescription for anything that is not plain, reasonable XML."""
    reader = _Reader()
    try:
        reader.parser.Parse(body, True)
    except expat.ExpatError as error:
        raise InvalidDescription(f"The body is not well-formed XML: {error}.") from error
    except (ValueError, LookupError) as error:
        raise InvalidDescription(f"The encoding of the body is not supported: {error}.") from error
    assert reader.root is not None
    return reader.root


class _Reader:
    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._count = 0
        self.parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) >= DEPTH_MAX or self._count > ELEMENTS_MAX:
            raise InvalidDescription(f"The body has more than {ELEMENTS_MAX} elements or {DEPTH_MAX} levels.")
        namespace, name = _split(tag)
        element = Element(namespace, name, {_split(key): value for key, value in attributes.items()})
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, tag: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        self._open[-1].pieces.append(text)

    def _refuse_doctype(self, *declaration: object) -> None:
        raise InvalidDescription("A document type declaration is not allowed in the body.")


def _split(tag: str) -> tuple[str, str]:
    namespace, _, name = tag.rpartition(_SEPARATOR)
    return namespace, name
