"""Send a prompt of several content blocks: a picture and a question about it."""

import struct
import zlib

import anyio
from offline import offline

from claude_agent_py import TextBlock, run
from claude_agent_py.messages import ImageBlock
from claude_agent_py.testing import RecordedRequest


def red_square(size: int = 32) -> bytes:
    """Return a PNG. To read one from a file, use `Path("photo.png").read_bytes()`."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xd0\x20\x20" * size) * size
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


async def main() -> None:
    picture = ImageBlock.from_bytes(red_square(), "image/png")
    result = await run([picture, TextBlock(text="Which colour is this? One word.")])
    print(result.text)


def model(request: RecordedRequest) -> str:
    kinds = [block["type"] for message in request.messages for block in message["content"] if isinstance(block, dict)]
    return "Red." if "image" in kinds else "I see no picture."


if __name__ == "__main__":
    with offline(model):
        anyio.run(main)
