#!/usr/bin/env bash
# Two servers on this machine, each with pg_lookahead, and what each has read ahead (docs/scale-out.md).
#
#   two-nodes.sh standby|shards DIR [SETTING...]
#
# "standby" is a primary and its hot standby, "shards" are two servers behind a third one with postgres_fdw.
# Needs the programs of PostgreSQL 18 in PATH and the library installed, and no root. DIR, on a disk, is made
# and kept; the servers are stopped at the end, and `pg_ctl -D DIR/primary start` starts one again. SETTINGs, such as
# work_mem=64MB, are those of all of them.
set -Eeuo pipefail
kind=${1:?standby or shards} dir=$(realpath -m "${2:?a folder to make}")
shift 2
mkdir "$dir"
export PGHOST=$dir PGUSER=postgres PGDATABASE=postgres
nodes=()
stop_all() { local node && for node in "${nodes[@]}"; do pg_ctl -D "$dir/$node" -m fast stop >/dev/null || true; done; }
trap stop_all EXIT

# start NAME PORT [SETTING...]: start the server of a folder, on a socket in DIR only.
start() {
  local name=$1 port=$2
  shift 2
  printf '%s\n' "port = $port" "listen_addresses = ''" "unix_socket_directories = '$dir'" "$@" >>"$dir/$name/postgresql.conf"
  nodes+=("$name")
  pg_ctl -D "$dir/$name" -l "$dir/$name.log" -w start >/dev/null
}
create() { initdb -D "$dir/$1" -U postgres -A trust --no-sync >/dev/null; }
query() { psql -XAtq -v ON_ERROR_STOP=1 -p "$1" -c "$2"; }
# fill PORT: a table whose index has the rows in random order, and nothing of it in memory.
fill() {
  query "$1" "CREATE EXTENSION pg_lookahead"
  query "$1" "CREATE TABLE orders AS SELECT i AS id, hashint4(i) AS customer, repeat('x', 400) AS pad
              FROM generate_series(1, 100000) AS i"
  query "$1" "CREATE INDEX ON orders (customer)"
  query "$1" "VACUUM (ANALYZE) orders"
}
# show NAME PORT: what the server has done, of which sessions tell when they end.
show() { query "$2" "SELECT '$1: ' || feature || ' has read ahead ' || prefetched_blocks || ' pages'
                     FROM pg_stat_lookahead WHERE prefetched_blocks > 0"; }
library="shared_preload_libraries = 'pg_lookahead'"
scan="SELECT count(pad) FROM orders WHERE customer BETWEEN 0 AND 20000000"

if [ "$kind" = standby ]; then
  create primary
  start primary 5441 "$library" "$@"
  fill 5441
  pg_basebackup -D "$dir/standby" -p 5441 -R -c fast
  start standby 5442
  for port in 5441 5442; do
    query $port "SELECT pg_lookahead_evict('orders')" >/dev/null
    query $port "$scan" >/dev/null
  done
  show primary 5441
  show standby 5442
else
  create front
  start front 5440 "$@"
  query 5440 "CREATE EXTENSION postgres_fdw"
  query 5440 "CREATE TABLE orders (id int, customer int, pad text) PARTITION BY LIST ((id % 2))"
  for shard in 1 2; do
    create "shard$shard"
    start "shard$shard" "544$shard" "$library" "$@"
    fill "544$shard"
    query "544$shard" "DELETE FROM orders WHERE id % 2 = $((shard - 1))"
    query 5440 "CREATE SERVER shard$shard FOREIGN DATA WRAPPER postgres_fdw
                OPTIONS (host '$dir', port '544$shard', dbname 'postgres', batch_size '1000')"
    query 5440 "CREATE USER MAPPING FOR postgres SERVER shard$shard"
    query 5440 "CREATE FOREIGN TABLE orders$shard PARTITION OF orders FOR VALUES IN ($((2 - shard)))
                SERVER shard$shard OPTIONS (table_name 'orders')"
    query "544$shard" "SELECT pg_lookahead_evict('orders')" >/dev/null
  done
  query 5440 "$scan" >/dev/null
  show shard1 5441
  show shard2 5442
fi
