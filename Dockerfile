# A digest in the place of the tag (make image BASE=python:3.11-slim@sha256:...) is the same base for ever.
ARG BASE=python:3.11-slim
FROM ${BASE}
WORKDIR /src
# Nothing that has not the hash of the file that the tests have run with. The pinned setuptools builds.
COPY requirements/image.txt requirements/
RUN pip install --no-cache-dir --require-hashes --no-deps --requirement requirements/image.txt
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY config config
COPY scheduler_ext scheduler_ext
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
WORKDIR /
# Nobody in particular: no name, no capability, nothing to write to.
USER 65532:65532
ENTRYPOINT ["scheduler-ext"]
