// Package pgsource keeps a policy file in PostgreSQL, so that a fleet of processes changes within a
// second:
//
//	set, err := policy.From(pgsource.New(pool, "limits"), policy.Options{Keep: "/var/lib/app/limits.yaml"})
//	…
//	defer set.Watch(ctx)()
//
// and whoever changes it, such as a pipeline, runs
//
//	weblimit policy publish limits.yaml --to postgres://db.example.com/app --name limits
//
// or in Go:
//
//	release, err := policy.Publish(ctx, pgsource.New(pool, "limits"), file, policy.Publication{By: "ann"})
//
// Each process checks what it loads as it checks a file, and goes on with what it has while PostgreSQL
// does not answer. With [policy.Options].Keep it also starts then.
//
// # How changes are seen
//
// A process listens on a connection of its own, and hears of a release within milliseconds. It also asks
// once a second for the number and the hash of the last release, so that nothing is missed while that
// connection is away, or behind a PgBouncer that does not pass notifications on.
//
// # What is stored
//
// One table, which [Migrate] makes: each row is a release with its file, [policy.KeptReleases] at most
// for each name.
//
// # Security
//
// Whoever can write the table decides what is limited. It is in a schema of its own, so that the roles of
// services get SELECT on this table and nothing else:
//
//	GRANT USAGE ON SCHEMA weblimit_policy TO app;
//	GRANT SELECT ON weblimit_policy.release TO app;
//
// Whoever publishes needs INSERT and DELETE besides. Nobody needs UPDATE.
package pgsource

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/policy"
)

// DefaultSchema is where a [Source] keeps files unless its [Config] says otherwise.
const DefaultSchema = "weblimit_policy"

// Config holds the settings of a [Source]. The zero value is ready to use.
type Config struct {
	// Schema is the schema of the table. It consists of lower-case letters, digits and
	// underscores, and begins with a letter; New panics otherwise. Defaults to DefaultSchema.
	Schema string

	// Poll is how often a process asks whether there is another release, besides listening. A
	// large fleet on a small database may ask less often. It is from 100ms to 24h; New panics
	// otherwise. Defaults to a second.
	Poll time.Duration
}

// usualTimeout is how long PostgreSQL may take to answer.
const usualTimeout = 5 * time.Second

// Source is a policy file in PostgreSQL. It is a [policy.Archive].
type Source struct {
	pool   *pgxpool.Pool
	name   string
	config Config

	timeout, silence time.Duration // usualTimeout and usualSilence, but for tests
}

var _ policy.Archive = (*Source)(nil)

// New returns the file of a name. It asks nothing of PostgreSQL. [Migrate] makes the table. New takes at
// most one Config, and panics if it makes no sense.
func New(pool *pgxpool.Pool, name string, config ...Config) *Source {
	c, err := single(config)
	if err == nil && name == "" {
		err = errors.New("weblimit: pgsource: the file needs a name")
	}
	if err != nil {
		panic(err.Error())
	}
	return &Source{pool, name, c, usualTimeout, usualSilence}
}

var plainName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

func single(config []Config) (c Config, err error) {
	if len(config) > 1 {
		return c, errors.New("weblimit: pgsource: more than one Config")
	}
	if len(config) == 1 {
		c = config[0]
	}
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.Poll == 0 {
		c.Poll = time.Second
	}
	switch {
	case !plainName.MatchString(c.Schema):
		return c, fmt.Errorf("weblimit: pgsource.Config: Schema must be 1 to 63 lower-case letters, digits and underscores, beginning with a letter, got %q", c.Schema)
	case c.Poll < leastGap || c.Poll > mostPoll:
		return c, fmt.Errorf("weblimit: pgsource.Config: Poll must be from %v to %v, got %v", leastGap, mostPoll, c.Poll)
	}
	return c, nil
}

//go:embed schema.sql
var schema string

// SQL returns the statements that [Migrate] runs, for tools that change schemas.
func SQL(config ...Config) (string, error) {
	c, err := single(config)
	if err != nil {
		return "", err
	}
	return c.sql(makeSchema + schema), nil
}

// makeSchema is needed once. It takes the right to make schemas even where there is one.
const makeSchema = "CREATE SCHEMA IF NOT EXISTS {schema};\n\n"

// sql puts the name of the schema into statements. It needs no quotes.
func (c Config) sql(text string) string { return strings.ReplaceAll(text, "{schema}", c.Schema) }

// Migrate makes the schema and the table, with a role that may; the roles of services need not. Where they
// are, it changes nothing. It may be called twice, and from several processes at once.
func Migrate(ctx context.Context, pool *pgxpool.Pool, config ...Config) error {
	c, err := single(config)
	if err != nil {
		return err
	}
	var schemas, tables int
	err = pool.QueryRow(ctx, "SELECT count(*), count(c.oid) FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'release' WHERE n.nspname = $1", c.Schema).Scan(&schemas, &tables)
	if err == nil && tables == 0 {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			h := fnv.New64a()
			_, _ = h.Write([]byte("weblimit pgsource " + c.Schema))
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(h.Sum64())); err != nil {
				return err
			}
			statements := schema
			if schemas == 0 {
				statements = makeSchema + schema
			}
			_, err := tx.Exec(ctx, c.sql(statements))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("weblimit: pgsource: schema %s: %w", c.Schema, err)
	}
	return nil
}

// Load implements [policy.Source].
func (s *Source) Load(ctx context.Context) (policy.File, error) {
	file, err := s.file(ctx, "WHERE name = $1 ORDER BY number DESC LIMIT 1", s.name)
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.failed(errors.New("there is no policy file: publish one"))
	}
	return file, err
}

// Read implements [policy.Archive].
func (s *Source) Read(ctx context.Context, number int64) (policy.File, error) {
	file, err := s.file(ctx, "WHERE name = $1 AND number = $2", s.name, number)
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.failed(fmt.Errorf("release %d: %w, or it is no longer kept", number, policy.ErrNoRelease))
	}
	return file, err
}

// file reads the file of one row.
func (s *Source) file(ctx context.Context, where string, args ...any) (policy.File, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var file policy.File
	err := s.pool.QueryRow(ctx, s.config.sql("SELECT left(file, 200), body FROM {schema}.release "+where), args...).Scan(&file.Name, &file.Text)
	if err != nil {
		return policy.File{}, s.failed(err)
	}
	return file, nil
}

// failed returns an error that says where.
func (s *Source) failed(err error) error {
	return fmt.Errorf("weblimit: policy: PostgreSQL, %s.release of %q: %w", s.config.Schema, s.name, err)
}
