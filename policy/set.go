package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/wholefile"
)

// Set holds the policies of a file, and the limiters that were made of them. It is safe for
// concurrent use.
type Set struct {
	// Locks are taken in the order loading, keeping, mu. No file, source or secret is read or written with mu held, so that
	// Status and Limiter never wait for one.
	source  Source
	options Options
	live    compose.Live

	loader  *wholefile.Loader[File]
	keeping sync.Mutex // held while Options.Keep is written

	mu       sync.Mutex
	current  *document   // Guarded by mu.
	before   []*document // former versions, the last one last. Guarded by mu.
	refused  string      // hash of the text that was refused last, or "". Guarded by mu.
	status   Status      // Guarded by mu.
	limiters []follower  // in the order in which live has made them. Guarded by mu.
}

// follower is a limiter of a Set: the policy that it follows, and what the application has set.
type follower struct {
	policy string
	config core.Config
	ends   bool // if the policy is removed
}

// keptVersions is how many former versions Rollback can go back to.
// Each holds its text, of up to 8 MiB.
const keptVersions = 10

// Load reads a policy file, YAML or JSON:
//
//	set, err := policy.Load("limits.yaml")
//
// Its error is an [*Error] with everything that is wrong with the file. Load takes at most one
// Options.
func Load(name string, options ...Options) (*Set, error) { return From(fileSource{name}, options...) }

// LoadFS is [Load] from a file system, such as an embed.FS.
func LoadFS(from fs.FS, name string, options ...Options) (*Set, error) {
	return From(fsSource{from, name}, options...)
}

// Parse is [Load] of a text. The name is for messages.
func Parse(name string, text []byte, options ...Options) (*Set, error) {
	return From(textSource{name, slices.Clone(text)}, options...)
}

// single returns the Options, of which there is at most one.
func single(options []Options) (o Options, err error) {
	switch len(options) {
	case 0:
		return o, nil
	case 1:
		return options[0], nil
	}
	return o, errors.New("weblimit: policy: more than one Options")
}

// From is [Load] from another source.
func From(source Source, options ...Options) (*Set, error) {
	o, err := single(options)
	if err != nil {
		return nil, err
	}
	if own, ok := source.(fileSource); ok && isFile(o.Keep, own.name) {
		return nil, fmt.Errorf("weblimit: policy: Options.Keep names the policy file itself, %s, which a roll-back would write over: give it another name", own.name)
	}
	s := &Set{source: source, options: o.clone()}
	s.loader = wholefile.NewLoader(source.Load, func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuse("", err)
	})
	if s.status.File, s.current, err = s.begin(context.Background()); err != nil {
		return nil, err
	}
	s.status.decides(s.current)
	return s, nil
}

// Limiter returns a limiter by the policy of that name, which counts in config.Store and has
// everything else of config that the file does not set. Conditions of config.Bypass hold beside those
// of the file. The Settings of adapters call it:
//
//	limits := nethttp.With(core.Config{Store: store})
//	handler = limits.Policy(set, "api")(handler)
//
// The limiter changes with the file, and stays as long as the Set: it is for start-up, not for
// each request. Limits of one name are one limit of the store, in all policies of the file and
// beside it.
//
// The policy of a limiter can't be removed from the file, but where requests name the policy, as they do in
// package service: those programs notice that it has gone.
func (s *Set) Limiter(config core.Config, name string) (*core.Limiter, error) {
	f := follower{policy: name, config: compose.Clone(config), ends: config.MayEnd} // each reload reads it again
	s.mu.Lock()
	defer s.mu.Unlock()
	complete, err := s.current.config(f.config, f.policy)
	if err != nil {
		return nil, err
	}
	if s.options.WithoutSecrets {
		return nil, errors.New("weblimit: policy: policies that were loaded WithoutSecrets can't be used")
	}
	limiter, err := s.live.Limiter(complete)
	if err != nil {
		return nil, fmt.Errorf("weblimit: policy %q: %s", f.policy, unprefixed(err))
	}
	s.limiters = append(s.limiters, f)
	return limiter, nil
}

var _ core.Policies = (*Set)(nil)

// Names returns the names of the policies, in the order of the file.
func (s *Set) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.current.names)
}

// Status says what a [Set] decides by, and what became of its file since.
type Status struct {
	File    string    // its name
	Version Version   // that decides
	Since   time.Time // when that version began to decide
	Changes int64     // how many versions have replaced another, by a change of the file or by Rollback

	// Policies and Limits are how many that version has, without limits of a fallback.
	Policies, Limits int

	// ByPeer names the policies with limits by ip where neither they nor the defaults say in client_ip how
	// a client's address is found. It is the peer's then; in a service, what a gateway or caller names. If
	// that is a proxy, all clients behind it share one bucket.
	ByPeer []string

	// Refused is how many times a file was refused, and Err why the last one was: an *Error, or
	// that the file could not be read. Err is nil once the file is good again.
	Refused int64
	Err     error

	// RolledBack is the version that Rollback has left, which the file still holds as far as is known.
	// It is not taken again by itself. Zero if there is none.
	RolledBack Version
}

// decides notes that a document decides from now on.
func (s *Status) decides(d *document) {
	s.Version, s.Since = d.version, time.Now()
	s.Policies, s.Limits, s.ByPeer = len(d.policies), 0, nil
	for _, name := range d.names {
		p := d.policies[name]
		s.Limits += len(p.parts)
		if p.byPeer {
			s.ByPeer = append(s.ByPeer, name)
		}
	}
}

