"""Problems, people, oracles and tools that several tests share."""
