"""Plot data and figures: what is computed can be tested without drawing, what is drawn computes nothing.

`cells`, `spread`, `recourse_map` and `plain` make data; `curves`, `draw_map` and `draw_strip` put them on axes;
`style` holds the look and saves figures so that the same data give the same bytes. `member_page` makes the page on
which a member computes its own move.
"""
