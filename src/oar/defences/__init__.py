"""HOW OPERATORS DEFEND THEMSELVES: what they do to data, model or calendar before they retrain."""

from oar.defences.base import Defence, Prepared, Together, as_defence

__all__ = ["Defence", "Prepared", "Together", "as_defence"]
