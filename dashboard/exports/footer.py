"""The footer of every page: the time zone of its times, and the page as Markdown."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime

import streamlit as st

from dashboard.components import markup
from dashboard.exports import page, page_recorder


@contextmanager
def taken_along(title: Callable[[], str]) -> Generator[None]:
    """Around a page: what it shows can be had as Markdown below it, also where it stops half-way.

    Its `title` is asked for once there is anything: outside of a browser's session a page has none.
    """
    with page_recorder.recorded() as record:
        try:
            yield
        finally:
            if not record.empty:
                record.page = title()
                _foot(record)


def _foot(record: page_recorder.PageRecord) -> None:
    query = {name: st.query_params.get_all(name) for name in st.query_params}
    where = page.address(st.context.url or "", query, record.pinned)
    moment = datetime.now(UTC)
    name = page_recorder.slug(record.page)
    with st.container(horizontal=True, vertical_alignment="center", key="page-foot"):
        st.caption("All times are UTC.", width="content")
        st.download_button(
            "Page as Markdown",
            lambda: page.of_page(record, where, moment).encode(),
            file_name=f"{name}-{moment:%Y-%m-%d}.md",
            mime="text/markdown",
            key=f"markdown-{name}",
            on_click="ignore",
            help="The page as it is now, for an issue",
        )
        inline = st.toggle("Show Markdown", key=f"show-markdown-{name}", help="To copy it from here")
    if inline:
        st.html(markup.code(page.of_page(record, where, moment)))
