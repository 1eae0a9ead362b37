#!/usr/bin/env bash
# Every key of the example, in keys/. In a real deployment each hospital makes its own keys, with
# the same commands, and hands out the public ones.
set -euo pipefail
mkdir -m 700 keys
cd keys
# TLS: an authority of our own, and the SuperLink's certificate from it.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
    -subj "/CN=example authority" -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout ca.key -out ca.crt 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=superlink" \
    -keyout superlink.key -out superlink.csr 2>/dev/null
openssl x509 -req -in superlink.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 \
    -extfile <(echo subjectAltName=IP:127.0.0.1) -out superlink.crt 2>/dev/null
# Node authentication: what the SuperLink knows a SuperNode by.
for i in 1 2 3 4; do ssh-keygen -q -t ecdsa -b 384 -N '' -C "hospital-$i" -f "hospital-$i.auth"; done
# Pinned keys: what hospitals know each other by, whatever the SuperLink says.
python - <<'PYTHON'
from pathlib import Path

from flwr_kld.guard import node_identity
from flwr_kld.secure_sums import Roster

names = [f"hospital-{i}" for i in (1, 2, 3, 4)]
keys = {name: node_identity(Path(f"{name}.sign").resolve()).public for name in names}
Path("roster.json").write_text(Roster(keys).to_json())
PYTHON
