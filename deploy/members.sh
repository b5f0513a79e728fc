#!/bin/sh
# Writes nats/members.conf: the part of the NATS configuration that names the nodes, with their public login keys.
# Run it before the first start, and after a node was added or removed in compose.yaml.
set -eu
cd "$(dirname "$0")"
set --
for node in $(docker compose config --services | grep '^node-'); do
  set -- "$@" --user "$(docker compose run --rm -T "$node" nats key)"
done
docker compose run --rm -T node-1 nats config --listen 0.0.0.0:4222 --store /data "$@" > nats/members.conf.new
mv nats/members.conf.new nats/members.conf
# Servers that run read it again.
docker compose kill --signal HUP nats-1 nats-2 nats-3 2> /dev/null || true
