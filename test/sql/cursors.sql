--
-- Cursors: rows fetched a few at a time, savepoints, scrolling
--
CREATE TABLE walked (id int PRIMARY KEY, v int);
INSERT INTO walked SELECT i, i * 7919 % 1009 FROM generate_series(1, 1000) i;
CREATE INDEX walked_v ON walked (v);
ANALYZE walked;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
-- look ahead in memory, too
SET pg_lookahead.test_start_after = 4;

BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id, v FROM walked ORDER BY v;
FETCH 6 FROM c;
SAVEPOINT s;
MOVE 100 FROM c;
FETCH 2 FROM c;
SELECT 1 / 0;
ROLLBACK TO s;
FETCH 2 FROM c;
SET effective_io_concurrency = 0;
SET io_combine_limit = 1;
SET pg_lookahead.enabled = off;
FETCH 2 FROM c;
-- rows changed after the cursor was opened stay as they were
UPDATE walked SET v = -v WHERE v BETWEEN 100 AND 200;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
ROLLBACK;

-- an error in the middle of a scan that reads ahead
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT 100 / (v - 20) FROM walked ORDER BY v;
SAVEPOINT s;
FETCH 40 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
ROLLBACK;

-- scrollable cursors are left to core
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM walked WHERE id IN (1, 5, 9, 13);
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH 3 FROM c;
FETCH ABSOLUTE 2 FROM c;
COMMIT;

BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT id FROM walked ORDER BY v;
FETCH 3 FROM held;
COMMIT;
FETCH 3 FROM held;
CLOSE held;

BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id, v FROM walked ORDER BY v FOR UPDATE;
MOVE 50 FROM c;
FETCH 1 FROM c;
UPDATE walked SET v = 5000 WHERE CURRENT OF c;
SELECT * FROM walked WHERE v = 5000;
ROLLBACK;

DROP TABLE walked;
