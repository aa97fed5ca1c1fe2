"""Cards: plans as they are published to members, and members' answers to them."""
