# A digest instead of the tag (make image BASE=python:3.11-slim@sha256:...) always gives the same base.
ARG BASE=python:3.11-slim
FROM ${BASE}
WORKDIR /src
# Only files with the hashes that the tests ran with. The pinned setuptools builds.
COPY requirements/image.txt requirements/
RUN pip install --no-cache-dir --require-hashes --no-deps --requirement requirements/image.txt
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY config config
COPY scheduler_ext scheduler_ext
# scheduler_ext/server/runbooks is a link to them.
COPY docs/runbooks docs/runbooks
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
WORKDIR /
# An unprivileged user: no name, no capability, no writable path.
USER 65532:65532
ENTRYPOINT ["scheduler-ext"]
