"""Stands for the package of this name."""


def get_vegalite_versions() -> list[str]:
    return ["6"]


def javascript_bundle(snippet: str, vl_version: str) -> str:
    return f"{snippet} // Vega-Lite {vl_version}"
