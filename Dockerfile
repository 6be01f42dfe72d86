# One image with lethed, lethe, lethe-verify and lethe-worker.
#
#   docker build -t lethe:0.1.0 .
#   docker build -t lethe-cuda:0.1.0 --build-arg PRESET=cuda --build-arg BUILD_BASE=IMAGE .   # Debian 12 with nvcc
#
# docs/image.md has the arguments. deploy/image/build_test.sh builds and tries it without a registry.

# Pin it with a digest to build the same again.
ARG BASE=debian:bookworm-slim
ARG BUILD_BASE=${BASE}

FROM ${BUILD_BASE} AS compile
# Where the source lies: a compiler cache that was filled elsewhere hits under the same path alone.
ARG SOURCE=/usr/src/lethe
WORKDIR ${SOURCE}
COPY cmake/install-dependencies.sh cmake/
RUN bash cmake/install-dependencies.sh
ARG PRESET=release
ARG JOBS=
# A folder with programs that were compiled on such a Debian already; for tests.
ARG BUILT=
# The language of the compiler's messages, which a compiler cache looks at too.
ARG LANG=C.UTF-8
ARG CCACHE_DIR=/var/cache/ccache
COPY . .
RUN --mount=type=cache,target=/var/cache/ccache \
    bash deploy/image/compile.sh "${PRESET}" "${JOBS}" "${BUILT}" /out

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
# Seconds since 1970: the time that the bill of materials bears.
ARG SOURCE_DATE_EPOCH=
LABEL org.opencontainers.image.title="Lethe" \
      org.opencontainers.image.description="Memory for applications that can prove it has forgotten" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=compile /out/packages /tmp/packages
COPY --from=compile /out/usr/ /usr/
RUN sh /usr/share/lethe/image/finish.sh "${VERSION}"
ENV LETHE_DATA=/var/lib/lethe/data \
    LETHE_VAULT=/var/lib/lethe-vault/vault
USER 65532:65532
WORKDIR /var/lib/lethe
VOLUME ["/var/lib/lethe", "/var/lib/lethe-vault"]
EXPOSE 7421 7422 9464
STOPSIGNAL SIGTERM
# Where the server speaks TLS: LETHE_CA and LETHE_SERVER_NAME say what to trust.
HEALTHCHECK --interval=20s --timeout=5s --start-period=10m --retries=3 CMD ["lethe", "health", "--timeout", "3s"]
CMD ["lethed"]
