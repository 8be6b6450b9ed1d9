-- One row for each account: the use of a limit by one key in one period.
CREATE TABLE {schema}.account (
	limit_name   text COLLATE "C" NOT NULL,
	key          text COLLATE "C" NOT NULL,
	period_start timestamptz NOT NULL,
	period_end   timestamptz NOT NULL,
	generation   bigint NOT NULL, -- the last that was begun
	PRIMARY KEY (limit_name, key, period_start, period_end)
) PARTITION BY RANGE (period_start);

-- One row for each life of an account in a store. What it has counted is used - base, and the
-- use of an account is the sum of that.
CREATE TABLE {schema}.generation (
	limit_name   text COLLATE "C" NOT NULL,
	key          text COLLATE "C" NOT NULL,
	period_start timestamptz NOT NULL,
	period_end   timestamptz NOT NULL,
	generation   bigint NOT NULL,
	base         bigint NOT NULL, -- units used before it
	position     bigint NOT NULL, -- the last state that was written
	used         bigint NOT NULL, -- units used in that state, with base
	at           timestamptz NOT NULL, -- when the store was in that state, by its own clock
	closed       boolean NOT NULL DEFAULT false, -- the store has lost changes of it
	PRIMARY KEY (limit_name, key, period_start, period_end, generation)
) PARTITION BY RANGE (period_start);

-- The last state of a generation on each day, in the time zone of the limit.
CREATE TABLE {schema}.day (
	limit_name   text COLLATE "C" NOT NULL,
	key          text COLLATE "C" NOT NULL,
	period_start timestamptz NOT NULL,
	period_end   timestamptz NOT NULL,
	generation   bigint NOT NULL,
	day          date NOT NULL,
	position     bigint NOT NULL,
	used         bigint NOT NULL,
	PRIMARY KEY (limit_name, key, period_start, period_end, generation, day)
) PARTITION BY RANGE (period_start);

-- Everything that was ever changed in what tenants may use. Rows are added, and never changed.
CREATE TABLE {schema}.change (
	operation    text COLLATE "C" PRIMARY KEY,
	seq          bigint GENERATED ALWAYS AS IDENTITY,
	at           timestamptz NOT NULL DEFAULT clock_timestamp(),
	kind         text NOT NULL CHECK (kind IN ('plan', 'assignment', 'override', 'credit', 'adjustment')),
	limit_name   text COLLATE "C" NOT NULL,
	tenant       text COLLATE "C" NOT NULL, -- '' for plans
	plan         text COLLATE "C" NOT NULL,
	included     bigint NOT NULL,
	hard         bigint NOT NULL,
	units        bigint NOT NULL,
	expires      timestamptz,
	period_start timestamptz,
	reason       text NOT NULL
);
CREATE INDEX ON {schema}.change (limit_name, tenant, seq);

-- What accounts of detached months have used, where credits depend on it.
CREATE TABLE {schema}.carried (
	limit_name   text COLLATE "C" NOT NULL,
	key          text COLLATE "C" NOT NULL,
	period_start timestamptz NOT NULL,
	period_end   timestamptz NOT NULL,
	used         bigint NOT NULL,
	PRIMARY KEY (limit_name, key, period_start, period_end)
);

-- An account that has reached a level, once for each level. It is also the outbox of notices.
CREATE TABLE {schema}.notice (
	id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	limit_name   text COLLATE "C" NOT NULL,
	key          text COLLATE "C" NOT NULL,
	period_start timestamptz NOT NULL,
	period_end   timestamptz NOT NULL,
	level        int NOT NULL, -- percent of included
	used         bigint NOT NULL,
	included     bigint NOT NULL,
	hard         bigint NOT NULL,
	at           timestamptz NOT NULL,
	created      timestamptz NOT NULL DEFAULT clock_timestamp(),
	UNIQUE (limit_name, key, period_start, period_end, level)
);

-- The processes that may have positions which are not written.
CREATE TABLE {schema}.process (
	id     text PRIMARY KEY,
	seen   timestamptz NOT NULL,
	limits text[] NOT NULL -- that it keeps: a process that has them too can look for what it has left behind
);
