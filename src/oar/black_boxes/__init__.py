"""HOW BLACK BOXES ARE ASKED: true refits on what people might do, and what they mean for who asks."""
