package policy

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/weblimit/weblimit/internal/wholefile"
)

// Source is where a policy file comes from: a file, a key in Redis, a row of a database. Its methods
// are safe for concurrent use.
type Source interface {
	// Load returns the file. An error means that it could not be read; nothing changes then.
	Load(ctx context.Context) (File, error)

	// Watch calls changed when the file may have changed, until ctx ends; one time too many costs
	// a Load, and nothing else. It returns when ctx ends.
	Watch(ctx context.Context, changed func())
}

// File is a policy file.
type File struct {
	Name string // for messages, such as "limits.yaml"
	Text []byte
}

// FilePoll is how often a [Source] of [Load] looks whether its file has changed.
const FilePoll = wholefile.Poll

// fileSource is a file of the operating system.
type fileSource struct{ name string }

func (s fileSource) Load(ctx context.Context) (File, error) {
	text, err := wholefile.Read(ctx, s.name, maxBytes)
	if err != nil {
		return File{}, fmt.Errorf("weblimit: policy: %w", err)
	}
	return File{s.name, text}, nil
}

// Watch takes a change once the file has been the same for a second: before, it may be half-written.
func (s fileSource) Watch(ctx context.Context, changed func()) {
	wholefile.Watch(ctx, func() ([]string, error) { return []string{s.name}, nil }, changed)
}

// fsSource is a file of an fs.FS, such as an embed.FS. It does not change.
type fsSource struct {
	fs   fs.FS
	name string
}

func (s fsSource) Load(context.Context) (File, error) {
	file, err := s.fs.Open(s.name)
	if err != nil {
		return File{}, fmt.Errorf("weblimit: policy: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := readBounded(file)
	if err != nil {
		return File{}, fmt.Errorf("weblimit: policy: %s: %w", s.name, err)
	}
	return File{s.name, text}, nil
}

func (fsSource) Watch(ctx context.Context, _ func()) { <-ctx.Done() }

// textSource is a file in memory. It does not change.
type textSource File

func (s textSource) Load(context.Context) (File, error) { return File(s), nil }

func (textSource) Watch(ctx context.Context, _ func()) { <-ctx.Done() }

// readBounded reads a file. One that is too large is cut off behind the bound, so that it is refused.
func readBounded(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, maxBytes+1)) }
