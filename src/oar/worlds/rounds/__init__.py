"""One round: what everybody contributes, and what is refused."""
