"""Messages between a coordinator and its workers: each in a frame with its length and a checksum.

A simulator may write whatever it likes to file descriptors that are not its own. What arrives is taken for a message
only if its frame is whole, so that such writing is noticed, and costs neither memory nor a coordinator that waits for
bytes that never come.
"""

import os
import struct
import zlib

# Mark, length and checksum of the message; then a checksum of these three.
_START = struct.Struct("<4sQI")
_CHECK = struct.Struct("<I")
_HEADER_SIZE = _START.size + _CHECK.size
_MARK = b"\xf1sh\x0a"
_MOST_BYTES = 1 << 36
_BYTES_A_READ = 1 << 20
# So much is read from one pipe before the others have their turn.
_READS_A_TURN = 64


class BrokenFrameError(Exception):
    """What was read is no frame: somebody else has written to the pipe."""


def framed(message: bytes) -> bytes:
    """Put a message into a frame."""
    start = _START.pack(_MARK, len(message), zlib.crc32(message))
    return start + _CHECK.pack(zlib.crc32(start)) + message


def write_frame(pipe: int, message: bytes) -> None:
    """Write a message whole, waiting for the reader where it must."""
    rest = memoryview(framed(message))
    while rest:
        rest = rest[os.write(pipe, rest) :]


def read_frame(pipe: int) -> bytes:
    """Read one message, waiting for it; EOFError when the writer is gone."""
    length, checksum = _opened(_exactly(pipe, _HEADER_SIZE))
    return _checked(_exactly(pipe, length), checksum)


def _exactly(pipe: int, num: int) -> bytes:
    """Read ``num`` bytes from a pipe, which may give fewer at a time."""
    parts, missing = [], num
    while missing:
        part = os.read(pipe, min(missing, _BYTES_A_READ))
        if not part:
            raise EOFError
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _opened(header: bytes | bytearray) -> tuple[int, int]:
    """Return length and checksum of the message that follows."""
    mark, length, checksum = _START.unpack_from(header)
    if (
        mark != _MARK
        or length > _MOST_BYTES
        or _CHECK.unpack_from(header, _START.size)[0] != zlib.crc32(bytes(header[: _START.size]))
    ):
        raise BrokenFrameError
    return length, checksum


def _checked(message: bytes, checksum: int) -> bytes:
    if zlib.crc32(message) != checksum:
        raise BrokenFrameError
    return message


class Inbox:
    """Messages from a pipe, read as they come: never waits, and holds no more than has arrived."""

    def __init__(self, pipe: int):
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self.ended = False  # the writer is gone, or has closed its end
        self.broken = False  # something came that is no message
        self._arrived = bytearray()

    def read(self) -> list[bytes]:
        """Return the messages that are complete by now."""
        for _ in range(_READS_A_TURN):
            try:
                part = os.read(self.pipe, _BYTES_A_READ)
            except BlockingIOError:
                break
            self._arrived += part
            if not part:
                self.ended = True
            if len(part) < _BYTES_A_READ:  # a pipe gives what it holds
                break
        return self._complete()

    def _complete(self) -> list[bytes]:
        messages: list[bytes] = []
        try:
            while not self.broken and len(self._arrived) >= _HEADER_SIZE:
                length, checksum = _opened(self._arrived)
                end = _HEADER_SIZE + length
                if len(self._arrived) < end:
                    break
                messages.append(_checked(bytes(self._arrived[_HEADER_SIZE:end]), checksum))
                del self._arrived[:end]
        except BrokenFrameError:
            self.broken = True
        if self._arrived and self._arrived[:4] != _MARK[: len(self._arrived)]:
            self.broken = True  # too little for a frame, and yet seen to be none
        return messages


class Outbox:
    """Messages to a pipe, written as it takes them: never waits for a reader that is busy, stopped or dead."""

    def __init__(self, pipe: int):
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self._waiting = bytearray()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def write(self, message: bytes) -> None:
        """Add a message and write what the pipe takes."""
        self._waiting += framed(message)
        self.flush()

    def flush(self) -> None:
        """Write what the pipe takes now."""
        while self._waiting:
            try:
                num = os.write(self.pipe, bytes(self._waiting[:_BYTES_A_READ]))
            except BlockingIOError:
                return
            except OSError:  # the reader is dead, which the end of its own pipe will say
                self._waiting.clear()
                return
            del self._waiting[:num]
