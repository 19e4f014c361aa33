"""The texts in `templates/`: `${name}` is filled in, `$$` is a dollar sign."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from string import Template
from xml.sax.saxutils import escape


def filled(name: str, values: Mapping[str, str]) -> str:
    """A template with its values; in XML they are escaped, but for those whose names end in `_xml`."""
    raw = pkgutil.get_data(__name__, f"templates/{name}")  # works in a zip application too
    assert raw is not None
    if name.endswith((".plist", ".xml")):
        values = {key: value if key.endswith("_xml") else escape(value) for key, value in values.items()}
    text = raw.decode("utf-8").replace("\r\n", "\n")  # as git may write it on Windows
    return Template(text).substitute(values)
