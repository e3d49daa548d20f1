"""How the documents become a site: `make docs`, which fails on a warning."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSION: dict[str, str] = {}
exec((ROOT / "src" / "twoarm" / "_version.py").read_text(), VERSION)

project = "twoarm"
author = "the twoarm authors"
project_copyright = "2026, the twoarm authors"
release = version = VERSION["__version__"]

extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]
# Links to a heading, as they work where the files are read as they are.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# Lines of a terminal are shown as they are.
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "text"
pygments_style = "friendly"
pygments_dark_style = "monokai"

html_theme = "furo"
html_title = f"twoarm {release}"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
# The same sources give the same pages.
html_last_updated_fmt = None
