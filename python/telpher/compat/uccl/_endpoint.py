"""The class ``Endpoint``: setting up, memory. What moves bytes is in ``_operations``."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ... import Closed, ConnectFailed, EndpointAddress, Unsupported, devices
from ... import Endpoint as Engine
from . import _addresses, _memory
from ._addresses import Metadata, Records, Refused, log
from ._connections import LOCAL, NET, Connections
from ._memory import NO_ID, XferDesc
from ._operations import REASONS, Transfers, fallible
from ._types import FloatType

_RETRY = 0.1


class Endpoint(Transfers):
    """UCCL's endpoint, of one GPU (or none). Thread-safe.

    ``local_gpu_idx``: the GPU whose number and BDF peers are told; memory of any GPU and of the host can be used. None: GPU 0, and from the first
    ``reg`` on that of the memory which was registered by it, if it is a GPU's. ``num_cpus`` is the old form's, and without effect. It goes when it
    is dropped, or by ``close``, which UCCL has not.
    """

    def __init__(self, local_gpu_idx: Optional[int] = None, num_cpus: Optional[int] = None):
        strategy = os.environ.get("UCCL_P2P_COMPRESS_STRATEGY", "none").lower()
        if strategy not in ("", "none"):
            raise RuntimeError("UCCL_P2P_COMPRESS_STRATEGY is %r: Telpher does not compress; unset it, or set it to none" % strategy)
        self._gpu = int(local_gpu_idx or 0)
        self._follows = local_gpu_idx is None
        self._bdf = _bdf(self._gpu)
        self._ip = _addresses.get_oob_ip()
        self._engine, self._port = _open(_addresses.base_port() + self._gpu)
        self._timeout: float = self._engine.options()["connect_deadline"]
        self._connections = Connections(self._engine, self._identity())
        self._memory = _memory.Registrations(self._engine)
        self._init_transfers()
        self._added: Dict[bytes, int] = {}
        self._gates: Dict[bytes, threading.Lock] = {}
        self._added_lock = threading.Lock()
        self._passive: Optional[threading.Thread] = None
        self._record = ""
        self._withdraw: Optional[Callable[[], Any]] = None
        self._publish()

    def _identity(self) -> Dict[str, Any]:
        """What peers are told."""
        return {"ip": self._ip, "gpu": self._gpu, "bdf": self._bdf}

    def _publish(self) -> None:
        """Has ``connect_local`` of this host find it, by what peers are told now."""
        if self._withdraw is not None:
            self._withdraw()
        try:
            self._record, descriptor = Records.publish({**self._identity(), "port": self._port, "address": self._engine.address.text})
            self._withdraw = weakref.finalize(self, Records.withdraw, self._record, descriptor, os.getpid())
        except (OSError, Refused) as e:
            log.warning("connect_local will not find this endpoint: %s", e)

    # --- connections -----------------------------------------------------------------------------------

    def get_metadata(self) -> bytes:
        """Who this is and how to reach it, **with its secret**: whoever has these bytes may connect. 4096 bytes, begun as UCCL's."""
        return _addresses.encode(Metadata(self._ip, self._port, self._bdf, bytes(self._engine.address)))

    def get_endpoint_metadata(self) -> bytes:
        """The first generation's 10 or 22 bytes, without a secret: needs TELPHER_SECRET on both sides, unless both are one user's on one host."""
        return _addresses.encode_first(self._ip, self._port, self._gpu)

    @staticmethod
    def parse_metadata(metadata: bytes) -> Tuple[str, int, str]:
        """(ip, port, GPU's BDF). The secret is kept in this process: ``connect`` finds it by IP and port. Raises RuntimeError for other bytes."""
        found = _addresses.decode(bytes(metadata))
        _addresses.remember(found)
        return found.ip, found.port, found.bdf

    @fallible((False, 0))
    def connect(self, *args: Any, **kwargs: Any) -> Tuple[bool, int]:
        """``connect(remote_ip_addr, remote_gpu_bdf, remote_port=-1)``, with ``remote_gpu_idx`` as the old name of the second; or
        ``connect(metadata)``. Returns (ok, conn_id). Without a port: the fixed base port plus the GPU's index."""
        if len(args) == 1 and not kwargs or set(kwargs) == {"metadata"}:
            return True, self._connect_metadata(bytes(args[0] if args else kwargs["metadata"]))
        return True, self._connect(*args, **kwargs)

    def _connect(self, remote_ip_addr: str, remote_gpu_bdf: Any = None, remote_port: int = -1, remote_gpu_idx: Any = None) -> int:
        gpu = remote_gpu_idx if remote_gpu_bdf is None else remote_gpu_bdf
        ip = str(remote_ip_addr)
        peer = {"ip": ip, "gpu": gpu, "bdf": str(gpu)}
        return self._until_connected(lambda: _addresses.resolve(ip, gpu, int(remote_port)), NET, peer)

    def _connect_metadata(self, metadata: bytes) -> int:
        found = _addresses.decode(metadata)
        if not found.address:
            return self._connect(found.ip, found.bdf, found.port)
        peer = {"ip": found.ip, "gpu": found.bdf, "bdf": found.bdf}
        return self._until_connected(lambda: EndpointAddress(found.address), NET, peer)

    def _until_connected(self, find: Callable[[], Optional[EndpointAddress]], kind: str, peer: Dict[str, Any]) -> int:
        """Peers may start a little later: tries again until the endpoint's connect deadline. Raises what the last attempt said."""
        end = time.monotonic() + self._timeout
        while True:
            try:
                address = find()
                if address is not None:
                    return self._connections.connect(address, kind, peer, max(_RETRY, end - time.monotonic()))
            except ConnectFailed:
                if time.monotonic() >= end:
                    raise
            if time.monotonic() >= end:
                raise Refused("this user has no endpoint of GPU %s on this host after %g s" % (peer["bdf"], self._timeout))
            time.sleep(_RETRY)

    @fallible((False, "", 0, 0))
    def accept(self) -> Tuple[bool, str, int, int]:
        """Waits for a peer. Returns (ok, its ip, its GPU's index, conn_id)."""
        channel = self._accept(NET)
        return True, channel.peer["ip"], channel.peer["gpu"], channel.number

    @fallible((False, 0))
    def connect_local(self, remote_gpu_bdf: Any = None, remote_gpu_idx: Any = None) -> Tuple[bool, int]:
        """Connects to the endpoint of a GPU (BDF or index) of this user on this host; waits a moment for it. Returns (ok, conn_id)."""
        gpu = remote_gpu_idx if remote_gpu_bdf is None else remote_gpu_bdf
        peer = {"ip": self._ip, "gpu": gpu, "bdf": str(gpu)}
        return True, self._until_connected(lambda: _addresses.local_address(gpu, self._record), LOCAL, peer)

    @fallible((False, "", 0))
    def accept_local(self) -> Tuple[bool, str, int]:
        """Waits for a peer that uses ``connect_local``. Returns (ok, its GPU's BDF, conn_id)."""
        channel = self._accept(LOCAL)
        return True, channel.peer["bdf"], channel.number

    def _accept(self, kind: str) -> Any:
        if self._passive is not None:
            raise Refused("start_passive_accept() accepts all peers already")
        return self._connections.accept(kind)

    @fallible(False)
    def start_passive_accept(self) -> bool:
        """From now on a thread accepts whoever connects; ``accept`` and ``accept_local`` return False."""
        with self._added_lock:
            if self._passive is None:
                self._passive = threading.Thread(
                    target=_accept_all, args=(weakref.ref(self),), name="telpher-compat-accept", daemon=True
                )
                self._passive.start()
        return True

    @fallible((False, 0))
    def add_remote_endpoint(self, metadata_bytes: bytes) -> Tuple[bool, int]:
        """Connects to an endpoint by its metadata, once: the same bytes give the same (ok, conn_id) again."""
        metadata = bytes(metadata_bytes)
        with self._added_lock:
            gate = self._gates.setdefault(metadata, threading.Lock())
        with gate:  # one peer at a time; others do not wait for it
            number = self._added.get(metadata)
            if number is None or not self._connections.has(number):
                number = self._added[metadata] = self._connect_metadata(metadata)
            return True, number

    @fallible(False)
    def remove_remote_endpoint(self, conn_id: int) -> bool:
        """Ends a connection; what is under way on it fails. False for an id that is none (any more)."""
        self._connections.remove(conn_id)
        with self._added_lock:
            for metadata in [m for m, number in list(self._added.items()) if number == conn_id]:
                del self._added[metadata]
        return True

    def conn_id_of_rank(self, rank: int) -> int:
        """2**64 - 1, always: in UCCL too nothing has filled this table since its groups went."""
        return NO_ID

    def join_group(self, *args: Any, **kwargs: Any) -> bool:
        """The first generation's rendezvous by redis, which is not served: raises NotImplementedError."""
        raise NotImplementedError("join_group needs redis, which UCCL has dropped too: exchange get_metadata() by torch.distributed and connect()")

    @staticmethod
    def create_and_join(*args: Any, **kwargs: Any) -> Endpoint:
        """As ``join_group``: raises NotImplementedError."""
        raise NotImplementedError("create_and_join needs redis, which UCCL has dropped too: exchange get_metadata() by torch.distributed and connect()")

    # --- memory ----------------------------------------------------------------------------------------

    @fallible((False, 0))
    def reg(self, ptr: int, size: int, floatType: FloatType = FloatType.kUndefined) -> Tuple[bool, int]:
        """Registers memory of the host or a GPU. Returns (ok, mr_id). The memory must stay until ``dereg``: nothing here keeps it."""
        return True, self._add(int(ptr), int(size))

    def _add(self, pointer: int, nbytes: int) -> int:
        """Registers. The first memory says which GPU this is the endpoint of, where the caller has not."""
        number = self._memory.add(pointer, nbytes)
        if self._follows:
            self._follow(self._memory.get(number).region._device or 0)
        return number

    def _follow(self, gpu: int) -> None:
        with self._added_lock:
            follows, self._follows = self._follows, False
            if follows and gpu != self._gpu:
                self._gpu, self._bdf = gpu, _bdf(gpu)
                self._connections.identify(self._identity())
                self._publish()

    def regv(self, ptrs: Sequence[int], sizes: Sequence[int]) -> Tuple[bool, List[int]]:
        """Registers several; all or none. Returns (ok, [mr_id])."""
        if len(ptrs) != len(sizes):
            raise RuntimeError("regv: %d pointers and %d sizes" % (len(ptrs), len(sizes)))
        return self._regv(ptrs, sizes)

    @fallible((False, []))
    def _regv(self, ptrs: Sequence[int], sizes: Sequence[int]) -> Tuple[bool, List[int]]:
        numbers: List[int] = []
        try:
            for pointer, size in zip(ptrs, sizes):
                numbers.append(self._add(int(pointer), int(size)))
        except BaseException:
            for number in numbers:
                self._memory.remove(number)
            raise
        return True, numbers

    @fallible(False)
    def dereg(self, mr_id: int) -> bool:
        """Gives an id back. With the last id of a piece of memory its descriptors end: a peer's use of them fails."""
        self._memory.remove(mr_id)
        return True

    def register_memory(self, tensor_list: Sequence[Any]) -> List[XferDesc]:
        """Registers contiguous tensors, for ``transfer``; all or none. Raises RuntimeError for what is not one, or cannot be registered."""
        for index, tensor in enumerate(tensor_list):
            if not (hasattr(tensor, "data_ptr") and hasattr(tensor, "numel") and hasattr(tensor, "element_size")):
                raise RuntimeError("item %d is a %s and no tensor: it has no data_ptr()" % (index, type(tensor).__name__))
            if hasattr(tensor, "is_contiguous") and not tensor.is_contiguous():
                raise RuntimeError("item %d is a tensor that is not contiguous: its bytes do not lie together" % index)
        made: List[XferDesc] = []
        try:
            for tensor in tensor_list:
                pointer, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
                number = self._add(pointer, size)
                made.append(XferDesc.of(number, self._memory.slice(number, pointer, size)))
        except REASONS as e:
            self.deregister_memory(made)
            raise RuntimeError("item %d cannot be registered: %s" % (len(made), e)) from e
        return made

    def deregister_memory(self, desc_list: Sequence[XferDesc]) -> None:
        """``dereg`` for those of ``register_memory``."""
        for each in desc_list:
            if each.mr_id != NO_ID:
                self.dereg(each.mr_id)

    def get_serialized_descs(self, desc_list: Sequence[XferDesc]) -> bytes:
        """Bytes for a peer's ``deserialize_descs``."""
        return _memory.serialize(desc_list)

    def deserialize_descs(self, serialized_bytes: bytes) -> List[XferDesc]:
        """A peer's descriptors, without ``mr_id``. Raises RuntimeError for bytes that are none."""
        return _memory.deserialize(bytes(serialized_bytes))

    # --- its end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends connections and registrations. Not in UCCL, where dropping the endpoint does it; here that does it too."""
        if self._withdraw is not None:
            self._withdraw()
        self._engine.close()

    def __repr__(self) -> str:
        return "<UCCL P2P Endpoint>"


def _bdf(gpu: int) -> str:
    """The PCI address of a GPU that this process sees, or ``cpu:N``."""
    found = devices()
    return found[gpu]["pci_address"] if 0 <= gpu < len(found) else "cpu:%d" % gpu


def _open(port: int) -> Tuple[Engine, int]:
    """On the port if it is free, else on any. Port 0: nothing listens by TCP."""
    secret = os.environ.get("TELPHER_SECRET") or secrets.token_hex(16)
    if port:
        try:
            engine = Engine(secret=secret, port=port)
            if engine.port:
                return engine, engine.port
            engine.close()
        except Unsupported:
            pass  # the port is taken, and nothing but TCP is to be used
    engine = Engine(secret=secret, port=0)
    return engine, engine.port


def _accept_all(owner: weakref.ref[Endpoint]) -> None:
    """Ends with the endpoint, which it does not keep, and with nothing else: a peer that fails is no reason to refuse the others."""
    while True:
        endpoint = owner()
        if endpoint is None or endpoint._engine.closed:
            return
        try:
            endpoint._connections.accept_all()
        except Closed:
            return
        except Exception:
            log.exception("start_passive_accept could not take in a peer; it goes on")
            time.sleep(_RETRY)
        del endpoint
