"""Types at an interactive shell on a terminal of its own, in which sealed runs have the foreground. Each
line says what was seen."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

RUN = '"$COURTESY" run --summary none --sealed -- '
shell, terminal = pty.fork()
if shell == 0:
    # What runs in the background of a script ignores them, and a shell cannot trap what it ignores.
    for number in [signal.SIGINT, signal.SIGQUIT]:
        signal.signal(number, signal.SIG_DFL)
    os.environ["PS1"] = "prompt> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
seen = b""


def expect(text, seconds=30):
    """Waits for `text`, which the command line that was typed does not have as it is."""
    global seen
    end = time.monotonic() + seconds
    while text.encode() not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
        if not ready:
            print(f"MISSING {text!r} in {seen!r}", flush=True)
            sys.exit(1)
        seen += os.read(terminal, 65536)
    seen = seen[seen.index(text.encode()) + len(text):]


def until_stopped(program):
    """Waits until a process of that name has stopped."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for process in os.listdir("/proc"):
            try:
                with open(f"/proc/{process}/stat") as file:
                    if f" ({program}) T " in file.read():
                        return
            except OSError:
                pass
        time.sleep(0.01)
    print(f"{program} has not stopped", flush=True)
    sys.exit(1)


def line(text):
    os.write(terminal, text.encode() + b"\n")


line(RUN + "sh -c 'trap \"echo got-\\\"interrupt\\\"; exit 9\" INT; echo rea\"dy\"; while :; do sleep 0.1; done'")
expect("ready")
os.write(terminal, b"\x03")
expect("got-interrupt")
expect("prompt> ")
line('echo co"de" $?')
expect("code 9")
print("interrupted once", flush=True)
expect("prompt> ")

line(RUN + "sh -c 'echo rea\"dy\"; exec cat'")
expect("ready")
line("first")
expect("first\r\nfirst")
os.write(terminal, b"\x1a")
expect("Stopped")
expect("prompt> ")
# The shell knows of the proxy alone; a reader that has not stopped yet would take what is typed.
until_stopped("cat")
line('echo shell-"is"-back')
expect("shell-is-back")
print("stopped", flush=True)
expect("prompt> ")
line("fg")
expect("sealed")
line("second")
expect("second\r\nsecond")
os.write(terminal, b"\x04")
expect("prompt> ")
line('echo co"de" $?')
expect("code 0")
print("continued", flush=True)
expect("prompt> ")

line(RUN + "sh -c 'trap \"stty size; exit 0\" WINCH; echo rea\"dy\"; while :; do sleep 0.1; done'")
expect("ready")
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
expect("33 77")
print("resized", flush=True)
expect("prompt> ")

line(RUN + "bash --norc --noprofile -i")
expect("prompt> ")
line('echo inner-"is"-here')
expect("inner-is-here")
expect("prompt> ")
line("sh -c 'echo slee\"ping\"; exec sleep 99'")
expect("sleeping")
os.write(terminal, b"\x03")
expect("prompt> ")
line('echo co"de" $?')
expect("code 130")
expect("prompt> ")
line("exit 6")
expect("exit")
expect("prompt> ")
line('echo outer-"code" $?')
expect("outer-code 6")
print("a shell inside has jobs of its own", flush=True)
expect("prompt> ")
line("exit")
os.waitpid(shell, 0)
