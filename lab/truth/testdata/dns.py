"""A name server of the laboratory: dns.py HOW ADDRESS NAME=ADDRESS...

right: it answers what it is given; none: no such name; any: one address for every name;
silent: nothing; slow: after a second.
"""

import socket
import struct
import sys
import threading
import time

how, address, names = sys.argv[1], sys.argv[2], dict(a.split("=") for a in sys.argv[3:])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((address, 53))
print("ready", flush=True)


def reply(query, client):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    kind = struct.unpack(">H", query[at + 1:at + 3])[0]
    question = query[12:at + 5]
    found = "203.0.113.9" if how == "any" else names.get(labels[0].lower()) if labels else None
    if how == "silent":
        return
    if how == "slow":
        time.sleep(1)
    known = found and how != "none"
    answer = b""
    if known and kind == 1:
        answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 30, 4) + socket.inet_aton(found)
    head = struct.pack(">HHHHHH", struct.unpack(">H", query[:2])[0], 0x8580 | (0 if known else 3), 1, bool(answer), 0, 0)
    s.sendto(head + question + answer, client)


while True:
    threading.Thread(target=reply, args=s.recvfrom(2048), daemon=True).start()
