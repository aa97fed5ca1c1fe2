"""Black boxes whose regions are known exactly: a decision tree, nearest neighbours."""
