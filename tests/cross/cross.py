#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several processes around one broker on the simulated device, and every way in which one of them can fail.

  cross.py --shim LIBRARY --sim FOLDER --client PROGRAM [--serve COISSUE] [--fake PROGRAM] [--rounds N] CASE

The clients are tests/cross/client.c: they know what their results must be, down to how often each launch was done, so
each case asks first whether all of them are right, and then who made the launches, who said what, and how long it took.

  --rounds N    how often a fault is made (default: what the case says)
  --slack-ms N  what this machine may add to the times that are promised (default 400: CI has two cores)
  --keep        leave the folder with the logs, and say where it is

Exit status: 0 passed, 1 failed, 77 skipped.
"""
import argparse
import json
import os
import queue
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker, BrokerFailure, clean_environment  # pylint: disable=wrong-import-position

HOME_MS = 100  # clients of a broker that is gone are at home after this, at the latest
OWED_MS = 300
TIMEOUT_S = 60
ILLEGAL_ADDRESS = 700
LAUNCH = re.compile(r"^\d+ tid=\d+ cuLaunchKernel(?:Ex)?(?:_ptsz)? = 0\b")
REPLY = struct.Struct("=iIQQ1024s")  # struct wire_reply


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Failure(what)


def until(condition, what, timeout_s=TIMEOUT_S):
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"not within {timeout_s} s: {what}")
        time.sleep(0.002)


class Client:
    """A running client. Lines of its output arrive in `bursts` (their number) and `result` (the JSON)."""

    count = 0

    def __init__(self, test, *arguments, preload=True, **variables):
        Client.count += 1
        self.name = f"client-{Client.count}"
        self.trace = os.path.join(test.folder, self.name + ".driver")
        self.errors = os.path.join(test.folder, self.name + ".stderr")
        env = clean_environment() | {"LD_LIBRARY_PATH": test.options.sim, "SIMCUDA_TRACE": self.trace}
        if preload:
            env |= {"LD_PRELOAD": test.options.shim, "COISSUE_CACHE": "off", "COISSUE_BROKER": "require",
                    # Each launch at home is to be seen.
                    "COISSUE_COALESCE": "off", "COISSUE_BROKER_FOLDER": test.folder}
        env |= variables
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen([test.options.client, *map(str, arguments)], env=env, cwd=test.folder,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.bursts, self.ready, self.result = 0, False, None
        self.lines = queue.SimpleQueue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        test.clients.append(self)

    def read(self):
        for line in self.process.stdout:
            if line.startswith("burst "):
                self.bursts = int(line.split()[1])
            elif line == "ready\n":
                self.ready = True
            elif line.startswith("{"):
                self.result = json.loads(line)

    def ended(self):
        return self.process.poll() is not None

    def wait(self, timeout_s=TIMEOUT_S):
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure(f"{self.name} did not end within {timeout_s} s, after burst {self.bursts}") from None
        self.reader.join()
        return self

    def said(self):
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            return file.read()

    def our_lines(self):
        return [line for line in self.said().splitlines() if line.startswith("coissue")]

    def launches_at_home(self):
        return driver_launches(self.trace)

    def right(self, checksum=None, may_fail=False):
        """All results right. May have got an error if that is allowed; then it is told by the driver's call."""
        self.wait()
        status, result = self.process.returncode, self.result
        need(result is not None, f"{self.name} ended with {status} and no result: {self.said()}")
        need(result["wrong"] == 0, f"{self.name} has {result['wrong']} wrong values: {self.said()}")
        if result["error"]:
            need(may_fail, f"{self.name} got error {result['error']} from {result['call']}: {self.said()}")
            need(status == 3, f"{self.name} ended with {status} after an error")
            return False
        need(status == 0, f"{self.name} ended with {status}: {self.said()}")
        if checksum:
            need(result["checksum"] == checksum, f"{self.name} has another checksum than it has alone")
        return True


