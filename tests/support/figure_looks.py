"""What can be checked about a figure's look without eyes."""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from oar_paper.figures.style import styled


def texts_with_boxes(figure):
    """Return every visible text with the box that it covers, in pixels."""
    with styled():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        hidden = set(_labels_out_of_view(figure))
        found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
        found = [text for text in found if text not in hidden]
        return [(text.get_text(), text.get_window_extent(renderer)) for text in found], figure.bbox


def _labels_out_of_view(figure):
    """Matplotlib keeps labels of ticks beyond the axes' limits; it does not draw them."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if not low <= tick.get_loc() <= high:
                    yield from (tick.label1, tick.label2)


def assert_nothing_is_cut_off(figure):
    boxes, canvas = texts_with_boxes(figure)
    assert len(boxes) > 10
    for text, box in boxes:
        assert box.x0 >= canvas.x0 - 1, text
        assert box.y0 >= canvas.y0 - 1, text
        assert box.x1 <= canvas.x1 + 1, text
        assert box.y1 <= canvas.y1 + 1, text


def assert_no_text_covers_another(figure):
    boxes, _ = texts_with_boxes(figure)
    for position, (text, box) in enumerate(boxes):
        for other, other_box in boxes[position + 1 :]:
            width = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
            height = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
            assert width <= 2 or height <= 2, (text, other)
