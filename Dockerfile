# gsx with its whole pipeline, on CPUs: docker build -t gsx . && docker run --rm -v "$PWD:/data" gsx demo
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY gsx gsx
COPY cli cli
COPY pipeline pipeline
COPY stages stages
COPY storage storage
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
# RDKit draws molecules with these libraries.
RUN apt-get update && apt-get install -y --no-install-recommends libxrender1 libxext6 libexpat1 \
    && rm -rf /var/lib/apt/lists/* && useradd --create-home gsx
COPY --from=build /wheels /wheels
COPY constraints.txt /constraints.txt
RUN pip install --no-cache-dir -c /constraints.txt "$(echo /wheels/gsx-*.whl)[pipeline,share]"
USER gsx
WORKDIR /data
ENV GSX_STORE=/data/artifacts
ENTRYPOINT ["gsx"]
CMD ["--help"]
