#!/usr/bin/env bash
# A SuperLink and four SuperNodes on this machine, until Ctrl-C. Like SuperNodes, this SuperLink
# installs nothing that an app lists as a dependency: what runs is what its operator installed.
set -euo pipefail
keys=$PWD/keys port=${PORT:-8000}
export FLWR_HOME=$keys/flower
mkdir -p "$FLWR_HOME"
cat >"$FLWR_HOME/config.toml" <<TOML
[superlink]
default = "hospitals"
[superlink.hospitals]
address = "127.0.0.1:$port"
root-certificates = "$keys/public/ca.crt"
TOML
trap 'kill $(jobs -p)' EXIT
flower-superlink --port "$port" --database "$keys/superlink.db" --enable-supernode-auth \
    --ssl-ca-certfile "$keys/public/ca.crt" --ssl-certfile "$keys/superlink/tls.crt" \
    --ssl-keyfile "$keys/superlink/tls.key" --disable-runtime-dependency-installation &
until curl --silent --fail --max-time 5 --cacert "$keys/public/ca.crt" \
    "https://127.0.0.1:$port/health" >/dev/null; do
    kill -0 $! || exit 1 # it has ended, and has said why
    sleep 1
done
for i in 1 2 3 4; do
    own=$keys/hospital-$i
    flwr supernode register "$keys/public/hospital-$i.pub" hospitals
    flower-supernode --superlink "127.0.0.1:$port" --port $((port + i)) \
        --root-certificates "$own/ca.crt" --auth-supernode-private-key "$own/auth.key" \
        --node-config "hospital=$i drift-identity=\"$own/identity.key\" drift-roster=\"$keys/public/roster.json\"" &
done
wait
