#!/usr/bin/env bash
# Run a command with FLWR_KLD_TEST_POSTGRES naming a PostgreSQL server of its own:
#   tests/ledger/postgres.sh pytest tests/ledger
# The server listens on a socket in a new folder only, and is gone afterwards. On Debian, root
# installs it where it is missing.
set -euo pipefail

find_server() { # the newest of Debian's, or whatever is on the PATH
    { ls -d /usr/lib/postgresql/*/bin || dirname "$(command -v initdb)"; } 2>/dev/null | sort -V | tail -1
}
programs=$(find_server || true)
if [[ ! -x $programs/initdb ]]; then
    # The package's own cluster is neither needed nor made.
    mkdir -p /etc/postgresql-common/createcluster.d
    echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.d/flwr-kld.conf
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends postgresql >/dev/null
    programs=$(find_server)
fi

folder=$(mktemp -d /tmp/flwr-kld-postgres.XXXXXX)
as_server=()
if [[ $EUID -eq 0 ]]; then # PostgreSQL does not run as root
    chown postgres "$folder"
    as_server=(runuser -u postgres --)
fi
stop() {
    "${as_server[@]}" "$programs/pg_ctl" --pgdata "$folder/data" --mode immediate stop >/dev/null || true
    rm -rf "$folder"
}
trap stop EXIT

cd "$folder" # which the server's user may enter
"${as_server[@]}" "$programs/initdb" --pgdata "$folder/data" --username ledger --auth trust \
    --encoding UTF8 --no-locale >/dev/null
"${as_server[@]}" "$programs/pg_ctl" --pgdata "$folder/data" --log "$folder/log" --wait \
    --options "-c listen_addresses='' -c unix_socket_directories='$folder' -c max_connections=60" start >/dev/null
cd "$OLDPWD"

FLWR_KLD_TEST_POSTGRES="postgresql://ledger@/postgres?host=$folder" "$@"
