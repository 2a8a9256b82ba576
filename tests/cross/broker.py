# SPDX-License-Identifier: Apache-2.0
"""A broker under test: `coissue serve` on the simulated device, with a folder of its own for its socket."""
import os
import re
import signal
import socket
import subprocess
import time

SOCKET = re.compile(r"[0-9a-f]{32}\.sock")
OURS = ("COISSUE_", "SIMCUDA_", "CUDA_", "TRAPS_")


def clean_environment():
    """What the caller has set must not reach the programs under test."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(OURS) and name not in ("LD_PRELOAD", "XDG_RUNTIME_DIR")}


class BrokerFailure(Exception):
    pass


class Broker:
    """start() returns when somebody listens. The folder stays the caller's."""

    def __init__(self, command, sim, folder, **variables):
        self.command, self.folder = os.path.abspath(command), folder
        self.env = clean_environment() | {"COISSUE_BROKER_FOLDER": folder, "COISSUE_CACHE": "off"} | variables
        if sim:
            self.env["LD_LIBRARY_PATH"] = os.path.abspath(sim)
        self.process, self.log = None, os.path.join(folder, "broker.log")

    def path(self):
        """The socket, or None."""
        names = [name for name in os.listdir(self.folder) if SOCKET.fullmatch(name)]
        return os.path.join(self.folder, names[0]) if names else None

    def listens(self):
        path = self.path()
        if not path:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            try:
                probe.connect(path)
            except (ConnectionRefusedError, FileNotFoundError):
                return False
        return True

    def start(self, timeout_s=20):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.command, "serve"], env=self.env, cwd=self.folder,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + timeout_s
        while not self.listens():
            if self.process.poll() is not None:
                raise BrokerFailure(f"the broker ended with {self.process.returncode}: {self.said()}")
            if time.monotonic() > end:
                self.kill()
                raise BrokerFailure(f"the broker does not listen after {timeout_s} s: {self.said()}")
            time.sleep(0.005)
        return self

    def said(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """Whatever state it is in."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self, timeout_s=20):
        """As a service manager does. Its exit status."""
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailure(f"the broker did not end within {timeout_s} s of SIGTERM: {self.said()}") from None

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def mappings(self):
        """Those of memory that clients shared or that it made for them."""
        with open(f"/proc/{self.process.pid}/maps", encoding="utf-8") as file:
            return sum("/memfd:" in line for line in file)

    def __enter__(self):
        return self if self.process else self.start()

    def __exit__(self, *_):
        self.kill()
