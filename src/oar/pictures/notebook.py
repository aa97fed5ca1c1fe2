"""How objects show themselves in a notebook where their text says it all."""

from __future__ import annotations

from oar.pictures.markup import tag


class ShownAsText:
    """What `print` shows, in a notebook too; escaped, with its lines kept."""

    def _repr_html_(self) -> str:
        """Show itself in a notebook."""
        return tag("pre", str(self))
