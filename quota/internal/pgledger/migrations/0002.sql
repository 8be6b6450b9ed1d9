-- When the last unit of a day was charged, by the store's clock.
ALTER TABLE {schema}.day ADD COLUMN at timestamptz NOT NULL DEFAULT 'epoch';

-- The channels that notices are delivered to.
CREATE TABLE {schema}.channel (
	name   text COLLATE "C" PRIMARY KEY,
	opened timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row for each notice and channel: the outbox.
CREATE TABLE {schema}.delivery (
	channel   text COLLATE "C" NOT NULL,
	notice    bigint NOT NULL REFERENCES {schema}.notice ON DELETE CASCADE,
	state     text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'dead')),
	attempts  int NOT NULL DEFAULT 0, -- that have begun
	due       timestamptz NOT NULL DEFAULT clock_timestamp(), -- of the next attempt; during one, when it is taken for lost
	delivered timestamptz,
	error     text NOT NULL DEFAULT '', -- of the last attempt
	PRIMARY KEY (notice, channel)
);
CREATE INDEX ON {schema}.delivery (channel, (attempts > 0), due) WHERE state = 'waiting';
CREATE INDEX ON {schema}.delivery (channel, notice) WHERE state = 'dead';

-- The receivers of usage.
CREATE TABLE {schema}.sink (
	name    text COLLATE "C" PRIMARY KEY,
	since   timestamptz NOT NULL, -- periods that ended before are not exported
	scanned timestamptz NOT NULL, -- when the last pass began that has sent everything
	whole   timestamptz NOT NULL DEFAULT 'epoch', -- when the last pass began that has looked at the days of all accounts
	due     timestamptz NOT NULL, -- of the next pass
	owner   text NOT NULL DEFAULT '', -- the process that is at it
	lease   timestamptz NOT NULL DEFAULT 'epoch' -- until when
);

-- What a receiver has been told of the use of an account on a day. An increment is written
-- here before it is sent, so that a repeat is the same.
CREATE TABLE {schema}.export (
	sink         text COLLATE "C" NOT NULL,
	limit_name   text COLLATE "C" NOT NULL,
	key          text COLLATE "C" NOT NULL,
	period_start timestamptz NOT NULL,
	period_end   timestamptz NOT NULL,
	day          date NOT NULL,
	sent         bigint NOT NULL, -- units that the receiver has
	seq          bigint NOT NULL, -- number of increments
	pending      bigint, -- the increment on its way
	at           timestamptz NOT NULL, -- of the last unit in it
	PRIMARY KEY (limit_name, key, period_start, period_end, day, sink)
) PARTITION BY RANGE (period_start);
CREATE INDEX ON {schema}.export (sink, limit_name, key, period_start, period_end, day) WHERE pending IS NOT NULL;

-- The states of accounts whose days a pass has looked at, so that others pass them over.
CREATE TABLE {schema}.exported (
	sink         text COLLATE "C" NOT NULL,
	limit_name   text COLLATE "C" NOT NULL,
	key          text COLLATE "C" NOT NULL,
	period_start timestamptz NOT NULL,
	period_end   timestamptz NOT NULL,
	positions    bigint NOT NULL, -- sum over its generations
	PRIMARY KEY (limit_name, key, period_start, period_end, sink)
) PARTITION BY RANGE (period_start);
