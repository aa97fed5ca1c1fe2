"""Update rules: how parameters move on when a batch arrives."""
