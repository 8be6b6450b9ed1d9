-- What the store keeps, in version 1; swap.sql is version 2. @ stands for the schema. Each version
-- is added by a file of its own, and keeps the functions of the versions before it, for processes
-- that still run them.
--
-- The functions look only for names of PostgreSQL itself: otherwise whoever may make functions in a
-- schema that the caller searches could have them called.

CREATE TABLE @.pgstore_record (
	id      bytea   PRIMARY KEY, -- kind, limit, key: see id.go
	version bigint  NOT NULL,    -- random with each write; never 0, which means that there is no record
	ends    integer NOT NULL,    -- in minutes since the epoch, rounded up: then it can be removed
	state   bytea   NOT NULL     -- see record.go; empty for a record that says nothing
) WITH (
	-- Free space on each page, and no index on a column that changes with each charge: updates
	-- stay on their page (HOT), and the next reader of the page prunes what they leave.
	fillfactor = 60,
	autovacuum_vacuum_scale_factor = 0.05,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX pgstore_record_ends ON @.pgstore_record (ends);

-- pgstore_lock waits for the locks of records, in ascending order, for at most patience
-- milliseconds each, and returns the records. It is followed by pgstore_swap in the same transaction.
-- Before, it waits for advisory locks, class and each of turns, also in ascending order: they are
-- granted in the order of arrival. Those of rows are not, since each update makes another row, so
-- that one process could keep the others out.
CREATE FUNCTION @.pgstore_lock_1(
	patience bigint, set_clock bigint, class integer, turns integer[], ids bytea[],
	OUT clock bigint, OUT versions bigint[], OUT states bytea[]
) LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
	v bigint;
	s bytea;
	turn integer;
BEGIN
	PERFORM set_config('lock_timeout', greatest(patience, 1)::text, true);
	FOREACH turn IN ARRAY turns LOOP
		PERFORM pg_advisory_xact_lock(class, turn);
	END LOOP;
	FOR i IN 1..array_length(ids, 1) LOOP
		v := NULL;
		s := NULL;
		SELECT r.version, r.state INTO v, s FROM @.pgstore_record r WHERE r.id = ids[i] FOR UPDATE;
		versions := versions || coalesce(v, 0);
		states := states || coalesce(s, ''::bytea);
	END LOOP;
	clock := coalesce(set_clock, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
END $$;

-- pgstore_clock returns this server's clock.
CREATE FUNCTION @.pgstore_clock_1() RETURNS bigint LANGUAGE sql VOLATILE SET search_path = pg_catalog AS $$
	SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
$$;

-- pgstore_sweep removes at most the given number of records that have ended, and returns how many.
CREATE FUNCTION @.pgstore_sweep_1(set_clock bigint, most integer) RETURNS bigint LANGUAGE sql SET search_path = pg_catalog AS $$
	WITH ended AS (
		SELECT r.id FROM @.pgstore_record r
		WHERE r.ends < coalesce(set_clock / 60000000, extract(epoch FROM clock_timestamp())::bigint / 60)
		ORDER BY r.ends LIMIT most FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM @.pgstore_record r USING ended WHERE r.id = ended.id RETURNING 1
	)
	SELECT count(*) FROM gone;
$$;
