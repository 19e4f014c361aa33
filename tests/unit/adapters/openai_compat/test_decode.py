"""Content codings that an engine uses unasked."""

import gzip
import random
import zlib

import pytest

from iop.adapters.openai_compat.decode import PIECE, Decoder, UndecodableError

TEXT = b'{"text": "' + random.Random(1).randbytes(3000).hex().encode() + b'"}'


def raw_deflate(data):
    """Deflate without a zlib header, as some servers send it."""
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


CODED = [
    ("", TEXT),
    ("identity", TEXT),
    ("gzip", gzip.compress(TEXT)),
    ("X-GZIP", gzip.compress(TEXT)),
    ("deflate", zlib.compress(TEXT)),
    ("deflate", raw_deflate(TEXT)),
    ("gzip, gzip", gzip.compress(gzip.compress(TEXT))),
    ("deflate, gzip", gzip.compress(zlib.compress(TEXT))),
    ("gzip", gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:])),
]


@pytest.mark.parametrize(("codings", "coded"), CODED, ids=range(len(CODED)))
@pytest.mark.parametrize("step", [3, 700, 100_000])
def test_decodes_in_any_cut(codings, coded, step):
    """Field case B19: each coding, also chained, decodes however the bytes are cut."""
    decoder = Decoder(codings)
    pieces = [piece for at in range(0, len(coded), step) for piece in decoder.feed(coded[at : at + step])]
    assert b"".join(pieces) == TEXT
    assert decoder.finished


def test_a_flushed_event_comes_at_once():
    """An event that the engine flushed is out before the next one is in."""
    deflater, decoder = zlib.compressobj(wbits=31), Decoder("gzip")
    for number in range(3):
        event = b"data: %d\n\n" % number
        coded = deflater.compress(event) + deflater.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(decoder.feed(coded)) == event
    assert not decoder.finished


def test_a_bomb_comes_in_pieces():
    """A small body that unpacks to much is handed on piece by piece."""
    pieces = [len(piece) for piece in Decoder("gzip").feed(gzip.compress(bytes(20 * PIECE)))]
    assert sum(pieces) == 20 * PIECE
    assert max(pieces) <= PIECE


def test_truncated_is_not_finished():
    """A coded body that ends early is seen."""
    decoder = Decoder("gzip")
    list(decoder.feed(gzip.compress(TEXT)[:-9]))
    assert not decoder.finished


@pytest.mark.parametrize(("codings", "data"), [("br", b""), ("gzip, zstd", b""), ("gzip", b"plain text, uncoded")])
def test_undecodable(codings, data):
    """Unknown codings and wrong bytes are refused, never passed on as text."""
    with pytest.raises(UndecodableError):
        list(Decoder(codings).feed(data))
