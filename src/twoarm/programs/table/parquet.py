"""Parquet: the rows of a file, none unpacked beyond what a file of its size may hold."""

from collections.abc import Iterator, Mapping
from typing import Any

from twoarm.errors import InputError
from twoarm.programs.folder import LARGEST_RATIO, LEAST_UNPACKED, Folder, SourceError
from twoarm.programs.table.pages import unpacked_sizes
from twoarm.text.escape import named, shortened

# How many cells are unpacked at a time, and the bytes that they may take. Few steps, since each one
# comes with all texts of its part of the file.
_CELLS = 2**17
_ROOM = 32 * 2**20

# Wide enough for every value that is no text.
_WIDTH = 64
_TEXTS = ("STRING", "NONE", "ENUM", "JSON")


def read_rows(folder: Folder, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows with their numbers from 1; columns that hold lists are left out."""
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            f"{folder.where(name)}: Parquet needs pyarrow; install `twoarm[parquet]`"
        ) from error
    with folder.open(name) as stream:
        try:
            yield from enumerate(_rows(folder, name, stream), 1)
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
            first = str(error).split("\n", 1)[0]
            raise folder.refuse(f"not Parquet: {shortened(first, 200)}", name) from error


def _rows(folder: Folder, name: str, stream: Any) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet

    table = parquet.ParquetFile(stream)
    limit = folder.most_unpacked(name)
    sizes = _sizes(folder, name, stream, table.metadata, limit)
    _check_names(folder, name, table.schema_arrow, "")
    leaves = [table.metadata.schema.column(index) for index in range(len(sizes))]
    # A row may hold any number of lists' values, and no field of a record is a list.
    flat = [leaf.path for leaf in leaves if not leaf.max_repetition_level]
    if not flat:
        raise folder.refuse("every column holds lists", name)
    shared, width = [], 0
    for index, leaf in enumerate(leaves):
        if leaf.physical_type != "BYTE_ARRAY" or leaf.logical_type.type not in _TEXTS:
            width += max(leaf.length, _WIDTH)
        elif _has_prefixes(table.metadata, index):
            # Each text may repeat the one before it, up to all that is in the column.
            width += sizes[index]
        else:
            shared.append(leaf.path)
    table = parquet.ParquetFile(stream, read_dictionary=shared)
    rows = max(1, min(_CELLS // len(flat), _ROOM // max(width, 1)))
    left = limit
    for batch in table.iter_batches(rows, columns=flat if len(flat) < len(leaves) else None):
        columns = [_cells(column) for column in batch.columns]
        left -= sum(taken for _, taken in columns)
        if left < 0:
            raise _bomb(folder, name, limit)
        names = batch.schema.names
        for cells in zip(*(cells for cells, _ in columns), strict=True):
            yield dict(zip(names, cells, strict=True))


def _sizes(folder: Folder, name: str, stream: Any, metadata: Any, limit: int) -> list[int]:
    """What the largest part of each column unpacks to; none is unpacked for it."""
    largest = [0] * metadata.num_columns
    total = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for index in range(metadata.num_columns):
            size = 0
            for page in _pages(stream, group.column(index)):
                size += page
                if total + size > limit:
                    raise _bomb(folder, name, limit)
            total += size
            largest[index] = max(largest[index], size)
    return largest


def _has_prefixes(metadata: Any, index: int) -> bool:
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return any("DELTA_BYTE_ARRAY" in group.column(index).encodings for group in groups)


def _pages(stream: Any, chunk: Any) -> Iterator[int]:
    """What the pages of a part of a column unpack to."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return unpacked_sizes(stream, start, start + chunk.total_compressed_size)


def _check_names(folder: Folder, name: str, fields: Any, above: str) -> None:
    """Refuse two columns of one name, of the table or of an object in it."""
    from pyarrow import types

    seen: set[str] = set()
    for field in fields:
        path = f"{above}{field.name}"
        if path in seen:
            raise folder.refuse(f"two columns named {named(path)}", name)
        seen.add(path)
        if types.is_struct(field.type):
            inner = [field.type.field(index) for index in range(field.type.num_fields)]
            _check_names(folder, name, inner, f"{path}.")


def _cells(column: Any) -> tuple[list[Any], int]:
    """The values of a column, and the bytes they take; a text that it repeats is made once."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        used = column.indices.unique().drop_null()
        texts = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
        cells = [None if code is None else texts[code] for code in column.indices.to_pylist()]
        sized = (cell for cell in cells if isinstance(cell, str | bytes))
        return cells, sum(map(len, sized))
    if types.is_struct(column.type):
        inner = [_cells(part) for part in column.flatten()]
        names = [column.type.field(index).name for index in range(column.type.num_fields)]
        rows = zip(*(cells for cells, _ in inner), strict=True)
        objects = [dict(zip(names, row, strict=True)) for row in rows]
        there = column.is_valid().to_pylist()
        return (
            [one if valid else None for one, valid in zip(objects, there, strict=True)],
            sum(taken for _, taken in inner),
        )
    return column.to_pylist(), column.nbytes


def _bomb(folder: Folder, name: str, limit: int) -> SourceError:
    return folder.refuse(
        f"unpacks to more than {limit:,} bytes, {LARGEST_RATIO} times its size "
        f"or {LEAST_UNPACKED // 2**20} MiB; it may be a decompression bomb",
        name,
    )
