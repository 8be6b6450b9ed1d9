-- The limits that are kept, with the numbers that a process has declared last. Commands have no
-- limits of their own, and need them to know periods and what an account is in a store.
CREATE TABLE {schema}.declared (
	limit_name text COLLATE "C" PRIMARY KEY,
	unit       text NOT NULL CHECK (unit IN ('day', 'month')),
	day        int NOT NULL, -- of the month on which periods begin; 0 for days
	zone       text NOT NULL,
	january    int NOT NULL, -- seconds east of Greenwich in January of 2020, and in July:
	july       int NOT NULL, -- two zones can have one name
	period     bigint NOT NULL, -- the number that stands for unit, day and zone in stores
	quota      bigint NOT NULL,
	soft       bigint NOT NULL, -- 0 for none
	at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
