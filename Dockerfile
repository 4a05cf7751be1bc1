FROM python:3.11-slim
WORKDIR /src
COPY setup.cfg pyproject.toml constraints.txt README.md LICENSE ./
COPY config config
COPY scheduler_ext scheduler_ext
# The pinned setuptools builds, as in the tests, so that nothing unpinned takes part.
RUN pip install --no-cache-dir --constraint constraints.txt setuptools \
 && pip install --no-cache-dir --constraint constraints.txt --no-build-isolation '.[agent]'
WORKDIR /
# Nobody in particular: no name, no capability, nothing to write to.
USER 65532:65532
ENTRYPOINT ["scheduler-ext"]
