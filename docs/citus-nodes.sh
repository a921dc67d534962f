#!/usr/bin/env bash
# A coordinator and two workers of Citus on this machine, each with pg_lookahead, and what each has done
# (docs/scale-out.md).
#
#   citus-nodes.sh DIR [SETTING...]
#
# Needs the programs of PostgreSQL 18 in PATH, Citus and the library installed, and no root. DIR, on a disk, is
# made and kept; the servers are stopped at the end. SETTINGs, such as work_mem=64MB, are those of all of them.
set -Eeuo pipefail
dir=$(realpath -m "${1:?a folder to make}")
shift
mkdir "$dir"
export PGHOST=$dir PGUSER=postgres PGDATABASE=postgres
nodes=()
stop_all() { local node && for node in "${nodes[@]}"; do pg_ctl -D "$dir/$node" -m fast stop >/dev/null || true; done; }
trap stop_all EXIT

# Citus insists on being the first library, and nodes find each other by sockets in DIR.
start() {
  local name=$1 port=$2
  shift 2
  initdb -D "$dir/$name" -U postgres -A trust --no-sync >/dev/null
  printf '%s\n' "port = $port" "listen_addresses = ''" "unix_socket_directories = '$dir'" \
    "shared_preload_libraries = 'citus, pg_lookahead'" "citus.local_hostname = '$dir'" \
    "citus.node_conninfo = 'sslmode=prefer'" "$@" >>"$dir/$name/postgresql.conf"
  nodes+=("$name")
  pg_ctl -D "$dir/$name" -l "$dir/$name.log" -w start >/dev/null
  query "$port" "CREATE EXTENSION citus"
}
query() { psql -XAtq -v ON_ERROR_STOP=1 -p "$1" -c "$2"; }
# show NAME PORT: what the server has done. Citus's sessions tell when they end, soon after the one that they serve.
show() {
  local deadline=$((SECONDS + 20))
  while [ "$1" != coordinator ] && [ $SECONDS -lt $deadline ] &&
    [ "$(query "$2" "SELECT sum(prefetched_blocks) > 0 FROM pg_stat_lookahead")" != t ]; do sleep 0.2; done
  query "$2" "SELECT '$1: ' || feature || concat(' has read ahead ' || nullif(prefetched_blocks, 0) || ' pages',
                ' has inserted ' || nullif(batched_rows, 0) || ' rows in batches',
                ' has built ' || scans || ' indexes')
              FROM (SELECT feature, prefetched_blocks, batched_rows,
                      CASE WHEN feature = 'index_build' THEN nullif(scans, 0) END AS scans
                    FROM pg_stat_lookahead)
              WHERE prefetched_blocks > 0 OR batched_rows > 0 OR scans > 0"
}

start coordinator 5440 "$@"
query 5440 "SELECT citus_set_coordinator_host('$dir', 5440)"
for worker in 1 2; do
  start "worker$worker" "544$worker" "$@"
  query 5440 "SELECT citus_add_node('$dir', 544$worker)" >/dev/null
done
query 5440 "CREATE EXTENSION pg_lookahead"
query 5440 "CREATE TABLE orders (id int, customer int, pad text)"
query 5440 "CREATE TABLE archive (LIKE orders)"
query 5440 "SELECT create_distributed_table(name, 'id', shard_count => 4)
            FROM (VALUES ('orders'::regclass), ('archive')) AS tables (name)" >/dev/null
# Shards are ranges of hashint4(id): each has customers of every range.
query 5440 "INSERT INTO orders SELECT i, hashint4(-i), repeat('x', 400) FROM generate_series(1, 100000) AS i"
for port in 5440 5441 5442; do query $port "SELECT pg_lookahead_stats_reset()" >/dev/null; done
query 5440 "CREATE INDEX ON orders (customer)"
query 5440 "VACUUM (ANALYZE) orders"
# Each shard into the one beside it.
query 5440 "INSERT INTO archive SELECT * FROM orders"
query 5440 "SELECT run_command_on_shards('orders', \$\$SELECT pg_lookahead_evict('%s')\$\$)" >/dev/null
query 5440 "SELECT count(pad) FROM orders WHERE customer BETWEEN 0 AND 20000000" >/dev/null
show coordinator 5440
show worker1 5441
show worker2 5442
