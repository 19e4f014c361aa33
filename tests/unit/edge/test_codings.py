"""Codings undone as the bytes come: every cut, every fault, and never more than a step at once."""

import gzip
import tracemalloc
import zlib

import pytest
from backports import zstd

from iop.domain.errors import BadRequest, UnsupportedEncoding
from iop.edge.codings import MAX_MEMBERS, STEP, decoder_for

TEXT = bytes(range(256)) * 40
RAW_DEFLATE = zlib.compressobj(wbits=-15)
CODED = {
    "gzip": gzip.compress(TEXT, mtime=0),
    "x-gzip": gzip.compress(TEXT, mtime=0),
    "GZip ": gzip.compress(TEXT, mtime=0),
    "identity, gzip": gzip.compress(TEXT, mtime=0),
    "deflate": zlib.compress(TEXT),
    "deflate, ": RAW_DEFLATE.compress(TEXT) + RAW_DEFLATE.flush(),
    "zstd": zstd.compress(TEXT),
    "Identity": TEXT,
    "": TEXT,
}
MEMBERS = {"gzip": gzip.compress, "zstd": zstd.compress}


def decode(coding: str, body: bytes, size: int | None = None) -> bytes:
    """Decode in pieces of `size` bytes."""
    decoder = decoder_for([coding] if coding else [])
    size = size or len(body) or 1
    out = b"".join(out for at in range(0, len(body), size) for out in decoder.feed(body[at : at + size]))
    decoder.finish()
    return out


@pytest.mark.parametrize("size", [1, 2, 7, None])
@pytest.mark.parametrize("coding", CODED)
def test_every_coding_in_every_cut(coding: str, size: int | None) -> None:
    """B29: the same bytes, however the coded ones were cut; deflate with its header and without."""
    assert decode(coding, CODED[coding], size) == TEXT


@pytest.mark.parametrize("coding", MEMBERS)
def test_several_members_are_one_body(coding: str) -> None:
    """What parallel compressors write decodes to all of it; there is a bound on how many."""
    body = b"".join(MEMBERS[coding](part) for part in (b"one ", b"", b"two"))
    assert {decode(coding, body, size) for size in (1, 5, None)} == {b"one two"}
    with pytest.raises(BadRequest, match="goes on after the end"):
        decode(coding, MEMBERS[coding](b"") * (MAX_MEMBERS + 1))


@pytest.mark.parametrize(
    ("coding", "body", "why"),
    [
        ("gzip", b'{"plain": true}', "does not decode"),
        ("gzip", CODED["gzip"][:-9], "cut short"),
        ("gzip", CODED["gzip"] + b"more", "does not decode"),
        ("gzip", CODED["gzip"][:-8] + b"\0" * 8, "does not decode"),
        ("deflate", b"{", "cut short"),
        ("deflate", b'{"plain": true}', "does not decode"),
        ("deflate", CODED["deflate"] + b"x", "goes on after"),
        ("zstd", b'{"plain": true}', "does not decode"),
        ("zstd", CODED["zstd"][:-2], "cut short"),
        ("zstd", CODED["zstd"] + b"more", "does not decode"),
        ("zstd", zstd.compress(bytes(50_000_000), options={zstd.CompressionParameter.window_log: 27}), "memory"),
    ],
)
def test_faults_are_bad_requests(coding: str, body: bytes, why: str) -> None:
    """B30: each says what is wrong, fed at once or byte by byte (the short ones)."""
    for size in (None, 1) if len(body) < 100_000 else (None,):
        with pytest.raises(BadRequest, match=why):
            decode(coding, body, size)


@pytest.mark.parametrize("coding", ["br", "compress", "gzip, gzip", "zstd,gzip", "gzip;q=1", "x" * 500])
def test_other_codings_and_several_are_refused(coding: str) -> None:
    """B30: 415 names what was sent, shortened, and what may be."""
    with pytest.raises(UnsupportedEncoding, match="gzip, deflate and zstd") as caught:
        decoder_for([coding])
    assert len(caught.value.message) < 200
    with pytest.raises(UnsupportedEncoding):
        decoder_for(["gzip", "gzip"])


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_a_bomb_comes_in_steps(coding: str) -> None:
    """B30: 50 MiB of zeros are given out a step at a time, and a reader that stops pays for no more."""
    zeros = bytes(50 * 2**20)
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}[coding]
    body = pack(zeros)
    assert decode(coding, body) == zeros
    del zeros
    tracemalloc.start()
    try:
        pieces = decoder_for([coding]).feed(body)
        assert all(len(next(pieces)) <= STEP for _ in range(40))
        assert tracemalloc.get_traced_memory()[1] < 8 * STEP + len(body)
    finally:
        tracemalloc.stop()
