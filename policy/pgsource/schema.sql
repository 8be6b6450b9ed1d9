-- Policy files of pgsource, of any number of names. {schema} stands for the name of the schema.
-- One row per release. The last one of a name is what processes follow.
CREATE TABLE IF NOT EXISTS {schema}.release (
    name    text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    number  bigint NOT NULL CHECK (number > 0),
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    file    text NOT NULL,   -- the name of the file
    version text NOT NULL,   -- the file's own version
    sha256  text NOT NULL,
    by      text NOT NULL,   -- who published it
    note    text NOT NULL,   -- why
    of      bigint NOT NULL, -- after a roll-back, the release that had this file first; or 0
    body    text NOT NULL CHECK (octet_length(body) <= 8388608),
    PRIMARY KEY (name, number)
);
