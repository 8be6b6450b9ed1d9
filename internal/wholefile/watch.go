package wholefile

import (
	"context"
	"os"
	"slices"
	"time"
)

// Poll is how often [Watch] looks.
const Poll = time.Second

// Watch calls changed when files may have changed, and once at first, until ctx ends. It looks once a
// second, which works on every file system, where files are replaced by others, and behind links that are
// swapped, as in a ConfigMap of Kubernetes. It calls changed only if a look finds the files as the look
// before it has: what differs from one to the next is being written. names returns the names of the
// files; an error stands for there being none.
func Watch(ctx context.Context, names func() ([]string, error), changed func()) {
	ticker := time.NewTicker(Poll)
	defer ticker.Stop()
	before := look(names)
	var told []state // nil if changed was not called yet
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := look(names)
		switch {
		case !slices.EqualFunc(now, before, state.equal):
		case told == nil, !slices.EqualFunc(now, told, state.equal), slices.ContainsFunc(now, state.young):
			told = now
			changed()
		}
		before = now
	}
}

// state is what shows that a file has changed.
type state struct {
	name string      // or the error instead
	info os.FileInfo // nil if there is none
}

func (s state) equal(other state) bool { return s.name == other.name && same(s.info, other.info) }

// young reports whether the file has changed just now. Two changes within one tick of the file system's
// clock look like one, so it is read again.
func (s state) young() bool { return s.info != nil && time.Since(s.info.ModTime()) < 4*Poll }

func look(names func() ([]string, error)) []state {
	all, err := names()
	if err != nil {
		return []state{{name: err.Error()}}
	}
	states := make([]state, len(all), len(all)+1) // not nil
	for i, name := range all {
		states[i].name = name
		if info, err := os.Stat(name); err == nil {
			states[i].info = info
		}
	}
	return states
}
