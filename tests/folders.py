"""Change saved folders as somebody would who knows how they are made: with the right checksums."""

import hashlib
import json

from safetensors.numpy import load_file, save_file

from fisherscore._support.documents import signed


def document_of(folder):
    (path,) = folder.glob("*.json")
    return path


def arrays_of(folder):
    (path,) = folder.glob("*.safetensors")
    return path


def rewrite(folder, **changes):
    """Change entries of the document, and its checksum with it."""
    document = json.loads(document_of(folder).read_text())
    document_of(folder).write_text(json.dumps(signed(document | changes)))


def rewrite_arrays(folder, change):
    """Change arrays by a function of their dictionary, and the names and hashes that depend on them."""
    path = arrays_of(folder)
    arrays = change(load_file(path))
    path.unlink()
    save_file(arrays, folder / "new")
    sha256 = hashlib.sha256((folder / "new").read_bytes()).hexdigest()
    stem = path.name.partition("-")[0]
    (folder / "new").rename(folder / f"{stem}-{sha256[:16]}.safetensors")
    rewrite(folder, arrays_sha256=sha256)
