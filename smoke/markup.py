"""An HTML document out of elements: what is text stays text, whatever it says. Pure."""

import base64
import hashlib
import json
from collections.abc import Iterable
from unicodedata import category
from xml.etree import ElementTree as ET

Element = ET.Element
#: kinds of characters that cannot be seen, may turn others around, or that no document may hold
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: what ends a script element, opens a comment in it, or ends a line of a script
_IN_SCRIPT = {one: f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}


def el(tag: str, *children: Element | str | None, **attributes: str) -> Element:
    """An element. `class_` is `class`, `data_x` is `data-x`; a child that is None is left out."""
    element = Element(tag, {name.rstrip("_").replace("_", "-"): seen(text) for name, text in attributes.items()})
    last: Element | None = None
    for child in children:
        if child is None:
            continue
        if isinstance(child, Element):
            element.append(child)
            last = child
        elif last is None:
            element.text = (element.text or "") + seen(child)
        else:
            last.tail = (last.tail or "") + seen(child)
    return element


def seen(text: str) -> str:
    """The text with its unseen characters shown, as the drawing shows them: no name can look like another one."""
    return "".join(
        one if one in "\n\t" or category(one) not in _UNSEEN else f"\u27e8U+{ord(one):04X}\u27e9" for one in text
    )


def raw(tag: str, text: str, **attributes: str) -> Element:
    """A `script` or `style` element with this text as it is: for our own files and for `in_script` alone."""
    element = Element(tag, {name.rstrip("_"): value for name, value in attributes.items()})
    element.text = text
    return element


def in_script(data: object) -> str:
    """JSON that can stand in a script element: no end of script, no comment, no line end can be read out of it."""
    return "".join(_IN_SCRIPT.get(one, one) for one in json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """The content security policy of a document that runs exactly these scripts and styles, and loads nothing."""
    return (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {' '.join(map(_hash, styles))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def document(html: Element) -> str:
    """The text of the whole document."""
    return "<!doctype html>\n" + ET.tostring(html, encoding="unicode", method="html") + "\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
