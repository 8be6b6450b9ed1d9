-- Version 2: the function that writes. What schema.sql says holds here, too.
--
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
--   news      the version to write; 0 to write nothing; -1 or -2 to write nothing and to let nobody
--             else write the record until the others of its group are written. Several calls can
--             hold a record by -1 at the same time, one by -2.
--
-- Times are microseconds since the epoch.
--
--   clock     this server's
--   late      true if at is not a time at which this server would decide now; nothing is written
--   failed    the groups that were not written
--   locked    those of them that somebody else has locked
--   places, versions, states: the records of the failed groups: the index in ids, and what is there
--
-- A group that writes nothing is right at one moment though its records are read one after the
-- other: a version never comes back, so all were as the caller believes when the first was read.
CREATE FUNCTION @.pgstore_swap_2(
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
	reads boolean := false;
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
		IF news[i] = 0 THEN
			reads := true;
		ELSIF olds[i] = 0 THEN
			inserts := true;
		ELSE
			IF news[i] = -1 THEN
				SELECT r.version INTO v FROM @.pgstore_record r WHERE r.id = ids[i] FOR SHARE SKIP LOCKED;
			ELSE
				SELECT r.version INTO v FROM @.pgstore_record r WHERE r.id = ids[i] FOR UPDATE SKIP LOCKED;
			END IF;
			IF v IS DISTINCT FROM olds[i] THEN
				bad[groups[i]] := true;
				any_bad := true;
				IF v IS NULL THEN
					PERFORM 1 FROM @.pgstore_record r WHERE r.id = ids[i] AND r.version = olds[i];
					IF FOUND THEN
						locked := locked || groups[i];
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
			-- There is nothing to lock of a record that is not there. One that is inserted and removed keeps
			-- others from inserting it.
			INSERT INTO @.pgstore_record VALUES (ids[i], greatest(news[i], 1), new_ends[i], new_states[i]) ON CONFLICT DO NOTHING;
			IF FOUND THEN
				inserted := inserted || i;
			ELSE
				bad[g] := true;
				any_bad := true;
			END IF;
		END LOOP;
	END IF;

	-- What is held is held by now.
	IF reads THEN
		FOR i IN 1..n LOOP
			g := groups[i];
			IF news[i] <> 0 OR bad[g] IS TRUE THEN
				CONTINUE;
			END IF;
			SELECT r.version INTO v FROM @.pgstore_record r WHERE r.id = ids[i];
			IF coalesce(v, 0) <> olds[i] THEN
				bad[g] := true;
				any_bad := true;
			END IF;
		END LOOP;
	END IF;

	IF inserted IS NOT NULL THEN
		FOREACH place IN ARRAY inserted LOOP
			IF news[place] < 0 OR bad[groups[place]] IS TRUE THEN
				DELETE FROM @.pgstore_record r WHERE r.id = ids[place];
			END IF;
		END LOOP;
	END IF;

	FOR i IN 1..n LOOP
		IF bad[groups[i]] IS TRUE THEN
			v := NULL;
			s := NULL;
			SELECT r.version, r.state INTO v, s FROM @.pgstore_record r WHERE r.id = ids[i];
			places := places || i;
			versions := versions || coalesce(v, 0);
			states := states || coalesce(s, ''::bytea);
		ELSIF olds[i] <> 0 AND news[i] > 0 THEN
			UPDATE @.pgstore_record r SET version = news[i], ends = new_ends[i], state = new_states[i] WHERE r.id = ids[i];
		END IF;
	END LOOP;
	IF any_bad THEN
		SELECT array_agg(k) INTO failed FROM generate_subscripts(bad, 1) k WHERE bad[k];
	END IF;
END $$;
