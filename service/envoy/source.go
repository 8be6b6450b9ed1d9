package envoy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/internal/wholefile"
	"github.com/weblimit/weblimit/policy"
)

// Source is where files come from. Its methods are safe for concurrent use.
type Source interface {
	// Load returns all files. An error means that they could not be read; nothing changes then.
	Load(ctx context.Context) ([]policy.File, error)

	// Watch calls changed when files may have changed, until ctx ends; one time too many costs a
	// Load, and nothing else. It returns when ctx ends.
	Watch(ctx context.Context, changed func())
}

// Acknowledger is a [Source] that hears what became of its files, such as one that answers to a control plane. What wraps
// one has to embed it, and not a Source.
type Acknowledger interface {
	Source

	// Acknowledge is called after each Load that returned files, before the next one. err is nil if
	// they decide, or is what is wrong with them: then what decided before still does.
	Acknowledge(err error)
}

// From returns the source of a single file, or of one in Redis or PostgreSQL: see [policy.Source].
func From(source policy.Source) Source { return single{source} }

type single struct{ policy.Source }

func (s single) Load(ctx context.Context) ([]policy.File, error) {
	file, err := s.Source.Load(ctx)
	if err != nil {
		return nil, err
	}
	return []policy.File{file}, nil
}

// Directory returns the source of all files of a directory whose names end in .yaml, .yml or .json, also
// below it. Names that begin with a dot are left out, as those that Kubernetes makes for a ConfigMap. It
// looks for changes once a second, and takes one once two looks find the same: before, a file may be
// half-written. Only regular files are read, all as they are at one moment.
func Directory(name string) Source { return directory(name) }

// Bounds of a directory.
const (
	maxFiles = 10_000
	maxAll   = 64 << 20 // bytes of all files
)

type directory string

func (d directory) Load(ctx context.Context) ([]policy.File, error) {
	read, err := wholefile.ReadAll(ctx, d.names, maxBytes, maxAll)
	if err != nil {
		return nil, fmt.Errorf("weblimit: envoy: %w", err)
	}
	files := make([]policy.File, len(read))
	for i, file := range read {
		files[i] = policy.File(file)
	}
	return files, nil
}

func (d directory) Watch(ctx context.Context, changed func()) { wholefile.Watch(ctx, d.names, changed) }

// names returns the names of the files, in order.
func (d directory) names() (names []string, err error) {
	// A walk follows no links, and the directory itself may be one that is swapped. Names stay those
	// below the link, since they are part of the version.
	root, err := filepath.EvalSymlinks(string(d))
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == root:
			return nil
		case strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			return nil
		case len(names) >= maxFiles:
			return fmt.Errorf("%s has more than %d files", string(d), maxFiles)
		}
		names = append(names, filepath.Join(string(d), strings.TrimPrefix(name, root)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(string(d)); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory", string(d))
	}
	return names, nil
}

// Files returns the source of files in memory, which don't change, for tests and programs that carry
// their limits with them.
func Files(files ...policy.File) Source { return memory(slices.Clone(files)) }

type memory []policy.File

func (m memory) Load(context.Context) ([]policy.File, error) { return m, nil }

func (m memory) Watch(ctx context.Context, _ func()) { <-ctx.Done() }

var errNoFiles = errors.New("weblimit: envoy: there are no files")
