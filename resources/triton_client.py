"""The connections to Triton servers: one for each address, kept for as long as the process lives.

What a channel needs belongs here. What is sent on it does not: see `resources.triton_call`.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tritonclient.grpc import InferenceServerClient

_MAX_MESSAGE_BYTES = 2**31 - 1


class Clients:
    """One long-lived client for each address in each process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[tuple[int, str], InferenceServerClient] = {}

    def get(self, url: str) -> InferenceServerClient:
        """The client for a `host:port`, made on first use."""
        # A client made before a fork is neither used nor closed after it: its channel is its maker's.
        key = (os.getpid(), url)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = _connect(url)
            return self._clients[key]

    def renew_lock(self) -> None:
        """Forgets a lock that a thread of the parent held when this process was forked."""
        self._lock = threading.Lock()


clients = Clients()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=clients.renew_lock)


def _connect(url: str) -> InferenceServerClient:
    from tritonclient.grpc import InferenceServerClient

    options = [
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        # A server that was restarted is found again at once, not after gRPC's minutes.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    return InferenceServerClient(url, channel_args=options)
