#!/usr/bin/env bash
# Make all keys of a federation, for one machine or to try it: deploy/make_keys.sh FOLDER
# Each party has a folder in it. In production each makes its own part, by the same commands, and hands out
# public keys only. CLIENTS, AGGREGATORS and HOSTS (names of SuperLink and page) may be set.
set -euo pipefail
read -ra clients <<<"${CLIENTS:-clinic-a clinic-b clinic-c}"
read -ra aggregators <<<"${AGGREGATORS-aggregator-1 aggregator-2}"
hosts=${HOSTS:-DNS:superlink,DNS:page,DNS:localhost,IP:127.0.0.1}
mkdir -m 700 "$1"
cd "$1"
umask 077
mkdir authority superlink page public "${clients[@]}" "${aggregators[@]}"

# TLS: an authority of our own, and certificates from it for SuperLink and page.
curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
openssl req -x509 "${curve[@]}" -days 365 -subj "/CN=flwr-kld authority" \
    -addext keyUsage=critical,keyCertSign,cRLSign -keyout authority/ca.key -out authority/ca.crt 2>/dev/null
for server in superlink page; do
    openssl req "${curve[@]}" -subj "/CN=$server" -keyout "$server/tls.key" -out "$server/tls.csr" 2>/dev/null
    openssl x509 -req -in "$server/tls.csr" -CA authority/ca.crt -CAkey authority/ca.key -CAcreateserial -days 365 \
        -extfile <(echo "subjectAltName=$hosts") -out "$server/tls.crt" 2>/dev/null
    rm "$server/tls.csr"
done
for party in superlink public "${clients[@]}" "${aggregators[@]}"; do cp authority/ca.crt "$party"; done

# What the SuperLink knows a SuperNode by.
for node in "${clients[@]}" "${aggregators[@]}"; do
    ssh-keygen -q -t ecdsa -b 384 -N '' -C "$node" -f "$node/auth.key"
    mv "$node/auth.key.pub" "public/$node.pub"
done

# What clients sign with, the roster of all of them, which every node pins, and what they seal their counts to: a
# line for each aggregator, in the same order everywhere. `flwr-kld keys` makes the first two one by one.
CLIENTS="${clients[*]}" AGGREGATORS="${aggregators[*]}" python3 - <<'PYTHON'
import os
from pathlib import Path

from flwr_kld.clients import AggregatorKey
from flwr_kld.guard import node_identity
from flwr_kld.secure_sums import Roster

clients, aggregators = (os.environ[name].split() for name in ("CLIENTS", "AGGREGATORS"))
public = {name: node_identity(Path(name, "identity.key").resolve()).public for name in clients}
Path("public/roster.json").write_text(Roster(public).to_json() + "\n")
with open("public/aggregators", "w") as lines:
    for name in aggregators:
        key = AggregatorKey.generate()
        key.save(Path(name, "aggregator.key"))
        print(key.public.hex(), file=lines)
PYTHON

# The ledger's password, and the page's token.
password=$(openssl rand -hex 32)
printf 'POSTGRES_USER=kld\nPOSTGRES_DB=drift\nPOSTGRES_PASSWORD=%s\n' "$password" >postgres.env
printf 'FLWR_KLD_LEDGER=postgresql://kld:%s@postgres:5432/drift\n' "$password" >ledger.env
openssl rand -hex 32 >page/token
