"""Free TCP ports of this machine."""
import random
import socket


def _free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port_pair():
    """Two neighbouring ports that nobody uses at the moment, below those that clients are given."""
    for _ in range(1000):
        port = random.randrange(20000, 30000, 2)
        if _free(port) and _free(port + 1):
            return port
    raise AssertionError("no two free neighbouring ports between 20000 and 30000")
