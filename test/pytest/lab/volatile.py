"""A schema of types, casts, classes and functions that are volatile, or call what is."""

VOLATILE = """
    CREATE SCHEMA v;
    CREATE FUNCTION v.f(int) RETURNS int VOLATILE LANGUAGE plpgsql AS $$ BEGIN RETURN $1; END $$;
    CREATE FUNCTION v.stable(int) RETURNS int STABLE LANGUAGE sql AS 'SELECT $1 + 1';
    CREATE FUNCTION v.inlined(int) RETURNS int LANGUAGE sql AS 'SELECT v.f($1)';
    CREATE TABLE v.t (a int, b int, e text);
    CREATE VIEW v.view AS SELECT v.f(a) AS a FROM v.t;
    CREATE VIEW v.nested AS SELECT count(*) FROM v.view WHERE a > 0;
    CREATE OPERATOR v.@@@ (RIGHTARG = int, FUNCTION = v.f);
    CREATE TYPE v.pair AS (x int);
    CREATE FUNCTION v.cast_pair(v.pair) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;
    CREATE CAST (v.pair AS int) WITH FUNCTION v.cast_pair(v.pair);
    CREATE FUNCTION v.step(int, int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;
    CREATE AGGREGATE v.total(int) (SFUNC = v.step, STYPE = int);
    CREATE DOMAIN v.checked AS int CHECK (v.f(VALUE) > 0);
    CREATE DOMAIN v.above AS v.checked;
    CREATE TYPE v.record AS (c v.checked[]);
    CREATE TYPE v.span AS RANGE (SUBTYPE = v.checked);
    CREATE VIEW v.parsed AS SELECT (e::v.record).c FROM v.t;
    CREATE TYPE v.odd AS (x int);
    CREATE FUNCTION v.less(v.odd, v.odd) RETURNS bool IMMUTABLE LANGUAGE sql
        AS 'SELECT ($1).x < ($2).x';
    CREATE FUNCTION v.sorts(v.odd, v.odd) RETURNS int VOLATILE LANGUAGE plpgsql
        AS $$ BEGIN RETURN btint4cmp(($1).x, ($2).x); END $$;
    CREATE OPERATOR v.<<< (LEFTARG = v.odd, RIGHTARG = v.odd, FUNCTION = v.less);
    CREATE OPERATOR v.=== (LEFTARG = v.odd, RIGHTARG = v.odd, FUNCTION = v.less);
    CREATE OPERATOR v.>>> (LEFTARG = v.odd, RIGHTARG = v.odd, FUNCTION = v.less);
    CREATE OPERATOR CLASS v.odds DEFAULT FOR TYPE v.odd USING btree AS OPERATOR 1 v.<<<,
        OPERATOR 3 v.===, OPERATOR 5 v.>>>, FUNCTION 1 v.sorts(v.odd, v.odd);
    CREATE TABLE v.ordered (o v.odd, os v.odd[]);
    CREATE TABLE v.wrapped (w v.ordered);
    CREATE TYPE v.twin AS (x int);
    CREATE FUNCTION v.alike(v.twin, v.twin) RETURNS bool LANGUAGE plpgsql
        AS $$ BEGIN RETURN ($1).x = ($2).x; END $$;
    CREATE FUNCTION v.hash(v.twin) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT ($1).x';
    CREATE OPERATOR v.~~~ (LEFTARG = v.twin, RIGHTARG = v.twin, FUNCTION = v.alike, HASHES);
    CREATE OPERATOR CLASS v.likes DEFAULT FOR TYPE v.twin USING hash AS OPERATOR 1 v.~~~,
        FUNCTION 1 v.hash(v.twin);
    CREATE TYPE v.mood AS ENUM ('a');
    CREATE FUNCTION v.told(v.mood) RETURNS json LANGUAGE plpgsql AS $$ BEGIN RETURN '1'; END $$;
    CREATE CAST (v.mood AS json) WITH FUNCTION v.told(v.mood);
    CREATE TYPE v.tone AS ENUM ('a');
    CREATE FUNCTION v.said(v.tone) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN '1'; END $$;
    CREATE CAST (v.tone AS text) WITH FUNCTION v.said(v.tone);
    CREATE TABLE v.felt (t v.twin, ts v.twin[], m v.mood, ms v.mood[], n v.tone);
    CREATE FUNCTION v.feel(OUT m v.mood, OUT t v.twin) STABLE LANGUAGE plpgsql
        AS $$ BEGIN m := 'a'; END $$;
    CREATE AGGREGATE v.glue(v.tone) (SFUNC = textanycat, STYPE = text, INITCOND = '');
    CREATE TABLE v.records (r v.record, d v.checked);
    CREATE FUNCTION v.two(OUT d v.checked, OUT n int) STABLE LANGUAGE sql
        AS 'SELECT d, 1 FROM v.records OFFSET 0';
    CREATE FUNCTION v.opaque() RETURNS record STABLE LANGUAGE sql AS $$ SELECT 'a'::v.mood, 1 $$;
    CREATE FUNCTION v.veiled(OUT r record) STABLE LANGUAGE sql AS 'SELECT v.opaque()';
    CREATE FUNCTION v.checks(v.checked) RETURNS v.checked IMMUTABLE LANGUAGE plpgsql
        AS $$ BEGIN RETURN $1; END $$;
    CREATE FUNCTION v.second(v.checked, v.checked) RETURNS v.checked IMMUTABLE LANGUAGE sql
        AS 'SELECT $2';
    CREATE AGGREGATE v.last(v.checked)
        (SFUNC = v.second, STYPE = v.checked, FINALFUNC = v.checks);
    CREATE FUNCTION v.compare(int, int) RETURNS int LANGUAGE plpgsql
        AS $$ BEGIN RETURN btint4cmp($1, $2); END $$;
    CREATE OPERATOR CLASS v.inverted FOR TYPE int[] USING gin AS OPERATOR 1 && (anyarray, anyarray),
        FUNCTION 1 v.compare(int, int), FUNCTION 2 ginarrayextract(anyarray, internal, internal),
        FUNCTION 3 ginqueryarrayextract
            (anyarray, internal, int2, internal, internal, internal, internal),
        FUNCTION 4 ginarrayconsistent
            (internal, int2, anyarray, int4, internal, internal, internal, internal), STORAGE int;
    CREATE TABLE v.arrays (ns int[]);
    CREATE INDEX ON v.arrays USING gin (ns v.inverted);
    CREATE TYPE v.row AS (x int);
    CREATE DOMAIN v.name AS varchar;
    CREATE FUNCTION v.as_json(varchar) RETURNS json LANGUAGE sql AS $$ SELECT '1'::json $$;
    CREATE FUNCTION v.as_json(v.row) RETURNS json LANGUAGE sql AS $$ SELECT '1'::json $$;
    CREATE FUNCTION v.as_text(date) RETURNS text LANGUAGE sql AS $$ SELECT '1' $$;
    CREATE CAST (varchar AS json) WITH FUNCTION v.as_json(varchar);
    CREATE CAST (v.row AS json) WITH FUNCTION v.as_json(v.row);
    CREATE CAST (date AS text) WITH FUNCTION v.as_text(date);
    CREATE TABLE v.values (c varchar, n v.name, i date, r v.row, d v.checked, ds v.checked[]);
    CREATE FUNCTION v.keep(v.checked, int) RETURNS v.checked IMMUTABLE LANGUAGE sql AS 'SELECT $1';
    CREATE FUNCTION v.kept(anyelement, anyelement) RETURNS anyelement IMMUTABLE STRICT LANGUAGE sql
        AS 'SELECT $1';
    CREATE FUNCTION v.number(v.checked) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
    CREATE AGGREGATE v.begun(int)
        (SFUNC = v.keep, STYPE = v.checked, FINALFUNC = v.number, INITCOND = '1');
    CREATE AGGREGATE v.first(anyelement) (SFUNC = v.kept, STYPE = anyelement);
    CREATE FUNCTION v.late(int, int DEFAULT v.f(1)) RETURNS bool IMMUTABLE LANGUAGE plpgsql
        AS $$ BEGIN RETURN true; END $$;
    CREATE DOMAIN v.lazy AS int CHECK (v.late(VALUE));
    CREATE DOMAIN v.hidden AS int CHECK (jsonb_populate_record(v.two(), '{}')::text IS NOT NULL);
    CREATE FUNCTION v.across(inet, inet) RETURNS int VOLATILE LANGUAGE plpgsql
        AS $$ BEGIN RETURN network_cmp($1, $2); END $$;
    CREATE OPERATOR v.<<< (LEFTARG = inet, RIGHTARG = inet, FUNCTION = network_lt);
    CREATE OPERATOR v.=== (LEFTARG = inet, RIGHTARG = inet, FUNCTION = network_eq);
    CREATE OPERATOR v.>>> (LEFTARG = inet, RIGHTARG = inet, FUNCTION = network_gt);
    CREATE OPERATOR CLASS v.nets FOR TYPE inet USING btree AS OPERATOR 1 v.<<<,
        OPERATOR 3 v.===, OPERATOR 5 v.>>>, FUNCTION 1 v.across(inet, inet);
    CREATE TABLE v.networks (c cidr);
    CREATE TYPE v.whole;
    CREATE FUNCTION v.canonical(v.whole) RETURNS v.whole IMMUTABLE STRICT LANGUAGE internal
        AS 'int4range_canonical';
    CREATE TYPE v.whole AS RANGE (SUBTYPE = int, CANONICAL = v.canonical);
    ALTER FUNCTION v.canonical(v.whole) VOLATILE;
    CREATE TYPE v.place AS (x int); CREATE TABLE v.placed (p v.place);
    CREATE OPERATOR CLASS v.places DEFAULT FOR TYPE v.place USING gist AS FUNCTION 1 v.f(int);
    CREATE SEQUENCE v.s;
    CREATE TABLE v.guarded (a int);
    ALTER TABLE v.guarded ENABLE ROW LEVEL SECURITY;
    CREATE POLICY p ON v.guarded USING (v.f(a) > 0);
    INSERT INTO v.t VALUES (1, 2, 'x');
    CREATE ROLE watched LOGIN;
    GRANT USAGE ON SCHEMA v TO watched; GRANT SELECT ON ALL TABLES IN SCHEMA v TO watched;
"""
