"""What all pages are made with: template, style, and the result that a page contains."""

import json
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lookahead.foreign_text import printable


def render_sections(template: str, sections: Sequence[object]) -> str:
    """A page by a template of this package; what is not marked as HTML is escaped.

    So is what is not printable: results can come from anywhere.
    """
    environment = Environment(
        loader=PackageLoader("lookahead.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (
        Markup(environment.get_template(name).render()) for name in ("page.css", "page.js")
    )
    page = environment.get_template(template)
    return printable(page.render(sections=sections, style=style, script=script))


def embedded(value: dict[str, Any]) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
