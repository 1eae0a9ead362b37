#!/usr/bin/env bash
# Run a command with FLWR_KLD_TEST_MARIADB naming a MariaDB server of its own:
#   tests/clients/mariadb.sh pytest tests/clients/test_any_record.py
# The server listens on a socket in a new folder only, and is gone afterwards. On Debian, root
# installs it where it is missing.
set -euo pipefail

if ! command -v mariadbd >/dev/null; then
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends mariadb-server >/dev/null
fi

folder=$(mktemp -d /tmp/flwr-kld-mariadb.XXXXXX)
own=(--no-defaults --datadir="$folder/data" --user="$(id -un)")
stop() {
    [[ -z ${server:-} ]] || { kill "$server" && wait "$server"; } || true
    rm -rf "$folder"
}
trap stop EXIT

mariadb-install-db "${own[@]}" --auth-root-authentication-method=normal >/dev/null
mariadbd "${own[@]}" --socket="$folder/socket" --skip-networking &>"$folder/log" &
server=$!
for _ in {1..300}; do
    [[ ! -S $folder/socket ]] || break
    sleep 0.1
done

FLWR_KLD_TEST_MARIADB="mariadb://root@localhost/test?unix_socket=$folder/socket" "$@"
