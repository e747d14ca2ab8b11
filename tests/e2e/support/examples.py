"""Files of examples (a little-endian u32 length and a protobuf, repeated), decoded as far as tests look into
them. The wire format is read by hand: the tests need no protobuf package."""
import struct
from dataclasses import dataclass


def read_file(path):
    """The values, in order."""
    with open(path, "rb") as file:
        data = file.read()
    values, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + size > len(data):
            raise AssertionError(f"{path}: ends within a value")
        values.append(data[at:at + size])
        at += size
    return values


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """[(field number, value)] of a message: int for varints, bytes for everything else."""
    out, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at:at + size], at + size
        elif wire == 2:
            size, at = _varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise AssertionError(f"wire type {wire} of field {number}")
        out.append((number, value))
    return out


FEATURES = ("surface", "segment", "history", "item metadata", "context")


@dataclass(frozen=True)
class Example:
    """Numbers as in features/example_format/example.proto."""
    partition: int
    epoch: int
    sequence: int
    revision: int
    part: int
    user_id: str
    impression_id: str
    labels: tuple    # (item id, label bits, mask bits, weights' bytes) a candidate
    features: tuple  # as FEATURES names them

    @property
    def order(self):
        return self.partition, self.epoch, self.sequence

    @property
    def identity(self):
        return self.impression_id, self.user_id, self.revision, self.part


def decode(data):
    message = fields(data)
    one = dict(message)
    candidates = [fields(value) for number, value in message if number == 17]
    labels, metadata, context = [], [], []
    for candidate in candidates:
        cell = dict(candidate)
        labels.append((cell[1].decode(), cell.get(8, 0), cell.get(9, 0), cell.get(10, b"")))
        metadata.append(tuple(pair for pair in candidate if pair[0] in (2, 3, 4)))
        context.append(cell.get(5))
    return Example(partition=one.get(7, 0), epoch=one.get(8, 0), sequence=one.get(9, 0), revision=one.get(4, 0),
                   part=one.get(5, 0), user_id=one[10].decode(), impression_id=one[11].decode(),
                   labels=tuple(labels),
                   features=(one.get(13), one.get(15), one.get(16), tuple(metadata), tuple(context)))


def without_duplicates(values):
    """The first of each (partition, epoch, sequence), as the trainer takes them."""
    seen, first = set(), []
    for value in values:
        order = decode(value).order
        if order not in seen:
            seen.add(order)
            first.append(value)
    return first
