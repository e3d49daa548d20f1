"""A limit on how many processes there may be at once, where this user can set one.

Standard library only, and little of it: the supervisor imports this before all else.
"""

import _thread
import os

# The processes of one attempt, with their threads; far above what builds and tests need.
MOST_PROCESSES = 8192


class ProcessLimit:
    """Moves this process under a limit of its own, with everybody that it starts from then on.

    That takes the kernel many milliseconds, for which nothing else has to wait. Whoever sees this
    process end takes the limit away: to move back would take as long.
    """

    def __init__(self) -> None:
        self._folder = ""
        self._moving = _thread.allocate_lock()
        self._moving.acquire()
        _thread.start_new_thread(self._move, ())

    def allow(self, most: int) -> None:
        """From now on there may be so many processes; waits until all that is started counts."""
        with self._moving:
            if self._folder and most != MOST_PROCESSES:
                _write(os.path.join(self._folder, "pids.max"), str(most))

    def _move(self) -> None:
        for parent in cgroups():
            folder = os.path.join(parent, f"twoarm-{os.getpid()}")
            try:
                os.mkdir(folder)
            except OSError:
                continue
            try:
                # Refused, or not there, where this controller was not handed to the user.
                _write(os.path.join(folder, "pids.max"), str(MOST_PROCESSES))
                _write(os.path.join(folder, "cgroup.procs"), str(os.getpid()))
            except OSError:
                _remove(folder)
                continue
            self._folder = folder
            break
        self._moving.release()


def clear_process_limits() -> None:
    """Take away the limits of supervisors that have ended."""
    for parent in cgroups():
        for name in os.listdir(parent) if os.path.isdir(parent) else ():
            head, _, pid = name.partition("-")
            if head == "twoarm" and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                _remove(os.path.join(parent, name))


def _remove(path: str) -> None:
    """Take a limit away, unless somebody is under it, or has done so already."""
    try:
        os.rmdir(path)
    except OSError:
        return


def cgroups() -> list[str]:
    """The folders of the cgroup of this process that may count processes."""
    try:
        with open("/proc/self/cgroup", encoding="ascii") as file:
            lines = [line.strip().split(":", 2) for line in file]
    except OSError:
        return []
    folders = [f"/sys/fs/cgroup/pids{path}" for _, kinds, path in lines if kinds == "pids"]
    return folders + [f"/sys/fs/cgroup{path}" for number, _, path in lines if number == "0"]


def _write(path: str, text: str) -> None:
    # Never created: these files are there or they are not.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
