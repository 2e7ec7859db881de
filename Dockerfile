# docker build -t longmemeval . && docker run --rm -v "$PWD/results:/data/results" longmemeval
FROM python:3.12-slim
# hnswlib comes as source.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /source
# uv installs in a fraction of pip's time.
RUN python -m venv /opt/longmemeval && /opt/longmemeval/bin/pip install --no-cache-dir uv && \
    /opt/longmemeval/bin/uv pip install --no-cache --compile-bytecode --python /opt/longmemeval "/source[hnsw,report,view]"
WORKDIR /data
ENTRYPOINT ["/opt/longmemeval/bin/longmemeval"]
CMD ["demo"]
