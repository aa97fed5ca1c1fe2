"""Display of objects in a notebook by their text."""

from __future__ import annotations

from oar.pictures.markup import tag


class ShownAsText:
    """A base class whose objects show in a notebook what `print` shows; escaped, with its lines kept."""

    def _repr_html_(self) -> str:
        return tag("pre", str(self))
