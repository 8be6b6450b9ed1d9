package pgsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/policy"
)

// Releases implements [policy.Archive].
func (s *Source) Releases(ctx context.Context) ([]policy.Release, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.config.sql("SELECT number, at, left(file, 200), left(version, 200), left(sha256, 64), left(by, 200), left(note, 200), of FROM {schema}.release WHERE name = $1 ORDER BY number DESC LIMIT $2"), s.name, 2*policy.KeptReleases)
	if err != nil {
		return nil, s.failed(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r policy.Release, err error) {
		err = row.Scan(&r.Number, &r.At, &r.File, &r.Version.Name, &r.Version.Hash, &r.By, &r.Note, &r.Of)
		return r, err
	})
	if err != nil {
		return nil, s.failed(err)
	}
	return all, nil
}

// Add implements [policy.Archive].
func (s *Source) Add(ctx context.Context, file policy.File, release policy.Release, after int64) (policy.Release, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	sum := sha256.Sum256(file.Text)
	release.File, release.Version.Hash = file.Name, hex.EncodeToString(sum[:])
	// Of several that publish over whatever is there, one comes first, and the others try again.
	for range 10 {
		added, last, err := s.add(ctx, file, release, after)
		switch {
		case err != nil:
			return policy.Release{}, s.failed(err)
		case added.Number > 0:
			return added, nil
		case after >= 0:
			return policy.Release{}, s.failed(fmt.Errorf("%w: release %d is there, and %d was to be replaced", policy.ErrOvertaken, last, after))
		}
	}
	return policy.Release{}, s.failed(errors.New("others publish all the time"))
}

// add publishes a file after a release, or after the last one if after is negative. If there is another
// one, it returns its number instead.
func (s *Source) add(ctx context.Context, file policy.File, release policy.Release, after int64) (added policy.Release, last int64, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, s.config.sql("SELECT coalesce(max(number), 0) FROM {schema}.release WHERE name = $1"), s.name).Scan(&last); err != nil {
			return err
		}
		if after >= 0 && after != last {
			return nil
		}
		// Somebody else may insert the same number; the primary key decides.
		err := tx.QueryRow(ctx, s.config.sql(`INSERT INTO {schema}.release (name, number, file, version, sha256, by, note, of, body)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING at`),
			s.name, last+1, release.File, release.Version.Name, release.Version.Hash, release.By, release.Note, release.Of, string(file.Text)).Scan(&release.At)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			last++
			return nil
		case err != nil:
			return err
		}
		if _, err := tx.Exec(ctx, s.config.sql(`DELETE FROM {schema}.release r USING (
				SELECT number, row_number() OVER newest AS kept, sum(octet_length(body)) OVER newest AS bytes
				FROM {schema}.release WHERE name = $1 WINDOW newest AS (ORDER BY number DESC)) o
			WHERE r.name = $1 AND r.number = o.number AND o.kept > 2 AND (o.kept > $2 OR o.bytes > $3)`),
			s.name, policy.KeptReleases, policy.KeptBytes); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_notify($1, $2)", s.config.Schema, s.name); err != nil {
			return err
		}
		release.Number = last + 1
		return nil
	})
	if err != nil || release.Number == 0 {
		return policy.Release{}, last, err
	}
	return release, last, nil
}
