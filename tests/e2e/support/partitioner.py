"""Which partition a key belongs to: Kafka's murmur2, written down once more so that a test does not ask the code
under test."""


def murmur2(data):
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    value = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at:at + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        value = (value * multiplier & mask) ^ word
    rest = data[whole:]
    if rest:
        value = ((value ^ int.from_bytes(rest, "little")) * multiplier) & mask
    value = (value ^ value >> 13) * multiplier & mask
    return value ^ value >> 15


def partition_of(key, partitions):
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions
