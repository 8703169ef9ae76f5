"""Runs a command on another node: `step_client.py SOCKET NODE COMMAND...`, with the exit code of COMMAND.

The processes of a run start it by its path, with the standard library alone.
"""

import json
import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(sys.argv[1])
        text = json.dumps(sys.argv[2:]).encode() + b"\n"
        sent = socket.send_fds(agent, [text], [1, 2])
        agent.sendall(text[sent:])
        sys.exit(int(agent.recv(16) or 255))
