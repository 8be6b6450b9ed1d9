package policy

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/weblimit/weblimit/internal/wholefile"
)

// begin returns the document to begin with: that of the source, or if there is none that can be used,
// the one that was kept.
func (s *Set) begin(ctx context.Context) (string, *document, error) {
	file, err := s.source.Load(ctx)
	if err == nil {
		var d *document
		if d, err = compile(ctx, file.Name, file.Text, &s.options); err == nil {
			s.current = d
			s.keep()
			return file.Name, d, nil
		}
	}
	if s.options.Keep == "" {
		return "", nil, err
	}
	kept, failed := fileSource{s.options.Keep}.Load(ctx)
	if failed != nil {
		return "", nil, err // there is none yet
	}
	d, failed := compile(ctx, kept.Name, kept.Text, &s.options)
	if failed != nil {
		return "", nil, fmt.Errorf("%w\nthe version that was kept can't be used either: %s", err, unprefixed(failed))
	}
	s.status.Refused, s.refused = 1, hashOf(file.Text) // which Watch need not try again
	s.fails(err)
	s.options.logger().LogAttrs(ctx, slog.LevelError, "weblimit: policy refused at start, the version that was kept decides",
		slog.String("file", kept.Name), slog.String("version", d.version.String()), slog.String("error", err.Error()))
	return kept.Name, d, nil
}

// keep writes the file that decides to Options.Keep. A reader sees the old file or the new one, whole.
func (s *Set) keep() {
	if s.options.Keep == "" {
		return
	}
	// Not mu: a disk can be slow. The text is read with keeping held, so that the one that decides is written last,
	// whichever of several changes comes here first.
	s.keeping.Lock()
	defer s.keeping.Unlock()
	s.mu.Lock()
	text := s.current.text
	s.mu.Unlock()
	if err := wholefile.Replace(s.options.Keep, text); err != nil {
		s.options.logger().LogAttrs(context.Background(), slog.LevelWarn, "weblimit: the policy can't be kept for the next start", slog.String("error", err.Error()))
	}
}

// isFile reports whether a name is that of a file, or another one of it.
func isFile(name, of string) bool {
	if name == "" || of == "" {
		return false
	}
	if filepath.Clean(name) == filepath.Clean(of) {
		return true
	}
	a, failed := os.Stat(name)
	b, err := os.Stat(of)
	return failed == nil && err == nil && os.SameFile(a, b)
}
