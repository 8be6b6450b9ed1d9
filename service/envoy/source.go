package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
// looks for changes once a second.
func Directory(name string) Source { return directory(name) }

// maxFiles bounds how many files a directory has.
const maxFiles = 10_000

type directory string

func (d directory) Load(context.Context) ([]policy.File, error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	files := make([]policy.File, 0, len(names))
	for _, name := range names {
		text, err := readBounded(name)
		if err != nil {
			return nil, fmt.Errorf("weblimit: envoy: %w", err)
		}
		files = append(files, policy.File{Name: name, Text: text})
	}
	return files, nil
}

// names returns the names of the files, in order.
func (d directory) names() (names []string, err error) {
	// A walk follows no links, and the directory itself may be one that is swapped. Names stay those
	// below the link, since they are part of the version.
	root, err := filepath.EvalSymlinks(string(d))
	if err != nil {
		return nil, fmt.Errorf("weblimit: envoy: %w", err)
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
		return nil, fmt.Errorf("weblimit: envoy: %w", err)
	}
	if info, err := os.Stat(string(d)); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("weblimit: envoy: %s is no directory", string(d))
	}
	return names, nil
}

func readBounded(name string) ([]byte, error) {
	// A pipe would never end, and hold up every change.
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := os.Open(name) //nolint:gosec // G304: in the directory that the operator names
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxBytes+1)) // what is longer is refused
}

// Watch looks at the files once a second, which works behind links that are swapped, on every file
// system. Files that have changed just now are read again, since two changes within one tick of the
// file system's clock look like one.
func (d directory) Watch(ctx context.Context, changed func()) {
	ticker := time.NewTicker(policy.FilePoll)
	defer ticker.Stop()
	before, _ := d.state()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, young := d.state()
		if young || !slices.EqualFunc(now, before, fileState.equal) {
			changed()
		}
		before = now
	}
}

// fileState is what shows that a file has changed.
type fileState struct {
	name string
	info os.FileInfo // nil if there is none
}

func (s fileState) equal(other fileState) bool {
	if s.name != other.name || s.info == nil || other.info == nil {
		return s.name == other.name && s.info == nil && other.info == nil
	}
	return os.SameFile(s.info, other.info) && s.info.ModTime().Equal(other.info.ModTime()) && s.info.Size() == other.info.Size()
}

// state returns the state of the files, and whether one of them has changed just now.
func (d directory) state() (all []fileState, young bool) {
	names, err := d.names()
	if err != nil {
		return []fileState{{name: err.Error()}}, false
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			info = nil
		}
		young = young || info != nil && time.Since(info.ModTime()) < 3*policy.FilePoll
		all = append(all, fileState{name, info})
	}
	return all, young
}

// Files returns the source of files in memory, which don't change, for tests and programs that carry
// their limits with them.
func Files(files ...policy.File) Source { return memory(slices.Clone(files)) }

type memory []policy.File

func (m memory) Load(context.Context) ([]policy.File, error) { return m, nil }

func (m memory) Watch(ctx context.Context, _ func()) { <-ctx.Done() }

var errNoFiles = errors.New("weblimit: envoy: there are no files")
