package policy

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
	s.status.Refused, s.refused = 1, hashOf(file.Text)
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
	s.keeping.Lock() // not mu: a disk can be slow
	defer s.keeping.Unlock()
	s.mu.Lock()
	text := s.current.text
	s.mu.Unlock()
	if err := replaceFile(s.options.Keep, text); err != nil {
		s.options.logger().LogAttrs(context.Background(), slog.LevelWarn, "weblimit: the policy can't be kept for the next start", slog.String("error", err.Error()))
	}
}

func replaceFile(name string, text []byte) (err error) {
	next, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*") // nobody else can read it
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next.Name())
		}
	}()
	if _, err = next.Write(text); err == nil {
		err = next.Sync()
	}
	if closed := next.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", next.Name(), err)
	}
	return os.Rename(next.Name(), name)
}
