-- When due and lease were written, by the same clock. If that is later than now, the clock has been
-- set back, and neither means anything.
ALTER TABLE {schema}.sink ADD COLUMN written timestamptz NOT NULL DEFAULT 'epoch';
ALTER TABLE {schema}.delivery ADD COLUMN written timestamptz NOT NULL DEFAULT 'epoch';
CREATE INDEX ON {schema}.delivery (channel, written) WHERE state = 'waiting' AND attempts > 0;
