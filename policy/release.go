package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Archive is a [Source] that keeps what was published in it: the file of Redis in redissource, and that
// of PostgreSQL in pgsource. Its methods are safe for concurrent use, by any number of processes.
//
// [Publish] and [Rollback] are for those who change a file, and check it. The methods here check
// nothing.
type Archive interface {
	Source

	// Releases returns what was published, the last release first. An archive keeps
	// KeptReleases of them at most, and fewer if they are large.
	Releases(ctx context.Context) ([]Release, error)

	// Read returns the file of a release, or an error that is ErrNoRelease.
	Read(ctx context.Context, number int64) (File, error)

	// Add publishes a file as the release after the one with the number after, and returns it
	// with its Number and At. If after is not the last one, nothing happens, and the error is
	// ErrOvertaken. If after is negative, whatever is there is replaced.
	Add(ctx context.Context, file File, release Release, after int64) (Release, error)
}

// KeptReleases is how many releases an [Archive] keeps at most, and KeptBytes how large their files
// are together. The last two are kept in any case: there is always one to go back to.
const (
	KeptReleases = 50
	KeptBytes    = 32 << 20
)

// MaxBytes is the most that a policy file has.
const MaxBytes = maxBytes

// Release is one publication of a file in an [Archive]. A file that is rolled back to is published
// again, so that releases are in the order in which they decided.
type Release struct {
	Number  int64     // from 1, one more for each
	At      time.Time // by the clock of the archive
	File    string    // the name of the file
	Version Version   // of the file
	By      string    // who published it, as they said
	Note    string    // why, as they said

	// Of is the number of the release whose file this one publishes again, after a roll-back; or 0.
	Of int64
}

// origin is the release that the file was published in first.
func (r *Release) origin() int64 {
	if r.Of > 0 {
		return r.Of
	}
	return r.Number
}

// String returns the release in a few words: "release 7, 2026-11-22.1#1a2b3c4d5e6f".
func (r Release) String() string { return fmt.Sprintf("release %d, %s", r.Number, r.Version) }

// Errors of an [Archive], to be found with errors.Is.
var (
	// ErrOvertaken says that somebody else has published since the release that was to be replaced.
	ErrOvertaken = errors.New("somebody else has published meanwhile")
	// ErrNoRelease says that there is no such release, or no longer.
	ErrNoRelease = errors.New("there is no such release")
)

// Publication says how [Publish] and [Rollback] publish a file. The zero value is ready to use.
type Publication struct {
	// By says who publishes, and Note why, for the log. At most 200 bytes of each count, and
	// control characters are left out.
	By, Note string

	// Replaces is the release that the publisher has seen, and that may be replaced. The zero
	// Release is an empty archive. If there is another one by now, nothing is published, and the
	// error is ErrOvertaken. Defaults to nil: whatever is there is replaced.
	Replaces *Release

	// Options are for the check of the file, as for Load. Defaults to AnyName and WithoutSecrets:
	// names of the application's are taken as they are, and secrets are not read.
	Options *Options

	// Validate is for a file of another kind, such as Validate of service/envoy's Config, and takes the place of
	// Options. Defaults to nil: the file has policies.
	Validate func(File) error
}

// Publish checks a file and publishes it in an archive, for all processes that watch it. A file with
// problems changes nothing; the error is an [*Error] with all of them, or that of Publication.Validate. If the archive holds the very
// file already, nothing is published, and the present release is returned.
func Publish(ctx context.Context, in Archive, file File, p Publication) (Release, error) {
	return p.publish(ctx, in, file, 0)
}

// Rollback publishes the file of an earlier release again. The number 0 stands for the one that decided
// before the present one; further calls go back further. The file is checked again.
func Rollback(ctx context.Context, in Archive, number int64, p Publication) (Release, error) {
	all, err := in.Releases(ctx)
	if err != nil {
		return Release{}, err
	}
	target, err := RollbackTarget(all, number)
	if err != nil {
		return Release{}, err
	}
	file, err := in.Read(ctx, target.Number)
	if err != nil {
		return Release{}, err
	}
	if p.Replaces == nil {
		p.Replaces = &all[0] // what to go back to was chosen by these: a release since would be rolled back unseen
	}
	return p.publish(ctx, in, file, target.origin())
}

// RollbackTarget returns the release that [Rollback] goes back to, of those that [Archive.Releases]
// returned.
func RollbackTarget(releases []Release, number int64) (Release, error) {
	all := releases
	if len(all) == 0 {
		return Release{}, fmt.Errorf("weblimit: policy: nothing was published yet: %w", ErrNoRelease)
	}
	if number != 0 {
		at := slices.IndexFunc(all, func(r Release) bool { return r.Number == number })
		if at < 0 {
			return Release{}, fmt.Errorf("weblimit: policy: release %d: %w, or it is no longer kept; the oldest is %d", number, ErrNoRelease, all[len(all)-1].Number)
		}
		return all[at], nil
	}
	// What decided before the present file, not what was rolled back since.
	last := all[0]
	for _, r := range all[1:] {
		if r.Number < last.origin() && r.Version.Hash != last.Version.Hash {
			return r, nil
		}
	}
	return Release{}, fmt.Errorf("weblimit: policy: no earlier release is kept before release %d: %w", last.origin(), ErrNoRelease)
}

// maxTold bounds what is kept of By, Note and the name of a file.
const maxTold = 200

// publish adds a release of a file. of is the earlier release that it repeats, or 0.
func (p Publication) publish(ctx context.Context, in Archive, file File, of int64) (Release, error) {
	version, err := p.check(ctx, file)
	if err != nil {
		return Release{}, err
	}
	after := int64(-1) // whatever is there
	if p.Replaces != nil {
		after = p.Replaces.Number
	}
	if same, ok := p.published(ctx, in, version.Hash, after); ok {
		return same, nil
	}
	file.Name = told(file.Name)
	return in.Add(ctx, file, Release{
		File: file.Name, Version: version, By: told(p.By), Note: told(p.Note), Of: of,
	}, after)
}

// check returns the version of a file in which nothing is wrong.
func (p Publication) check(ctx context.Context, file File) (Version, error) {
	switch {
	case p.Validate != nil && p.Options != nil:
		return Version{}, errors.New("weblimit: policy: Publication has Options, which are for a file of policies, and Validate, which is for another")
	case p.Validate != nil && len(file.Text) > maxBytes: // nobody would read it
		return Version{}, fmt.Errorf("weblimit: policy: the file has %d bytes, the most is %d", len(file.Text), maxBytes)
	case p.Validate != nil:
		return Version{Hash: hashOf(file.Text)}, p.Validate(file)
	case p.Options == nil:
		p.Options = &Options{AnyName: true, WithoutSecrets: true}
	}
	next, err := compile(ctx, file.Name, file.Text, p.Options)
	if err != nil {
		return Version{}, err
	}
	return next.version, nil
}

// published returns the present release if it has a file of that hash, so that a pipeline which runs
// twice publishes once. What the archive serves is compared, and not what its log says.
func (p Publication) published(ctx context.Context, in Archive, hash string, after int64) (Release, bool) {
	all, err := in.Releases(ctx)
	if err != nil || len(all) == 0 || all[0].Version.Hash != hash || after >= 0 && all[0].Number != after {
		return Release{}, false
	}
	now, err := in.Load(ctx)
	return all[0], err == nil && hashOf(now.Text) == hash
}

// told returns text without what a terminal or a log reads as something else, and not too long.
func told(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == utf8.RuneError {
			return -1
		}
		return c
	}, text)
	for len(text) > maxTold {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
