"""zstd, and ZIP archives packed with it: part of Python from 3.14 on."""

import sys

if sys.version_info >= (3, 14):
    import zipfile

    from compression import zstd
else:
    from backports import zstd
    from backports.zstd import zipfile

__all__ = ["zipfile", "zstd"]
