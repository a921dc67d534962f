--
-- pg_lookahead_device: one row per tablespace, for everybody
--
CREATE EXTENSION pg_lookahead;
SELECT tablespace, device ~ '^\d+:\d+$' AS has_device, profile, measured_at, iops, depth, bandwidth_mb, reason
FROM pg_lookahead_device
WHERE tablespace IN ('pg_default', 'pg_global') ORDER BY tablespace COLLATE "C";

-- as whom it may be asked
CREATE ROLE regress_lookahead_reader;
SET ROLE regress_lookahead_reader;
SELECT count(*) >= 2 AS visible FROM pg_lookahead_device;
RESET ROLE;
DROP ROLE regress_lookahead_reader;

-- a tablespace that does not exist has none; 0 is the database's own
SELECT device, reason FROM pg_lookahead_device_profile(1);
SELECT pg_lookahead_device_profile(1) IS NULL AS unknown;
SELECT reason FROM pg_lookahead_device_profile(0);
SELECT pg_lookahead_device_profile(NULL);

-- only a path that means the same everywhere is accepted, and only from the administrator
SET pg_lookahead.device_profile = '';
ALTER SYSTEM SET pg_lookahead.device_profile = 'profile';
DROP EXTENSION pg_lookahead;
