# Two images for docker-compose.yml: `app` is the program, which needs no torch, for the pages and the database;
# `worker`, the default, adds what it takes to build and measure environments that have one. docs/deployment.md
# says how they are used.

ARG BASE=python:3.13-slim-trixie

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# The extras that go in; a fleet (docs/fleet.md) needs `fleet` as well, which is 240 MB.
ARG EXTRAS="postgres oidc"
WORKDIR /build
RUN python -m venv /opt/pyrometer
COPY pyproject.toml uv.lock ./
# pip installs, because it takes the pip.conf of a company's mirror; uv says what is locked, and pip checks its hashes.
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    python -m venv /tmp/uv \
 && /tmp/uv/bin/pip install --quiet "uv>=0.13,<0.14" \
 && /tmp/uv/bin/uv export --quiet --frozen --no-dev --no-emit-project $(printf -- "--extra %s " $EXTRAS) --output-file requirements.txt \
 && /opt/pyrometer/bin/pip install --quiet --require-hashes --requirement requirements.txt
COPY . .
# uv builds with the backend it carries: nothing is fetched here.
RUN /tmp/uv/bin/uv build --quiet --offline --wheel --out-dir dist \
 && /opt/pyrometer/bin/pip install --quiet --no-index --no-deps dist/*.whl

FROM ${BASE} AS base
RUN groupadd --gid 10001 pyrometer \
 && useradd --uid 10001 --gid pyrometer --home-dir /var/lib/pyrometer --shell /usr/sbin/nologin pyrometer \
 && install -d -o pyrometer -g pyrometer -m 0750 /var/lib/pyrometer
ENV PATH=/opt/pyrometer/bin:$PATH \
    HOME=/var/lib/pyrometer \
    PYTHONUNBUFFERED=1 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER pyrometer
# Settings, database and data are looked for where the command is started.
WORKDIR /var/lib/pyrometer
VOLUME /var/lib/pyrometer
EXPOSE 8501
# bash speaks HTTP here, for a Python that starts twice a minute would be seen by what is measured.
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8501 && printf 'GET /readyz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["pyrometer"]

FROM base AS app
COPY --from=build /opt/pyrometer /opt/pyrometer
CMD ["dashboard", "--host", "0.0.0.0", "--allow-host", "localhost", "--allow-host", "127.0.0.1"]

FROM base AS worker
USER root
# A compiler for torch.compile, numactl and two mallocs for the techniques that are named after them.
RUN apt-get update -qq \
 && apt-get install -qq -y --no-install-recommends g++ libjemalloc2 libtcmalloc-minimal4 numactl >/dev/null \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/pyrometer /opt/pyrometer
USER pyrometer
CMD ["serve", "--host", "0.0.0.0", "--allow-host", "localhost", "--allow-host", "127.0.0.1"]
