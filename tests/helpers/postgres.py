"""A PostgreSQL server of our own: a temporary cluster on a Unix socket, asking for a password."""

import contextlib
import getpass
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

USER = "ann_qz8"
PASSWORD = "qz7 w/ord@1"  # signs that end a badly escaped URI
ACCOUNTS = ("postgres", "nobody")  # the server does not run as root
SECONDS = 30


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    folder: str  # of its socket
    port: int = 5432

    @property
    def environment(self):
        """The variables by which every client finds it."""
        return {
            "PGHOST": self.folder,
            "PGUSER": USER,
            "PGPASSWORD": PASSWORD,
            "PGDATABASE": "chat",
        }

    def connect(self):
        import psycopg

        return psycopg.connect(
            host=self.folder, user=USER, password=PASSWORD, dbname="chat", autocommit=True
        )

    def execute(self, *statements):
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def kill_backends(self):
        """End all connections but this one, and return how many there were."""
        with self.connect() as connection:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = 'chat' AND pid <> pg_backend_pid()"
            )
            return ended.fetchone()[0]


def program(name):
    """The path of a program of PostgreSQL, or None."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(debian[-1]) if debian else None)


def is_available():
    if not hasattr(os, "getuid"):  # a system without POSIX
        return False
    return None not in (program("initdb"), program("postgres"), _account())


def _account():
    """Who may run the server: whoever runs the tests, or another account where that is root."""
    if os.getuid():
        return getpass.getuser()
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ACCOUNTS if name in names), None)


@contextlib.contextmanager
def running_server():
    """A server with an empty database `chat`, stopped and removed at the end."""
    folder = tempfile.mkdtemp(prefix="bayesgram-pg-", dir="/tmp")
    who = {}
    if not os.getuid():
        import pwd

        account = pwd.getpwnam(_account())
        os.chown(folder, account.pw_uid, account.pw_gid)
        who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    try:
        secret = Path(folder, "password")
        secret.write_text(PASSWORD, encoding="utf-8")
        secret.chmod(0o644)
        data = f"{folder}/data"
        subprocess.run(
            [
                *(program("initdb"), "-D", data, "-U", USER, "--pwfile", secret, "--no-sync"),
                *("-A", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"),
            ],
            check=True,
            capture_output=True,
            cwd=folder,
            **who,
        )
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": folder,
            "fsync": "off",
            "shared_buffers": "16MB",
            "max_connections": "20",
        }
        options = [word for item in settings.items() for word in ("-c", "=".join(item))]
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(
                [program("postgres"), "-D", data, *options],
                stdout=log,
                stderr=log,
                cwd=folder,
                **who,
            )
        try:
            _wait(folder, process)
            yield Server(folder)
        finally:
            process.send_signal(2)  # a fast shutdown, which ends connections
            process.wait(SECONDS)
    finally:
        shutil.rmtree(folder)


def _wait(folder, process):
    import psycopg

    end = time.monotonic() + SECONDS
    while True:
        try:
            with psycopg.connect(
                host=folder, user=USER, password=PASSWORD, dbname="postgres", autocommit=True
            ) as connection:
                connection.execute("CREATE DATABASE chat")
        except psycopg.OperationalError:
            assert process.poll() is None, Path(folder, "log").read_text(encoding="utf-8")
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.1)
        else:
            return
