#!/usr/bin/env bash
# Run a command with the programs that stand in for Compose's images:
#   tests/deployment/compose.sh pytest -m slow tests/deployment/test_compose.py
# On Debian, root installs those that are missing, and starts none of them.
set -euo pipefail
missing=()
for each in docker-compose:docker-compose prometheus:prometheus pg_isready:postgresql openssl:openssl ssh-keygen:openssh-client wget:wget; do
    command -v "${each%:*}" >/dev/null || missing+=("${each#*:}")
done
if ((${#missing[@]})); then
    # The packages' own cluster and service are neither needed nor started.
    mkdir -p /etc/postgresql-common/createcluster.d
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/flwr-kld.conf
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq install --no-install-recommends "${missing[@]}" >/dev/null
fi
exec "$@"
