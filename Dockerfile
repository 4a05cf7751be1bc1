# The bases by digest, with the same minor version of Python. docs/tasks/image.md says how to renew or replace them.
ARG BUILD_BASE=docker.io/library/python:3.13-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
ARG RUN_BASE=gcr.io/distroless/python3-debian13:nonroot@sha256:83aa8d4f74a4d7f7cf2d472054139bef71a927b76c680c0f2e1021d6b1d6d732

# This stage runs on the builder's architecture, also if the image is for another one.
FROM --platform=${BUILDPLATFORM} ${BUILD_BASE} AS build
ENV PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
# Only files with the hashes that the tests ran with.
COPY requirements/build.txt requirements/image.txt requirements/
RUN python3 -m venv --without-pip /tools \
    && python3 -m pip --python /tools/bin/python install --quiet --require-hashes --no-deps \
        --requirement requirements/build.txt
ARG TARGETARCH
RUN case "${TARGETARCH}" in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; \
        *) echo "no image for architecture '${TARGETARCH}'" >&2; exit 1 ;; esac \
    && python3 -m pip install --quiet --no-compile --require-hashes --no-deps --only-binary :all: \
        $(printf -- "--platform manylinux%s_${machine} " 2014 _2_17 _2_24 _2_26 _2_27 _2_28) \
        --target /image/opt/scheduler-ext --requirement requirements/image.txt \
    && rm -r /image/opt/scheduler-ext/bin
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY config config
COPY scheduler_ext scheduler_ext
# scheduler_ext/server/runbooks is a link to them.
COPY docs/runbooks docs/runbooks
RUN python3 -m pip --python /tools/bin/python wheel --quiet --no-deps --no-build-isolation --no-index \
        --wheel-dir /wheel . \
    && python3 -m pip install --quiet --no-compile --no-deps --no-index --find-links /wheel \
        --target /image/opt/scheduler-ext scheduler-ext
# Python of the run base.
ARG PYTHON=/usr/bin/python3
ARG SOURCE_DATE_EPOCH=0
COPY manifests/image/finish.sh ./
RUN sh finish.sh

FROM --platform=${TARGETPLATFORM} ${RUN_BASE}
COPY --from=build /image/ /
ENV PATH=/opt/scheduler-ext/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/scheduler-ext
ARG RUN_BASE
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="scheduler-ext" \
    org.opencontainers.image.description="GPU-aware extender for kube-scheduler, and its node agent" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.created="${CREATED}" \
    org.opencontainers.image.base.name="${RUN_BASE}"
WORKDIR /
# An unprivileged user: no name, no capability, no writable path.
USER 65532:65532
ENTRYPOINT ["scheduler-ext"]
