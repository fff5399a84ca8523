"""Listens on a port and says nothing: listen.py PORT."""

import socket
import sys
import time

s = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
time.sleep(600)
