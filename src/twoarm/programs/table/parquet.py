"""Parquet: the rows of a file, none unpacked beyond what a file of its size may hold."""

from collections.abc import Iterator, Mapping
from typing import Any

from twoarm.errors import InputError, extra_needed
from twoarm.programs.folder import LARGEST_RATIO, LEAST_UNPACKED, Folder, SourceError
from twoarm.text.escape import named, shortened

# How many cells are unpacked at a time, and the bytes that they may take. Few steps, since each one
# comes with all texts of its part of the file.
_CELLS = 2**17
_ROOM = 32 * 2**20

# Wide enough for every value that is no text.
_WIDTH = 64
_TEXTS = ("STRING", "NONE", "ENUM", "JSON")

# What the header of a page is made of, in Thrift's compact protocol; a page's header holds those
# of its kind, and they hold statistics.
_TRUTHS, _WHOLE, _BINARY, _STRUCT, _DEEPEST = (1, 2), (4, 5, 6), 8, 12, 2
# Its bytes unpacked, and packed.
_UNPACKED, _PACKED = 2, 3


def read_rows(folder: Folder, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows with their numbers from 1; columns that hold lists are left out."""
    try:
        import pyarrow
    except ImportError as error:
        why = extra_needed("Parquet", "pyarrow", "parquet")
        raise InputError(f"{folder.where(name)}: {why}") from error
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
    """What the pages of a part of a column unpack to, by their headers and not by the footer.

    pyarrow unpacks a page whole, whatever the size of a batch: a file of 17 kB with one page of
    512 MiB took 2 GiB.
    """
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    end = start + chunk.total_compressed_size
    while start < end:
        stream.seek(start)
        header = _header(stream, 0)
        unpacked, packed = header.get(_UNPACKED, -1), header.get(_PACKED, -1)
        # The format gives sizes 32 bits: a reader in C may cut a longer one.
        if unpacked < 0 or not 0 <= packed < 2**31:
            raise ValueError("a page without a size")
        yield unpacked
        start = stream.tell() + packed


def _header(stream: Any, depth: int) -> dict[int, int]:
    """The whole numbers of a header, by field; what no page has, such as lists, is refused."""
    numbers: dict[int, int] = {}
    field = 0
    while head := int.from_bytes(stream.read(1)):
        step, kind = head >> 4, head & 15
        # The protocol gives numbers of fields 16 bits: a reader in C may let them run over.
        field = (field + step if step else _zigzag(stream)) % 2**16
        if kind in _WHOLE and field not in numbers:
            numbers[field] = _zigzag(stream)
        elif kind == _BINARY:
            stream.seek(_varint(stream), 1)
        elif kind == _STRUCT and depth < _DEEPEST:
            _header(stream, depth + 1)
        elif kind not in _TRUTHS:
            raise ValueError("the header of a page is damaged")
    return numbers


def _zigzag(stream: Any) -> int:
    number = _varint(stream)
    return number >> 1 if not number & 1 else -(number >> 1) - 1


def _varint(stream: Any) -> int:
    number = 0
    for shift in range(0, 70, 7):
        byte = int.from_bytes(stream.read(1))
        number |= (byte & 127) << shift
        if byte < 128:
            return number
    raise ValueError("the header of a page is damaged")


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
            [value if valid else None for value, valid in zip(objects, there, strict=True)],
            sum(taken for _, taken in inner),
        )
    return column.to_pylist(), column.nbytes


def _bomb(folder: Folder, name: str, limit: int) -> SourceError:
    return folder.refuse(
        f"unpacks to more than {limit:,} bytes, {LARGEST_RATIO} times its size "
        f"or {LEAST_UNPACKED // 2**20} MiB; it may be a decompression bomb",
        name,
    )
