"""Models that are differentiated automatically, by JAX."""