def driver_launches(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return sum(bool(LAUNCH.match(line)) for line in file)
    except FileNotFoundError:
        return 0


class Test:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.clients, self.brokers = [], []
        self.random = random.Random(1)

    def rounds(self, default):
        return self.options.rounds or default

    def broker(self, **variables):
        """A new one, which listens."""
        need(self.options.serve, "this case needs --serve")
        number = len(self.brokers)
        trace = os.path.join(self.folder, f"broker-{number}.driver")
        broker = Broker(self.options.serve, self.options.sim, self.folder, SIMCUDA_TRACE=trace, **variables)
        broker.trace = trace
        self.brokers.append(broker)
        return broker.start()

    def client(self, *arguments, **keywords):
        return Client(self, *arguments, **keywords)

    def witness(self, *arguments, **keywords):
        """One that goes on until it is told to stop, and then checks once more."""
        flag = os.path.join(self.folder, f"enough-{Client.count}")
        client = self.client("--until", flag, "--launches", 40, "--say", *arguments, **keywords)
        client.flag = flag
        return client

    def alone(self, *arguments):
        """The checksum of a program that is by itself, without the library."""
        client = self.client(*arguments, preload=False).wait()
        client.right()
        need(client.launches_at_home() == client.result["launches"], "the driver's trace misses launches")
        return client.result["checksum"]

    def clean_up(self):
        for client in self.clients:
            if not client.ended():
                client.process.kill()
                client.process.wait()
        for broker in self.brokers:
            broker.kill()


def enough(witnesses):
    for witness in witnesses:
        with open(witness.flag, "w", encoding="utf-8"):
            pass


def progress(witnesses, bursts, what):
    """Each of them makes so many more bursts, or ends."""
    before = {witness: witness.bursts for witness in witnesses}
    until(lambda: all(w.ended() or w.bursts >= before[w] + bursts for w in witnesses), what)


# ---- without a fault -------------------------------------------------------------------------------------------------


def alone_in_all_modes(test):
    """The client itself: without the library, and with it but without a broker."""
    for arguments in ((), ("--copies",), ("--streams", 5, "--kernels", 7, "--launches", 130, "--burst", 33, "--copies")):
        checksum = test.alone(*arguments)
        for mode in ("full", "gate", "off"):
            variables = {"LD_PRELOAD": test.options.shim, "COISSUE_MODE": mode, "COISSUE_CACHE": "off"}
            client = test.client(*arguments, preload=False, **variables)
            client.right(checksum)
            need(not client.our_lines(), f"mode {mode}: {client.our_lines()}")


def an_error_is_told(test):
    """The client itself: a fault is seen by it, and a kill leaves no result."""
    client = test.client("--fault-at", 30, preload=False)
    need(not client.right(may_fail=True) and client.result["error"] == ILLEGAL_ADDRESS, "no fault was told")
    client = test.client("--kill-at", 30, preload=False).wait()
    need(client.process.returncode == -signal.SIGKILL and client.result is None, "it was not killed")


def clients_share_a_broker(test):
    """All launches are made by the broker, none at home, and results are the same bits."""
    arguments = ("--copies", "--streams", 3, "--kernels", 3, "--launches", 300)
    checksum = test.alone(*arguments)
    with test.broker() as broker:
        clients = [test.client(*arguments) for _ in range(4)]
        for client in clients:
            client.right(checksum)
            need(not client.our_lines(), f"{client.name} said {client.our_lines()}")
            need(client.launches_at_home() == 0, f"{client.launches_at_home()} launches of {client.name} were at home")
        launches = driver_launches(broker.trace)
        need(0 < launches <= 4 * 900, f"{launches} launches of the broker")
        print(f"{4 * 900} launches of four clients were {launches} of the broker")


def a_broker_that_begins_later_is_none(test):
    """A program that launched already stays as it is; results are right in any case."""
    witness = test.witness(COISSUE_BROKER="auto")
    until(lambda: witness.bursts > 3, "a witness without a broker")
    with test.broker():
        progress([witness], 20, "a witness beside a broker")
        enough([witness])
        witness.right()


def more_clients_than_there_is_room_for(test):
    """Seventy at once: those for whom there is no room go on by themselves."""
    arguments = ("--launches", 40, "--streams", 1)
    checksum = test.alone(*arguments)
    with test.broker():
        for client in [test.client(*arguments) for _ in range(70)]:
            client.right(checksum)
            need(len(client.our_lines()) <= 1, f"{client.name} said {client.our_lines()}")


# ---- faults of a client ----------------------------------------------------------------------------------------------


def baseline(test, broker):
    """Descriptors and mappings of the broker when it has had a client and has none."""
    test.client().right()
    time.sleep(0.2)
    return broker.descriptors(), broker.mappings()


def nothing_is_left(broker, before, what):
    need(broker.alive(), f"the broker ended: {broker.said()}")
    until(lambda: broker.descriptors() <= before[0] and broker.mappings() <= before[1],
          f"{what}: {broker.descriptors()} descriptors and {broker.mappings()} mappings, {before} before", 10)


def a_killed_client_leaves_others_alone(test):
    """With work in flight. Many more than fit at a time: what they had is given back."""
    with test.broker() as broker:
        before = baseline(test, broker)
        witnesses = [test.witness("--copies"), test.witness("--streams", 3)]
        until(lambda: all(w.bursts > 1 for w in witnesses), "witnesses")
        left = test.rounds(100)
        while left > 0:
            victims = [test.client("--kill-at", test.random.randrange(1, 200), "--burst", 200, "--copies")
                       for _ in range(min(3, left))]
            left -= len(victims)
            for victim in victims:
                victim.wait()
                need(victim.process.returncode == -signal.SIGKILL, f"{victim.name}: {victim.process.returncode}")
            need(broker.alive(), f"the broker ended: {broker.said()}")
        progress(witnesses, 3, "witnesses go on")
        enough(witnesses)
        for witness in witnesses:
            witness.right()
            need(witness.launches_at_home() == 0, "a witness was sent home")
        nothing_is_left(broker, before, "after clients were killed")
        test.client().right()


def a_stopped_client_keeps_nobody_waiting(test):
    with test.broker() as broker:
        witnesses = [test.witness("--copies"), test.witness()]
        for _ in range(test.rounds(20)):
            sleeper = test.witness("--copies")
            until(lambda s=sleeper: s.bursts > 0, "the one who will be stopped")
            sleeper.process.send_signal(signal.SIGSTOP)
            progress(witnesses, 5, "witnesses beside a stopped client")
            sleeper.process.send_signal(signal.SIGCONT)
            enough([sleeper])
            sleeper.right()
        enough(witnesses)
        need(all(w.right() for w in witnesses) and broker.alive(), "they are right, and the broker lives")


def a_faulty_kernel_is_its_clients(test):
    """It is told as the driver tells it. The others go on; one whose work was in flight may be told of an error."""
    with test.broker() as broker:
        told = 0
        for _ in range(test.rounds(100)):
            others = [test.client("--launches", 60, "--burst", 10) for _ in range(2)]
            faulty = test.client("--fault-at", test.random.randrange(1, 60), "--launches", 200)
            need(not faulty.right(may_fail=True), "a fault was not told")
            need(faulty.result["error"] == ILLEGAL_ADDRESS, f"a fault was told as {faulty.result['error']}")
            told += sum(not other.right(may_fail=True) for other in others)
            need(broker.alive(), f"the broker ended: {broker.said()}")
        print(f"{told} clients whose work was in flight were told of an error")
        checksum = test.alone()
        after = test.client()
        after.right(checksum)
        need(after.launches_at_home() == 0, "after the faults the broker takes clients")


def fake(test, broker, case, seed=1):
    run = subprocess.run([test.options.fake, broker.path(), case, "--seed", str(seed)], env=clean_environment(),
                         capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    expected = -signal.SIGKILL if case.startswith("killed") else 0
    need(run.returncode == expected, f"{case} (seed {seed}): status {run.returncode}: {run.stderr}")
    need(broker.alive(), f"{case} (seed {seed}): the broker ended with {broker.process.returncode}: {broker.said()}")


def malformed_messages_end_that_connection_only(test):
    listed = subprocess.run([test.options.fake, "/", "--list"], capture_output=True, text=True, check=True).stdout.split()
    wrong = []
    with test.broker() as broker:
        before = baseline(test, broker)
        witnesses = [test.witness("--copies"), test.witness()]
        until(lambda: all(w.bursts > 1 for w in witnesses), "witnesses")
        for case in listed:
            try:
                fake(test, broker, case)
                progress(witnesses, 1, f"witnesses beside {case}")
            except Failure as failure:
                wrong.append(str(failure))
                if not broker.alive():
                    break
        enough(witnesses)
        need(not wrong, "\n".join(wrong))
        for witness in witnesses:
            witness.right()
            need(witness.launches_at_home() == 0, "a witness was sent home")
        nothing_is_left(broker, before, "after malformed messages")


def noise_ends_that_connection_only(test):
    with test.broker() as broker:
        before = baseline(test, broker)
        witnesses = [test.witness("--copies"), test.witness()]
        until(lambda: all(w.bursts > 1 for w in witnesses), "witnesses")
        for seed in range(test.rounds(100)):
            fake(test, broker, "noise_in_the_area" if seed % 2 else "noise_on_the_socket", seed + 1)
        progress(witnesses, 3, "witnesses after noise")
        enough(witnesses)
        for witness in witnesses:
            witness.right()
            need(witness.launches_at_home() == 0, "a witness was sent home")
        nothing_is_left(broker, before, "after noise")


# ---- faults of the broker --------------------------------------------------------------------------------------------


def at_home_in_time(test, client, since_ns):
    """The burst in which the broker went away, or the error that tells of it, came within the time that is promised."""
    limit_ms = HOME_MS + test.options.slack_ms
    result = client.result
    if result["error"]:
        late_ms = (result["error_ns"] - since_ns) / 1e6
        # Of a broker that hangs, work that it has begun is given more time (wire/area.h).
        need(late_ms <= OWED_MS + test.options.slack_ms, f"{client.name} was told after {late_ms:.0f} ms")
        return late_ms
    begin, end = result["longest_ns"], result["longest_ns"] + result["longest_us"] * 1000
    if not begin <= since_ns <= end:
        return 0
    late_ms = (end - since_ns) / 1e6
    need(late_ms <= limit_ms, f"{client.name} was at home after {late_ms:.0f} ms")
    return late_ms


def go_home(test, default_rounds, how):
    """The broker goes away `how(broker, round)` says; all clients end, right or told. Returns (right, told, latest ms)."""
    right = told = latest = 0
    for number in range(test.rounds(default_rounds)):
        broker = test.broker()
        clients = [test.witness("--burst", 10, *arguments) for arguments in
                   ((), ("--copies", "--streams", 3), ("--sleep-us", test.random.randrange(1, 3000)))]
        until(lambda cs=clients: all(c.bursts > 2 or c.ended() for c in cs), "clients of the broker")
        time.sleep(test.random.random() * 0.01)
        since_ns = time.monotonic_ns()
        how(broker, number)
        progress(clients, 3, f"round {number}: clients at home")
        enough(clients)
        for client in clients:
            fine = client.right(may_fail=True)
            right, told = right + fine, told + (not fine)
            latest = max(latest, at_home_in_time(test, client, since_ns))
            need(len(client.our_lines()) <= 1, f"{client.name} said {client.our_lines()}")
        broker.kill()
    print(f"{right} clients went on, {told} were told that work in flight is lost; at home after {latest:.0f} ms at most")
    return right, told


def a_killed_broker_sends_clients_home(test):
    right, _ = go_home(test, 100, lambda broker, number: broker.kill())
    need(right > 0, "no client went on")


def a_hung_broker_sends_clients_home(test):
    """Every second time it comes back to life later: it must not do again what it was given."""
    def hang(broker, number):
        broker.signal(signal.SIGSTOP)
        if number % 2:
            threading.Timer(0.3, broker.signal, [signal.SIGCONT]).start()

    right, _ = go_home(test, 100, hang)
    need(right > 0, "no client went on")


def a_broker_that_is_stopped_loses_nothing(test):
    def stop(broker, _):
        status = broker.stop()
        need(status == 0, f"the broker ended with {status}: {broker.said()}")
        need(not broker.path(), "it leaves its socket")

    _, told = go_home(test, 100, stop)
    need(told == 0, f"{told} clients were told of an error")


def clients_return_to_a_broker_that_is_back(test):
    checksum = test.alone()
    for _ in range(test.rounds(20)):
        first = test.broker()
        witness = test.witness("--sleep-us", 2000)
        until(lambda w=witness: w.bursts > 2, "a client of the first broker")
        need(first.stop() == 0, "the first broker ends well")
        progress([witness], 3, "a client without a broker")
        with test.broker() as second:
            until(lambda b=second, w=witness: w.ended() or driver_launches(b.trace) > 0, "the client returned", 20)
            enough([witness])
            witness.right()
            test.client().right(checksum)


# ---- brokers that are none -------------------------------------------------------------------------------------------


def answer(error, text=""):
    return REPLY.pack(error, 0, 0x200000000000, 1 << 40, text.encode())


class FakeBroker:
    """Listens where a broker would, and does `behaviour(connection)` with each that comes, in a thread."""

    def __init__(self, folder, behaviour):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The simulated device's UUID.
        self.socket.bind(os.path.join(folder, b"simcuda device \0".hex() + ".sock"))
        self.socket.listen(16)
        self.behaviour, self.greeted = behaviour, 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.greeted += 1
            threading.Thread(target=self.behave, args=[connection], daemon=True).start()

    def behave(self, connection):
        try:
            self.behaviour(connection)
        except OSError:
            pass

    def close(self):
        self.socket.close()


def with_fake_broker(test, behaviour, lines):
    """The client goes on by itself, is right, and says so in one line that has `lines` in it."""
    arguments = ("--copies", "--launches", 60)
    checksum = test.alone(*arguments)
    impostor = FakeBroker(test.folder, behaviour)
    client = test.client(*arguments)
    client.right(checksum)
    impostor.close()
    need(impostor.greeted > 0, "the client did not ask")
    need(len(client.our_lines()) == 1, f"it said {client.our_lines()}")
    need(lines in client.our_lines()[0], f"it said {client.our_lines()}")
    need(client.launches_at_home() == client.result["launches"], "launches were not at home")


def a_refusal_is_told_once(test):
    def refuse(connection):
        connection.recv(4096)
        connection.send(answer(-71, "the broker is of another build"))
        connection.recv(4096)

    with_fake_broker(test, refuse, "another build")


def a_broker_that_hangs_up_is_none(test):
    with_fake_broker(test, lambda connection: connection.close(), "")


def a_broker_that_says_nothing_is_none(test):
    def wait(connection):
        connection.recv(4096)
        time.sleep(TIMEOUT_S)

    with_fake_broker(test, wait, "")


def a_broker_that_babbles_is_none(test):
    def babble(connection):
        while connection.recv(4096):
            connection.send(os.urandom(777))

    with_fake_broker(test, babble, "")


def a_broker_without_memory_is_none(test):
    def promise(connection):
        while connection.recv(4096):
            connection.send(answer(0))

    with_fake_broker(test, promise, "")


def a_broker_with_another_memory_is_none(test):
    def mislead(connection):
        connection.recv(4096)
        memory = os.memfd_create("no-area", os.MFD_CLOEXEC)
        os.ftruncate(memory, 1 << 20)
        socket.send_fds(connection, [answer(0)], [memory, memory])
        connection.recv(4096)

    with_fake_broker(test, mislead, "")


def a_broker_of_another_user_is_none(test):
    """Only root can be two users. The socket may be reached by all: the client must look who listens."""
    if os.geteuid() != 0:
        raise Skip("only root can be two users")
    nobody = 65534
    os.chmod(test.folder, 0o755)
    checksum = test.alone()
    path = os.path.join(test.folder, b"simcuda device \0".hex() + ".sock")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o777)
    child = os.fork()
    if child == 0:
        os.setresgid(nobody, nobody, nobody)
        os.setresuid(nobody, nobody, nobody)
        listener.listen(16)  # whose socket it is, is who called this
        while True:
            connection, _ = listener.accept()
            connection.recv(4096)
            connection.close()
    try:
        time.sleep(0.1)
        client = test.client()
        client.right(checksum)
        need(len(client.our_lines()) == 1, f"it said {client.our_lines()}")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def a_broker_that_is_required_and_missing_is_told_once(test):
    checksum = test.alone("--copies")
    client = test.client("--copies")
    client.right(checksum)
    need(len(client.our_lines()) == 1, f"it said {client.our_lines()}")
    need(client.launches_at_home() == client.result["launches"], "launches were not at home")
    client = test.client("--copies", COISSUE_BROKER="auto")
    client.right(checksum)
    need(not client.our_lines(), f"nobody required a broker, and it said {client.our_lines()}")


CASES = {case.__name__.replace("_", "-"): case for case in (
    alone_in_all_modes, an_error_is_told, clients_share_a_broker, a_broker_that_begins_later_is_none,
    more_clients_than_there_is_room_for, a_killed_client_leaves_others_alone, a_stopped_client_keeps_nobody_waiting,
    a_faulty_kernel_is_its_clients, malformed_messages_end_that_connection_only, noise_ends_that_connection_only,
    a_killed_broker_sends_clients_home, a_hung_broker_sends_clients_home, a_broker_that_is_stopped_loses_nothing,
    clients_return_to_a_broker_that_is_back, a_refusal_is_told_once, a_broker_that_hangs_up_is_none,
    a_broker_that_says_nothing_is_none, a_broker_that_babbles_is_none, a_broker_without_memory_is_none,
    a_broker_with_another_memory_is_none, a_broker_of_another_user_is_none,
    a_broker_that_is_required_and_missing_is_told_once)}


def tell(test):
    """What was said, for whoever looks at a failure."""
    for client in test.clients[-8:]:
        if client.said():
            print(f"--- {client.name}:\n{client.said()[-2000:]}")
    for log in {broker.log: broker for broker in test.brokers}.values():
        print(f"--- broker:\n{log.said()[-4000:]}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", required=True)
    parser.add_argument("--sim", required=True)
    parser.add_argument("--client", required=True)
    parser.add_argument("--serve")
    parser.add_argument("--fake")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--slack-ms", type=int, default=400)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("case", choices=sorted(CASES))
    options = parser.parse_args()
    for name in ("shim", "sim", "client", "serve", "fake"):
        if getattr(options, name):
            setattr(options, name, os.path.abspath(getattr(options, name)))
    return options


def main():
    options = parse()
    folder = tempfile.mkdtemp(prefix="cross-")
    test = Test(options, folder)
    try:
        CASES[options.case](test)
        return 0
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    except (Failure, BrokerFailure) as failure:
        print(f"FAILED: {failure}")
        tell(test)
        return 1
    finally:
        test.clean_up()
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
