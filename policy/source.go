package policy

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
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
const FilePoll = time.Second

// fileSource is a file of the operating system.
type fileSource struct{ name string }

func (s fileSource) Load(context.Context) (File, error) {
	file, err := os.Open(s.name)
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

// Watch looks at the file once a second. That works everywhere: where the file is replaced by
// another, as editors do, where it is behind a link that is swapped, as in a ConfigMap of Kubernetes,
// and on network file systems, none of which notifications of the system do.
func (s fileSource) Watch(ctx context.Context, changed func()) {
	ticker := time.NewTicker(FilePoll)
	defer ticker.Stop()
	before, _ := os.Stat(s.name)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := os.Stat(s.name)
		if err != nil {
			if before != nil {
				changed() // Load says what is wrong
			}
			before = nil
			continue
		}
		// Two changes within one tick of the file system's clock look like one, so a young file is
		// read again.
		young := time.Since(now.ModTime()) < 3*FilePoll
		if before == nil || young || !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime()) || before.Size() != now.Size() {
			changed()
		}
		before = now
	}
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
