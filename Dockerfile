FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# Install scripts have nothing to do here: better-sqlite3 and the bundler carry their binaries, and Node is there already.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json build.ts ./
COPY src ./src
COPY config ./config
COPY drizzle ./drizzle
COPY drizzle-fleet ./drizzle-fleet
# Files keep the modes of the checkout, and a strict umask there would hide them from the image's user.
RUN node build.ts && chmod -R a+rX package.json config drizzle drizzle-fleet

FROM node:24-slim
# As `--build-arg VERSION=1.2.3 --build-arg REVISION=$(git rev-parse HEAD)` gives them.
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="tidemark" \
      org.opencontainers.image.description="Sync and backup of a remote service's configuration into SQLite" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/node:24-slim"
# SQLite sorts and rebuilds large files in temporary ones, and what is read live for a plan or a comparison goes into a
# mirror of its own: beside the mirror, so that the rest may be read-only.
ENV NODE_ENV=production \
    SQLITE_TMPDIR=/data \
    TMPDIR=/data
# Everything but better-sqlite3 is bundled into dist; of that, what its build needed and other systems' binaries stay behind.
COPY --from=build /app/node_modules/better-sqlite3/package.json /app/node_modules/better-sqlite3/LICENSE /app/node_modules/better-sqlite3/
COPY --from=build /app/node_modules/better-sqlite3/lib /app/node_modules/better-sqlite3/lib
COPY --from=build /app/node_modules/better-sqlite3/prebuilds/linux-*.node /app/node_modules/better-sqlite3/prebuilds/
COPY --from=build /app/package.json /app/
COPY LICENSE /app/
COPY --from=build /app/config /app/config
COPY --from=build /app/drizzle /app/drizzle
COPY --from=build /app/drizzle-fleet /app/drizzle-fleet
COPY --from=build /app/dist /app/dist
# Group 0 may write too: some clusters run an image under any user id of that group.
RUN install -d -o 1000 -g 0 -m 0770 /data
# By number: an orchestrator that refuses root cannot look up the name `node`.
USER 1000:1000
VOLUME /data
# So that the defaults stand: the mirror is /data/mirror.db, the configuration /tidemark.yaml.
WORKDIR /
# Dashboard, metrics and replica. They listen on the container's own loopback until TIDEMARK_HTTP_LISTEN says otherwise,
# which takes a token.
EXPOSE 8787
STOPSIGNAL SIGTERM
# Asks the daemon by the file beside the mirror, wherever it listens. During the first sync, which may take hours, it is well.
HEALTHCHECK --interval=60s --timeout=15s --start-period=120s --retries=3 CMD ["node", "/app/dist/main.js", "daemon", "--check"]
# Node handles SIGTERM itself, and ends what it started (`backup.command`) before itself.
ENTRYPOINT ["node", "--max-semi-space-size=4", "--heap-growing-percent=50", "/app/dist/main.js"]
CMD ["daemon"]