// Status returns the state of the Set, for metrics, health checks and pages.
func (s *Set) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.ByPeer = slices.Clone(status.ByPeer)
	return status
}

// Reload reads the file again. It is all or nothing: if anything is wrong, everything stays as it is,
// and the error says what. If the file is what it was, nothing happens.
//
// A request that has begun is decided and settled by the version that it began with. What clients
// have used of a limit stays used as long as the limit keeps its name; if its numbers change, the
// store converts what was used. A policy that has a [Set.Limiter] can't be removed, unless requests name it.
func (s *Set) Reload(ctx context.Context) error {
	_, err := s.load(ctx, true)
	return err
}

// load loads the file and has it decide, if it is good. It passes over a text that was refused or rolled
// back before, unless somebody asks for it. It returns false if the file could not be loaded.
func (s *Set) load(ctx context.Context, asked bool) (loaded bool, err error) {
	return s.loader.Load(ctx, func(file File) error {
		if s.passed(hashOf(file.Text), asked) {
			return nil
		}
		// A large file takes a second, in which others read the status.
		next, err := compile(ctx, file.Name, file.Text, &s.options)
		if err != nil && ctx.Err() != nil {
			return err // a secret was not waited for
		}
		if err = s.take(file, next, err); err == nil {
			s.keep()
		}
		return err
	})
}

// passed reports whether a text needs no further look.
func (s *Set) passed(hash string, asked bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case hash == s.current.version.Hash:
		s.refused, s.status.RolledBack = "", Version{}
		s.fails(nil)
	case asked:
		return false
	case hash == s.status.RolledBack.Hash:
		s.refused = ""
		s.fails(nil) // it can be read, and is not followed on purpose
	case hash == s.refused: // its problems are known, and still in the status
	default:
		return false
	}
	return true
}

// take has a document decide, unless err says that it is none.
func (s *Set) take(file File, next *document, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = s.change(next)
	}
	if err != nil {
		s.refuse(hashOf(file.Text), err)
		return err
	}
	s.before = append(s.before, s.current)
	if len(s.before) > keptVersions {
		s.before = slices.Delete(s.before, 0, 1)
	}
	s.began(next, "policy changed")
	s.status.File = file.Name
	return nil
}

// change gives all limiters their configuration by a document, or none. s.mu is held, so that a limiter that is made at the
// same moment begins with the version before, and is changed with the others, or begins with the new one.
func (s *Set) change(to *document) error {
	configs := make([]core.Config, len(s.limiters))
	gone := func(m follower) bool { return to.policies[m.policy] == nil }
	for i, m := range s.limiters {
		if gone(m) && m.ends {
			continue // without limits, it ends
		}
		if gone(m) {
			return fmt.Errorf("weblimit: policy: policy %q is in use, and the file no longer has it", m.policy)
		}
		config, err := to.config(m.config, m.policy)
		if err != nil {
			return err
		}
		configs[i] = config
	}
	if err := s.live.Replace(configs...); err != nil {
		return err
	}
	s.limiters = slices.DeleteFunc(s.limiters, gone)
	return nil
}

// began notes that a document decides now. Its changes are logged in words, since whoever reads the log does not have both
// files. s.mu is held.
func (s *Set) began(next *document, what string) {
	changes := diff(s.current, next)
	before := s.current.version
	s.current, s.refused, s.status.RolledBack = next, "", Version{}
	s.status.decides(next)
	s.fails(nil)
	s.status.Changes++
	const most = 20 // a new file can change all of ten thousand limits
	lines := changes.lines()
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	s.options.logger().LogAttrs(context.Background(), slog.LevelInfo, "weblimit: "+what,
		slog.String("file", s.status.File), slog.String("version", next.version.String()),
		slog.String("before", before.String()), slog.Any("changes", lines))
}

// fails notes why the file does not decide, or that it does. s.mu is held.
func (s *Set) fails(err error) {
	s.status.Err = err
	s.live.Refuse(err != nil) // observers of the limiters see it, too
}

// refuse notes that a file was refused. It is logged once for the same text or error. s.mu is held.
func (s *Set) refuse(hash string, err error) {
	again := s.status.Err != nil && s.refused == hash && s.status.Err.Error() == err.Error()
	s.refused = hash
	s.fails(err)
	if again {
		return
	}
	s.status.Refused++
	s.options.logger().LogAttrs(context.Background(), slog.LevelError, "weblimit: policy refused, the version before still decides",
		slog.String("file", s.status.File), slog.String("version", s.current.version.String()), slog.String("error", err.Error()))
}

// Rollback goes back to the version that decided before the present one, of the last ten, and returns
// it. It is for this process alone; for a fleet there is the function [Rollback].
//
// The file still has what was rolled back. [Set.Watch] does not take that again: it waits until the file
// has something else, which then decides. [Set.Reload] and a SIGHUP do take it, since somebody asks for
// them, and so does a process that starts: so change the file, too.
func (s *Set) Rollback() (Version, error) {
	version, err := s.goBack()
	if err == nil {
		s.keep()
	}
	return version, err
}

// goBack does not wait for a file that is being loaded: if that one is good, it decides afterwards, as a later change would.
func (s *Set) goBack() (Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.before) == 0 {
		return s.current.version, errors.New("weblimit: policy: there is no version before the present one")
	}
	last := s.before[len(s.before)-1]
	if err := s.change(last); err != nil {
		return s.current.version, err
	}
	s.before = s.before[:len(s.before)-1]
	away := s.current.version
	s.began(last, "policy rolled back")
	s.status.RolledBack = away
	return last.version, nil
}
