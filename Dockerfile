# syntax=docker/dockerfile:1
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json build.ts ./
COPY src ./src
COPY config ./config
COPY drizzle ./drizzle
RUN npm run build && npm prune --omit=dev

FROM node:24-slim
LABEL org.opencontainers.image.title="tidemark" \
      org.opencontainers.image.description="Sync and backup of a remote service's configuration into SQLite" \
      org.opencontainers.image.licenses="MIT"
ENV NODE_ENV=production \
    TIDEMARK_MIRROR=/data/mirror.db
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules/better-sqlite3 ./node_modules/better-sqlite3
COPY --from=build /app/dist ./dist
COPY --from=build /app/config ./config
COPY --from=build /app/drizzle ./drizzle
RUN mkdir /data && chown node:node /data
USER node
VOLUME /data
ENTRYPOINT ["node", "/app/dist/main.js"]
CMD ["sync"]
