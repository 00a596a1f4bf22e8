# Serves a release, read-only, as an ordinary user:
#
#   docker build -t bayesgram .
#   docker run --rm --read-only --tmpfs /tmp -p 8765:8765 -e BAYESGRAM_TOKEN=… -v "$PWD/out:/releases/out:ro" bayesgram
#
# The page is at http://localhost:8765, and asks for the token. No private text belongs in here.
FROM python:3.12-slim AS build
WORKDIR /source
COPY requirements/run.lock ./
RUN pip install --no-cache-dir --prefix /installed --require-hashes -r run.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src ./src
COPY docs ./docs
RUN pip install --no-cache-dir --prefix /installed --no-deps .

FROM python:3.12-slim
COPY --from=build /installed /usr/local
RUN useradd --create-home --uid 1000 bayesgram
USER bayesgram
ENV NUMBA_CACHE_DIR=/home/bayesgram/kernels
WORKDIR /releases
EXPOSE 8765
ENTRYPOINT ["bayesgram"]
CMD ["serve", "/releases", "--host", "0.0.0.0", "--port", "8765"]
