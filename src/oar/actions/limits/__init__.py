"""What people can do to a table's columns: limits, links, rules, and what data tell where nobody says them."""
