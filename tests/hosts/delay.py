"""Passes the frames of two network interfaces on to each other, after a time: ``delay.py ONE OTHER SECONDS [FLIPS]``.

With FLIPS, it is a machine in the middle that changes what crosses: one bit of each so many-th frame with much in it.
The kernels on both sides notice nothing, since they leave the checksum to the hardware, which is not there.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time

_PACKET_OUTGOING = 4
_SOL_PACKET, _PACKET_VNET_HDR = 263, 15
"""Of ``packet(7)``: frames say what the kernel has left for the hardware to do, such as to cut them up."""
_MOST = 1 << 17
_MUCH = 20_000
"""Bytes of a frame that holds a part of a step."""


def interface(name: str) -> socket.socket:
    """All that comes to an interface, and a way to send by it."""
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    one.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    one.bind((name, 3))  # ETH_P_ALL
    return one


def flipped(frame: bytes) -> bytes:
    """The frame, with a bit changed that is far behind all headers."""
    place = len(frame) // 2
    return frame[:place] + bytes([frame[place] ^ 4]) + frame[place + 1 :]


def take(one: socket.socket, frames: queue.Queue[tuple[float, bytes]], seconds: float, flips: int) -> None:
    """Note when each frame is to go on."""
    large = 0
    while True:
        frame, where = one.recvfrom(_MOST)
        if where[2] != _PACKET_OUTGOING:
            large += len(frame) > _MUCH
            if flips and len(frame) > _MUCH and large % flips == 0:
                frame = flipped(frame)
            frames.put((time.monotonic() + seconds, frame))


def give(other: socket.socket, frames: queue.Queue[tuple[float, bytes]]) -> None:
    """Let each go on then."""
    while True:
        at, frame = frames.get()
        time.sleep(max(0.0, at - time.monotonic()))
        other.send(frame)


if __name__ == "__main__":
    ends = [interface(name) for name in sys.argv[1:3]]
    every = int(sys.argv[4]) if sys.argv[4:] else 0
    for one, other in (ends, ends[::-1]):
        under_way: queue.Queue[tuple[float, bytes]] = queue.Queue()
        threading.Thread(target=take, args=(one, under_way, float(sys.argv[3]), every), daemon=True).start()
        threading.Thread(target=give, args=(other, under_way), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()
