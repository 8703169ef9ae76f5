"""Stands for a step on another node: `step_client.py SOCKET NODE COMMAND...` ends as the command does there.

Run by its path, with the standard library alone, by the processes of a run.
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
