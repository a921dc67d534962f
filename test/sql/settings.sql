--
-- Settings: defaults, bounds, and who may change them
--
SELECT name, setting, unit, context, vartype, min_val, max_val
FROM pg_settings
WHERE name LIKE 'pg\_lookahead.%' AND name NOT LIKE 'pg\_lookahead.test\_%'
ORDER BY name COLLATE "C";

SET pg_lookahead.prefetch_distance = 1000;
SET pg_lookahead.prefetch_distance = 1001;
SET pg_lookahead.prefetch_distance = -1;
SET pg_lookahead.enabled = maybe;
SET pg_lookahead.no_such_setting = 1;
SET pg_lookahead.disable = on;

-- EXPLAIN (SETTINGS) shows what was changed
SET pg_lookahead.prefetch_distance = 8;
SET pg_lookahead.enable_index_prefetch = off;
EXPLAIN (COSTS OFF, SETTINGS) SELECT 1;
