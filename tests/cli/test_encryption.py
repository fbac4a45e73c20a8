"""Encrypted models: written, read back, refused without the right key."""

from __future__ import annotations

import hashlib
import struct
from importlib import import_module
from pathlib import Path

import pytest

from converter_lite import Converter
from converter_lite.errors import ConverterError, UsageError
from converter_lite.system import encryption
from tests.cli.workshop import FULL, Workshop, command

KEY = "30313233343536373839414243444546"
MS = "--saveType=MINDIR_LITE"
SHAPE = "--inputShape=x:1,3,8,8"


def as_cbc(data: bytes, key: bytes) -> bytes:
    """One block as MindSpore encrypts with ``enc_mode="AES-CBC"``."""
    ciphers = import_module("cryptography.hazmat.primitives.ciphers")
    count = 16 - len(data) % 16
    encryptor = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CBC(bytes(16))).encryptor()
    content: bytes = encryptor.update(data + bytes([count] * count)) + encryptor.finalize()
    block = struct.pack("<i", 16) + bytes(16) + struct.pack("<i", len(content)) + content
    return struct.pack("<Ii", 0x7F3A5ED9, len(block)) + block


def test_an_encrypted_file_holds_what_the_plain_one_holds(workshop: Workshop) -> None:
    workshop.succeed(MS, SHAPE, config=FULL, output="plain")
    made = workshop.succeed(MS, SHAPE, f"--encryptKey={KEY}", "--report=report.html", config=FULL, output="secret")
    plain, secret = Path("plain.ms").read_bytes(), Path("secret.ms").read_bytes()
    assert encryption.decrypted(secret, encryption.Key(bytes.fromhex(KEY), "AES-GCM"), "") == plain
    assert struct.unpack_from("<I16x3i", secret)[0] == 0x7F3A5ED8
    assert len(secret) == len(plain) + 48
    assert KEY not in made.out + Path("report.html").read_text(encoding="utf-8")


def test_the_same_model_gives_the_same_bytes_and_each_block_its_own_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "BLOCK_BYTES", 32)
    data, key = b"weights " * 9, bytes.fromhex(KEY)
    secret = encryption.encrypted(data, key)
    assert secret == encryption.encrypted(data, key)
    assert encryption.decrypted(secret, encryption.Key(key, "AES-GCM"), "") == data
    blocks = list(encryption._blocks(secret, "AES-GCM", ""))
    assert [len(block.content) for block in blocks] == [32, 32, 8]
    assert len({block.nonce for block in blocks}) == 3


@pytest.mark.parametrize("mode", ["AES-GCM", "AES-CBC"])
def test_an_encrypted_model_is_read(workshop: Workshop, mode: str) -> None:
    workshop.succeed(MS, SHAPE, output="plain")
    plain, key = Path("plain.ms").read_bytes(), bytes.fromhex(KEY)
    Path("secret.ms").write_bytes(encryption.encrypted(plain, key) if mode == "AES-GCM" else as_cbc(plain, key))
    flags = ("--fmk=MSLITE", "--modelFile=secret.ms", "--outputFile=again", "--saveType=ONNX")
    assert command(*flags, f"--decryptKey={KEY}", f"--decryptMode={mode}").status == 0
    missing = command(*flags)
    assert (missing.status, "the file is encrypted" in missing.err) == (1, True)
    other = command(*flags, f"--decryptKey={KEY[::-1]}", f"--decryptMode={mode}")
    assert other.status == 1
    assert KEY[::-1] not in other.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((MS, "--encryption=true"), "is missing: --encryption=true needs it"),
        ((MS, "--encryption=false", f"--encryptKey={KEY}"), "has no effect with --encryption=false"),
        ((f"--encryptKey={KEY}",), "ONNX files cannot be encrypted"),
        ((MS, "--encryptKey=00ff"), "must have 32 hexadecimal digits"),
        ((MS, f"--encryptKey={KEY[:-2]}zz"), "must have 32 hexadecimal digits"),
        ((f"--decryptKey={KEY}",), "only MINDIR and MSLITE models are read encrypted"),
        (("--decryptMode=SM4-CBC",), "SM4-CBC"),
    ],
)
def test_what_contradicts_is_refused(workshop: Workshop, flags: tuple[str, ...], said: str) -> None:
    message = workshop.fail(2, *flags)
    assert said in message
    assert KEY not in message


def test_damage_is_an_error(workshop: Workshop) -> None:
    secret = encryption.encrypted(b"content" * 99, bytes.fromhex(KEY))
    key = encryption.Key(bytes.fromhex(KEY), "AES-GCM")
    for end in range(1, len(secret), 7):
        with pytest.raises(ConverterError):
            encryption.decrypted(secret[:end], key, "")
    for position in range(0, len(secret), 5):
        damaged = bytearray(secret)
        damaged[position] ^= 0x41
        with pytest.raises(ConverterError):
            encryption.decrypted(bytes(damaged), key, "")


def test_the_converter_of_the_original_has_the_same_attributes(workshop: Workshop) -> None:
    converter = Converter(save_type="MINDIR_LITE", input_shape={"x": (1, 3, 8, 8)}, encrypt_key=KEY)
    with pytest.raises(UsageError, match="has no effect without enable_encryption=True"):
        converter.convert("ONNX", "model.onnx", "out")
    converter.enable_encryption = True
    made = converter.convert("ONNX", "model.onnx", "out")
    assert encryption.is_encrypted(Path("out.ms").read_bytes())
    assert made.artefacts[0].sha256 == hashlib.sha256(Path("out.ms").read_bytes()).hexdigest()
    assert KEY not in repr(converter)
