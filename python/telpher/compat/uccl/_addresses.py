"""How endpoints find each other: metadata bytes, the secrets they brought, and the endpoints of this user on this host."""

from __future__ import annotations

import fcntl
import itertools
import json
import logging
import os
import socket
import stat
import struct
import tempfile
import threading
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

from ... import EndpointAddress

log = logging.getLogger("telpher.compat")

BASE_PORT = 7500
"""Where the endpoint of GPU 0 listens if it can; that of GPU k listens k further. ``TELPHER_PORT`` replaces it."""


class Refused(Exception):
    """Why a call returns False."""


class Metadata(NamedTuple):
    """Who an endpoint is. ``address`` has its routes and its secret."""

    ip: str
    port: int
    bdf: str
    address: bytes


_MAGIC = b"TLPM"
_SIZE = 4096
"""Metadata of all endpoints has one length, since scripts receive the peer's into a buffer that is as long as their own."""


def encode(of: Metadata) -> bytes:
    """UCCL's layout (address, port, length and text of the BDF), then ours, then zeros up to a multiple of 4096."""
    family = socket.AF_INET6 if ":" in of.ip else socket.AF_INET
    bdf = of.bdf.encode()
    head = socket.inet_pton(family, of.ip) + struct.pack("!HB", of.port, len(bdf)) + bdf
    data = head + _MAGIC + struct.pack("!BI", len(head), len(of.address)) + of.address
    return data + bytes(-len(data) % _SIZE)


def decode(data: bytes) -> Metadata:
    """Raises RuntimeError for what is not metadata. Metadata of another implementation has no address: ``b""``."""
    short = {10: (socket.AF_INET, 4), 22: (socket.AF_INET6, 16)}.get(len(data))  # no BDF is so short or so long
    if short is not None:
        family, size = short
        port, gpu = struct.unpack_from("!H", data, size)[0], struct.unpack_from("=i", data, size + 2)[0]
        return Metadata(socket.inet_ntop(family, data[:size]), port, str(gpu), b"")
    for family, size in ((socket.AF_INET, 4), (socket.AF_INET6, 16)):
        if len(data) < size + 3:
            continue
        port, length = struct.unpack_from("!HB", data, size)
        end = size + 3 + length
        if data[end : end + 5] == _MAGIC + bytes([end & 255]):
            (count,) = struct.unpack_from("!I", data, end + 5)
            address = data[end + 9 : end + 9 + count]
            if len(address) != count:
                break  # cut short
        elif len(data) == end:
            address = b""
        else:
            continue
        return Metadata(socket.inet_ntop(family, data[:size]), port, data[size + 3 : end].decode(), address)
    raise RuntimeError("these %d bytes are not the metadata of an endpoint" % len(data))


def encode_first(ip: str, port: int, gpu: int) -> bytes:
    """The first generation's: address, port, GPU index; 10 or 22 bytes, with no room for a secret."""
    return socket.inet_pton(socket.AF_INET6 if ":" in ip else socket.AF_INET, ip) + struct.pack("!H", port) + struct.pack("=i", gpu)


# --- what parse_metadata has seen ------------------------------------------------------------------------

_known: Dict[Tuple[str, int], bytes] = {}
_known_lock = threading.Lock()


def remember(of: Metadata) -> None:
    """``connect`` finds the address, and with it the secret, by the IP and port that ``parse_metadata`` returned."""
    if of.address:
        with _known_lock:
            _known[of.ip, of.port] = of.address


def base_port() -> int:
    """The port of GPU 0's endpoint."""
    return int(os.environ.get("TELPHER_PORT") or BASE_PORT)


