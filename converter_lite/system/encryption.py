"""Encrypted model files, in the layout that MindSpore and the original write and read.

A file is a row of blocks, numbers little-endian and of four bytes::

    magic | tag (16 bytes, GCM only) | size of what follows | 16 | nonce (16 bytes) | size of the data | data

Each block holds up to 64 MiB of the model. The runtimes of MindSpore Lite, and its converter since 2.7, take the whole nonce;
MindSpore itself (2.0 and 2.7, checked) and the released converter 2.0.0 store 16 bytes, too, and use the first 12.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from converter_lite.errors import FormatError, UsageError, one_of
from converter_lite.system.extras import require

BLOCK_BYTES = 64 << 20
"""Bytes of the model in one block: the runtimes have buffers of this size."""

NONCE_BYTES = 16
SHORT_NONCE_BYTES = 12
"""Bytes of it that MindSpore uses."""

TAG_BYTES = 16
KEY_BYTES = (16, 24, 32)
WRITTEN_KEY_BYTES = 16
"""Size of keys for written files: the runtimes read no other."""

MAGIC = {"AES-GCM": 0x7F3A5ED8, "AES-CBC": 0x7F3A5ED9}
"""Values of ``--decryptMode`` -> how each block begins."""

_NUMBER = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class Key:
    """A key for reading, which no message shows."""

    content: bytes
    mode: str

    def __repr__(self) -> str:
        return f"Key({self.mode})"


def key_of(text: str, flag: str, sizes: tuple[int, ...] = KEY_BYTES) -> bytes:
    """The bytes of a key in hexadecimal digits.

    Raises:
        UsageError: It is none, or the package that encrypts is not installed; the message does not show it.
    """
    require(("cryptography",), what="an encrypted model", extra="encryption", where=f"--{flag}")
    try:
        content = bytes.fromhex(text)
    except ValueError:
        content = b""
    if len(content) not in sizes or len(text) != 2 * len(content):
        digits = " or ".join(str(2 * size) for size in sizes)
        raise UsageError(f"the key must have {digits} hexadecimal digits", where=f"--{flag}")
    return content


def reading_key(text: str, mode: str) -> Key | None:
    """What ``--decryptKey`` and ``--decryptMode`` say; ``None`` without a key.

    Raises:
        UsageError: They are not valid.
    """
    one_of(mode, tuple(MAGIC), "--decryptMode")
    return Key(key_of(text, "decryptKey"), mode) if text else None


def is_encrypted(data: bytes) -> bool:
    """Whether a file begins as encrypted ones do."""
    return len(data) >= 4 and struct.unpack_from("<I", data)[0] in MAGIC.values()


def encrypted(data: bytes, key: bytes) -> bytes:
    """A model in AES-GCM.

    The nonce of a block follows from the key and all the content, so that the same model gives the same file; two different
    blocks share none.
    """
    cipher = import_module("cryptography.hazmat.primitives.ciphers.aead").AESGCM(key)
    whole = hashlib.sha256(data).digest()
    parts = []
    for number, start in enumerate(range(0, len(data), BLOCK_BYTES)):
        nonce = hmac.digest(key, whole + _NUMBER.pack(number), "sha256")[:NONCE_BYTES]
        sealed = cipher.encrypt(nonce, data[start : start + BLOCK_BYTES], None)
        content, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
        block = _NUMBER.pack(NONCE_BYTES) + nonce + _NUMBER.pack(len(content)) + content
        parts += [struct.pack("<I", MAGIC["AES-GCM"]), tag, _NUMBER.pack(len(block)), block]
    return b"".join(parts)


def decrypted(data: bytes, key: Key, where: str) -> bytes:
    """The model of an encrypted file.

    Raises:
        FormatError: The file is damaged, of another mode, or the key is another.
    """
    return b"".join(_opened(block, key, where) for block in _blocks(data, key.mode, where))


@dataclass(frozen=True, slots=True)
class _Block:
    tag: bytes
    nonce: bytes
    content: bytes


def _blocks(data: bytes, mode: str, where: str) -> Iterator[_Block]:
    position = 0
    while position < len(data):
        try:
            (magic,) = struct.unpack_from("<I", data, position)
            if magic != MAGIC[mode]:
                raise FormatError(f"the file is not encrypted with {mode}", where=where, hint="set --decryptMode")
            tag_bytes = TAG_BYTES if mode == "AES-GCM" else 0
            tag = data[position + 4 : position + 4 + tag_bytes]
            position += 4 + tag_bytes
            size, nonce_bytes = struct.unpack_from("<ii", data, position)
            nonce = data[position + 8 : position + 8 + NONCE_BYTES]
            (length,) = struct.unpack_from("<i", data, position + 8 + NONCE_BYTES)
        except struct.error:
            raise FormatError("the encrypted file is cut off", where=where) from None
        start = position + 12 + NONCE_BYTES
        if nonce_bytes != NONCE_BYTES or length < 0 or size != 8 + NONCE_BYTES + length or start + length > len(data):
            raise FormatError("the encrypted file is damaged or cut off", where=where)
        yield _Block(tag, nonce, data[start : start + length])
        position = start + length


def _opened(block: _Block, key: Key, where: str) -> bytes:
    nonces = (block.nonce, block.nonce[:SHORT_NONCE_BYTES]) if key.mode == "AES-GCM" else (block.nonce,)
    for nonce in nonces:
        content = _with_nonce(block, nonce, key)
        if content is not None:
            return content
    raise FormatError("the key does not fit the encrypted file, or the file is damaged", where=where)


def _with_nonce(block: _Block, nonce: bytes, key: Key) -> bytes | None:
    ciphers: Any = import_module("cryptography.hazmat.primitives.ciphers")
    modes, padding = ciphers.modes, import_module("cryptography.hazmat.primitives.padding")
    is_gcm = key.mode == "AES-GCM"
    mode = modes.GCM(nonce, block.tag) if is_gcm else modes.CBC(nonce)
    decryptor = ciphers.Cipher(ciphers.algorithms.AES(key.content), mode).decryptor()
    try:
        content: bytes = decryptor.update(block.content) + decryptor.finalize()
        if not is_gcm:
            unpadder = padding.PKCS7(128).unpadder()
            content = unpadder.update(content) + unpadder.finalize()
    except (ValueError, import_module("cryptography.exceptions").InvalidTag):
        return None
    return content
