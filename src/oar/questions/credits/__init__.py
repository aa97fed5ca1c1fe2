"""Each member's share in what a plan achieves."""