def resolve(ip: str, gpu: Any, port: int) -> EndpointAddress:
    """The address behind what ``connect`` was given.

    Raises Refused when nothing has its secret.
    """
    if port <= 0:
        try:
            port = base_port() + int(gpu)
        except ValueError:
            raise Refused("no port was given for %s, and %r is not the index of a GPU that it could be derived from" % (ip, gpu)) from None
    with _known_lock:
        found = _known.get((ip, port))
    if found is not None:
        return EndpointAddress(found)
    for record in Records.all():
        if record["port"] == port and (ip == record["ip"] or ip == "localhost" or ip.startswith("127.") or ip == "::1"):
            return EndpointAddress(record["address"])
    secret = os.environ.get("TELPHER_SECRET")
    if not secret:
        raise Refused(
            "%s port %d is known by its numbers alone, and connecting takes the peer's secret: hand its get_metadata() bytes to parse_metadata() "
            "or add_remote_endpoint(), or set TELPHER_SECRET (16 to 64 bytes) to the same value on both sides" % (ip, port)
        )
    return EndpointAddress.of(ip, port, secret)


# --- the endpoints of this user on this host ---------------------------------------------------------------


class Records:
    """A file for each endpoint of this user on this host, which only this user can read: ``connect_local`` has no other way to find one.

    Its owner holds a lock on it while it lives, so what a killed process left behind is recognised, and removed by whoever sees it.
    """

    _numbers = itertools.count(1)

    @staticmethod
    def folder() -> str:
        """Raises Refused when it is not this user's alone."""
        path = os.path.join(tempfile.gettempdir(), "telpher-uccl-%d" % os.getuid())
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise Refused("%s is not a folder of this user alone (mode 0700): remove it, or set TMPDIR" % path)
        return path

    @staticmethod
    def publish(record: Dict[str, Any]) -> Tuple[str, int]:
        """Returns path and descriptor; ``withdraw`` takes them."""
        name = "%d-%d" % (os.getpid(), next(Records._numbers))
        path = os.path.join(Records.folder(), name)
        descriptor = os.open(path + ".new", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps(record).encode())
        os.rename(path + ".new", path)  # nobody sees half of it, or one that is not locked yet
        return path, descriptor

    @staticmethod
    def withdraw(path: str, descriptor: int, pid: int) -> None:
        """In the process that published it; a forked child leaves it alone."""
        if os.getpid() == pid:
            try:
                os.unlink(path)
            except OSError:
                pass
            os.close(descriptor)

    @staticmethod
    def all() -> Iterator[Dict[str, Any]]:
        """Those whose owners live, newest first; each has its ``path``."""
        try:
            entries = [e for e in os.scandir(Records.folder()) if not e.name.endswith(".new")]
            entries.sort(key=lambda e: -e.stat().st_mtime_ns)
        except FileNotFoundError:
            return
        for entry in entries:
            record = Records._read(entry.path)
            if record is not None:
                yield record

    @staticmethod
    def _read(path: str) -> Optional[Dict[str, Any]]:
        try:
            with open(path, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return {**json.load(file), "path": path}
            os.unlink(path)  # its owner is dead
        except (OSError, ValueError) as e:
            log.debug("%s: %s", path, e)
        return None


def local_address(gpu: Any, own: str) -> Optional[EndpointAddress]:
    """The newest endpoint of a GPU, by its BDF or its index, that is not the one whose record is ``own``."""
    wanted = str(gpu).lower()
    for record in Records.all():
        if record["path"] != own and wanted in (record["bdf"].lower(), str(record["gpu"])):
            return EndpointAddress(record["address"])
    return None


# --- the address of this host ------------------------------------------------------------------------------


def get_oob_ip() -> str:
    """The address that peers are told: that of the interface named by ``UCCL_SOCKET_IFNAME`` or ``NCCL_SOCKET_IFNAME`` (the first of a list, as a
    prefix, or ``=`` and a whole name), else the one that the default route leaves by, else 127.0.0.1."""
    for variable in ("UCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        for wanted in filter(None, os.environ.get(variable, "").split(",")):
            for _, name in socket.if_nameindex():
                if name == wanted[1:] if wanted[0] == "=" else name.startswith(wanted):
                    found = _ipv4_of(name)
                    if found:
                        return found
    for family, anywhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((anywhere, 9))  # sends nothing: only asks the routing table
                address: str = probe.getsockname()[0]
                return address
        except OSError:
            pass
    return "127.0.0.1"


def _ipv4_of(name: str) -> Optional[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()))  # SIOCGIFADDR
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])
