"""Files that survive a power cut: written whole, or not at all.

A file that is there and not as it was made is damaged, never new: what it remembered would be
forgotten. Rows have a checksum, as SQLite does not notice a bit that flips in one.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

_PATIENCE = 30.0
"""Seconds to wait for another process that writes."""
_APPLICATION = int.from_bytes(b"fkld")
"""Marks our files among those of SQLite."""
_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file."""


class Damaged(sqlite3.DatabaseError):
    """A file is not what this version made. For the operator: it says what to do."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path.name} is damaged, or not a file of this version of flwr-kld: restore it from a "
            "backup. To forget what it says and begin anew, move it away, and its -wal and -shm"
        )


@dataclass(frozen=True)
class Schema:
    """The tables of a file."""

    version: int  # Another one for other statements: a file of another version is refused
    statements: Sequence[str]  # Make the tables
    page: int = 4096  # Bytes that are written at once: more where rows are large
    # Reads all rows of which a checksum is kept, always in the same order; empty for none. It must
    # read the tree that rows are looked up in: an index beside that has no checksum
    rows: str = ""

    def require(self, db: sqlite3.Connection, path: Path) -> None:
        """Refuse a database that was not made with this schema."""
        try:
            db.execute("SELECT sql FROM sqlite_master").fetchall()
            found = [
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            ]
        except UnicodeError:  # of what SQLite says of it
            raise Damaged(path) from None
        if found != [_APPLICATION, self.version]:
            raise Damaged(path)

    def empty_file(self) -> bytes:
        """Return a database without rows."""
        with closing(sqlite3.connect(":memory:")) as db:
            db.execute(f"PRAGMA page_size = {self.page}")
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {self.version}")
            for statement in self.statements:
                db.execute(statement)
            if self.rows:
                db.execute("CREATE TABLE checksum (digest BLOB NOT NULL)")
                db.execute("INSERT INTO checksum VALUES (?)", (self._digest(db),))
            return db.serialize()

    def require_rows(self, db: sqlite3.Connection, path: Path) -> None:
        """Refuse rows that are not those of the last transaction."""
        if not self.rows:
            return
        try:
            whole = db.execute("SELECT digest FROM checksum").fetchall() == [(self._digest(db),)]
        except UnicodeError:  # in the name of a column
            whole = False
        if not whole:
            raise Damaged(path)

    def sum_up(self, db: sqlite3.Connection) -> None:
        """Keep the checksum of the rows that are there now."""
        if self.rows:
            db.execute("UPDATE checksum SET digest = ?", (self._digest(db),))

    def _digest(self, db: sqlite3.Connection) -> bytes:
        found = blake2b(digest_size=16)
        any(map(found.update, map(_marked, chain.from_iterable(db.execute(self.rows)))))
        return found.digest()


def _marked(value: Any) -> bytes:
    """Return a value's type, length and content."""
    content = value if isinstance(value, bytes) else repr(value).encode()
    return f"{type(value).__name__} {len(content)} ".encode() + content


@contextmanager
def writing(path: Path, schema: Schema) -> Iterator[sqlite3.Connection]:
    """Hold a file's write lock; commit to the disk, or leave no trace."""
    path = make_database(path, schema)
    uri = f"{path.as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)) as db:
        schema.require(db, path)
        write_ahead(db.execute)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA secure_delete = ON")  # or what is deleted stays in the file
        with db:
            db.execute("BEGIN IMMEDIATE")
            schema.require_rows(db, path)
            yield db
            schema.sum_up(db)


def make_database(path: Path, schema: Schema) -> Path:
    """Make a file on first use; return where it really is."""
    path = Path(os.path.realpath(path))  # SQLite keeps its own files beside that
    if not path.exists():
        # Others may be making it now; but what lies beside it is never there before it is.
        if any(Path(f"{path}{tail}").exists() for tail in _BESIDE) and not path.exists():
            raise Damaged(path)
        make(path, schema.empty_file())
    size = path.stat().st_size
    # SQLite takes less than a page for a new database, and reads zeros where a page is cut off.
    # While pages are written, and after a power cut, all of them are in the log.
    if size < schema.page or (size % schema.page and not Path(f"{path}-wal").exists()):
        raise Damaged(path)
    return path


def make(path: Path, content: bytes) -> None:
    """Put a new file there, for its owner only and whole, unless another process was first."""
    path = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, path)
        except FileExistsError:
            return
    finally:
        os.unlink(name)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def put_in_place(path: Path, content: bytes) -> None:
    """Write a file for people, whole or not at all: what was there stays if there is no room."""
    if path.exists() and not path.is_file():  # such as /dev/stdout
        path.write_bytes(content)
        return
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with beside.open("xb") as file:  # never through a link that somebody else has put there
        try:
            file.write(content)
            file.flush()
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def write_ahead(execute: Callable[[str], object], patience: float = _PATIENCE) -> None:
    """Switch the journal mode; SQLite does not itself wait for others to do so."""
    give_up = time.monotonic() + patience
    while True:
        try:
            execute("PRAGMA journal_mode = WAL")
        except Exception as error:  # SQLite's own, or SQLAlchemy's around it
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
        else:
            return


_SECRET = 32
"""Bytes of a secret."""


class UnusableSecret(ValueError):
    """A file that should hold a secret does not, or others may read it."""


def secret_of(path: Path) -> bytes:
    """Read 32 secret bytes, or draw them on first use."""
    try:
        return _read_secret(path)
    except FileNotFoundError:
        make(path, secrets.token_bytes(_SECRET))
        return _read_secret(path)


def _read_secret(path: Path) -> bytes:
    with path.open("rb") as file:
        if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise UnusableSecret("others may read the key file: set its mode to 0600")
        secret = file.read(_SECRET + 1)
    if len(secret) != _SECRET:
        raise UnusableSecret("the key file does not hold 32 bytes")
    return secret
