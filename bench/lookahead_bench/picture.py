"""README's picture: stock's times and ours, a pair of bars for each row of its table, as SVG."""

from collections.abc import Sequence
from xml.etree import ElementTree

from lookahead.report.bars import BarPair, bar_plot

_WIDTH = 760.0
_SVG = "http://www.w3.org/2000/svg"
# The classes of bar_plot(): a picture on its own has no page that says what they look like.
_STYLE = """
.label { font: 13px sans-serif; fill: #24292f }
.arm-7 { fill: #afb8c1 }
.ours { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  .label { fill: #e6edf3 }
  .arm-7 { fill: #6e7681 }
  .ours { fill: #3fb950 }
}
"""


def draw(pairs: Sequence[BarPair]) -> str:
    """The document, which ends with a newline."""
    ElementTree.register_namespace("", _SVG)
    markup = str(bar_plot(pairs, _WIDTH)).replace("<svg ", f'<svg xmlns="{_SVG}" ', 1)
    picture = ElementTree.fromstring(markup)
    style = ElementTree.Element("style")
    style.text = _STYLE
    picture.insert(0, style)
    ElementTree.indent(picture)
    return ElementTree.tostring(picture, encoding="unicode") + "\n"
