// Package wholefile reads files that others write, and tells when they change. A file is read only if it
// is a regular one, within a bound, and not while it is being written.
package wholefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// settle is between two reads of a file that was written just now, which must be equal.
	settle = 200 * time.Millisecond

	// young is up to which age a file is read twice. The age is by two clocks, that of the file system
	// and that of the process, so it is more than a write takes.
	young = 10 * time.Second

	// patience bounds a read. A network file system can hang for ever.
	patience = 10 * time.Second
)

// ErrChanging says that a file was being written all the time.
var ErrChanging = errors.New("the file is being written; replace it as a whole, by renaming another")

// Read returns the content of a regular file of at most most bytes. It reads a file that was written
// just now until two reads in a row are equal. A file that says it is empty is not read at all: those of
// /proc say so, and reading some of them never ends. Read returns when ctx ends, and after ten seconds.
func Read(ctx context.Context, name string, most int64) ([]byte, error) {
	all, err := ReadAll(ctx, func() ([]string, error) { return []string{name}, nil }, most, most)
	if err != nil {
		return nil, err
	}
	return all[0].Text, nil
}

// reading is what one read of a file has found.
type reading struct {
	name string
	text []byte
	info os.FileInfo
	torn bool // the file changed while it was read
}

func (r reading) equal(other reading) bool {
	return !r.torn && !other.torn && r.name == other.name && same(r.info, other.info) && bytes.Equal(r.text, other.text)
}

// is reports whether a file is as it was read.
func (r reading) is(now state) bool { return r.name == now.name && same(r.info, now.info) }

// hanging has reads that nobody waits for any more, by the name of the file, so that a file that hangs
// takes one goroutine, and not another with each attempt.
var hanging struct {
	sync.Mutex
	done map[string]chan struct{} // Guarded by Mutex.
}

// readOnce reads a file once, for as long as ctx allows.
func readOnce(ctx context.Context, name string, most int64) (reading, error) {
	return inTime(ctx, name, func() (reading, error) { return read(name, most) })
}

func inTime(ctx context.Context, name string, read func() (reading, error)) (reading, error) {
	hanging.Lock()
	before := hanging.done[name]
	hanging.Unlock()
	if before != nil {
		select {
		case <-ctx.Done():
			return reading{}, hangs(ctx, name)
		case <-before:
		}
	}
	type answer struct {
		reading
		err error
	}
	answers, done := make(chan answer, 1), make(chan struct{})
	go func() {
		r, err := read()
		answers <- answer{r, err}
		hanging.Lock()
		defer hanging.Unlock()
		if hanging.done[name] == done {
			delete(hanging.done, name)
		}
		close(done)
	}()
	select {
	case a := <-answers:
		return a.reading, a.err
	case <-ctx.Done():
	}
	hanging.Lock()
	defer hanging.Unlock()
	select {
	case <-done:
	default:
		if hanging.done == nil {
			hanging.done = make(map[string]chan struct{})
		}
		hanging.done[name] = done
	}
	return reading{}, hangs(ctx, name)
}

func hangs(ctx context.Context, name string) error {
	return fmt.Errorf("%s can't be read in time: %w", name, ctx.Err())
}

func read(name string, most int64) (r reading, err error) {
	// Without O_NONBLOCK, opening a pipe waits for its writer.
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // G304: the operator names it
	if err != nil {
		return reading{}, err
	}
	defer func() { _ = file.Close() }()
	switch r.info, err = file.Stat(); {
	case err != nil:
		return reading{}, err
	case !r.info.Mode().IsRegular():
		return reading{}, fmt.Errorf("%s is not a regular file", name)
	case r.info.Size() > most:
		return reading{}, fmt.Errorf("%s has %d bytes, the most is %d", name, r.info.Size(), most)
	case r.info.Size() == 0:
		return r, nil
	}
	if r.text, err = io.ReadAll(io.LimitReader(file, r.info.Size()+1)); err != nil {
		return reading{}, err
	}
	after, err := file.Stat()
	r.torn = err != nil || !same(r.info, after) || int64(len(r.text)) != after.Size()
	return r, nil
}

// same reports whether nothing shows that a file has changed.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// IsEnded reports whether a text shows that it is not cut off: YAML by its last line, which must be the
// mark of a document's end, "...", and JSON by its last brace, without which it is not valid.
func IsEnded(text []byte) bool {
	text = bytes.TrimSpace(text)
	if bytes.HasPrefix(text, []byte("{")) {
		return true
	}
	line := text[bytes.LastIndexByte(text, '\n')+1:]
	return string(line) == "..."
}
