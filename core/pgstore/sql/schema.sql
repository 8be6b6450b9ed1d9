-- What the store keeps, in version 1. @ stands for the schema. Each version is added by a file of
-- its own, and keeps the functions of the versions before it, for processes that still run them.
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

-- pgstore_swap writes groups of records, each group as a whole and only if all its records are
-- as the caller believes. It waits for no lock on a record.
--
--   at        when the caller decided, by this server's clock as far as it knows
--   before    when the decision is too old, also by this server's clock
--   patience  how long to wait for another's new record, in milliseconds
--   set_clock the clock instead of this server's, in tests; else NULL
--   groups    the group of each record, from 1
--   ids       in ascending order, so that no two calls wait for each other
--   olds      the version that the caller knows; 0 for no record
--   news      the version to write, or 0 to write nothing
--
-- Times are microseconds since the epoch.
--
--   clock     this server's
--   late      true if at is not a time at which this server would decide now; nothing is written
--   failed    the groups that were not written
--   locked    those of them that somebody else has locked
--   places, versions, states: the records of the failed groups: the index in ids, and what is there
CREATE FUNCTION @.pgstore_swap_1(
	at bigint, before bigint, patience bigint, set_clock bigint,
	groups integer[], ids bytea[], olds bigint[], news bigint[], new_ends integer[], new_states bytea[],
	OUT clock bigint, OUT late boolean, OUT failed integer[], OUT locked integer[],
	OUT places integer[], OUT versions bigint[], OUT states bytea[]
) LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
	n integer := coalesce(array_length(ids, 1), 0);
	v bigint;
	s bytea;
	g integer;
	bad boolean[]; -- by group
	any_bad boolean := false;
	inserts boolean := false;
	inserted integer[];
	place integer;
BEGIN
	IF current_setting('transaction_read_only')::boolean THEN
		RAISE read_only_sql_transaction USING MESSAGE = 'this server is read-only';
	END IF;
	clock := coalesce(set_clock, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
	-- The caller's idea of the time is a lower bound: five milliseconds are for the drift of its clock.
	-- It is a second old at most.
	late := at > clock + 5000 OR clock > least(before, at + 1000000);
	IF late OR n = 0 THEN
		RETURN;
	END IF;

	FOR i IN 1..n LOOP
		g := groups[i];
		IF news[i] = 0 THEN
			SELECT r.version INTO v FROM @.pgstore_record r WHERE r.id = ids[i];
			IF coalesce(v, 0) <> olds[i] THEN
				bad[g] := true;
				any_bad := true;
			END IF;
		ELSIF olds[i] = 0 THEN
			inserts := true;
		ELSE
			SELECT r.version INTO v FROM @.pgstore_record r WHERE r.id = ids[i] FOR UPDATE SKIP LOCKED;
			IF v IS DISTINCT FROM olds[i] THEN
				bad[g] := true;
				any_bad := true;
				IF v IS NULL THEN
					PERFORM 1 FROM @.pgstore_record r WHERE r.id = ids[i] AND r.version = olds[i];
					IF FOUND THEN
						locked := locked || g;
					END IF;
				END IF;
			END IF;
		END IF;
	END LOOP;

	IF inserts THEN
		PERFORM set_config('lock_timeout', greatest(patience, 1)::text, true);
		FOR i IN 1..n LOOP
			g := groups[i];
			IF olds[i] <> 0 OR news[i] = 0 OR bad[g] IS TRUE THEN
				CONTINUE;
			END IF;
			INSERT INTO @.pgstore_record VALUES (ids[i], news[i], new_ends[i], new_states[i]) ON CONFLICT DO NOTHING;
			IF FOUND THEN
				inserted := inserted || i;
			ELSE
				bad[g] := true;
				any_bad := true;
			END IF;
		END LOOP;
		IF any_bad AND inserted IS NOT NULL THEN
			FOREACH place IN ARRAY inserted LOOP
				IF bad[groups[place]] IS TRUE THEN
					DELETE FROM @.pgstore_record r WHERE r.id = ids[place];
				END IF;
			END LOOP;
		END IF;
	END IF;

	FOR i IN 1..n LOOP
		IF bad[groups[i]] IS TRUE THEN
			v := NULL;
			s := NULL;
			SELECT r.version, r.state INTO v, s FROM @.pgstore_record r WHERE r.id = ids[i];
			places := places || i;
			versions := versions || coalesce(v, 0);
			states := states || coalesce(s, ''::bytea);
		ELSIF olds[i] <> 0 AND news[i] <> 0 THEN
			UPDATE @.pgstore_record r SET version = news[i], ends = new_ends[i], state = new_states[i] WHERE r.id = ids[i];
		END IF;
	END LOOP;
	IF any_bad THEN
		SELECT array_agg(k) INTO failed FROM generate_subscripts(bad, 1) k WHERE bad[k];
	END IF;
END $$;

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
