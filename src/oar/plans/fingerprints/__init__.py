"""What models and functions do, as digests."""
