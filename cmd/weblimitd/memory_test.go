package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// The least limit of the process's control group and those above it counts.
func TestMemoryOfTheControlGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		groups string
		files  map[string]string
		want   int64
	}{
		"none":                      {"0::/", nil, 0},
		"version 2, in a container": {"0::/", map[string]string{"memory.max": "1000000000\n"}, 1_000_000_000},
		"version 2, no limit":       {"0::/a", map[string]string{"a/memory.max": "max\n"}, 0},
		"version 2, above":          {"0::/a/b", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "500000000\n", "memory.max": "max"}, 500_000_000},
		"version 2, the least":      {"0::/a/b", map[string]string{"a/b/memory.max": "400000000\n", "a/memory.max": "500000000\n"}, 400_000_000},
		"version 1":                 {"4:memory:/x\n0::/", map[string]string{"memory/x/memory.limit_in_bytes": "300000000\n"}, 300_000_000},
		"version 1, in a container": {"4:memory:/docker/abc", map[string]string{"memory/memory.limit_in_bytes": "200000000\n"}, 200_000_000},
		"version 1, no limit":       {"4:memory:/x", map[string]string{"memory/x/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"out of the folder":         {"0::/../../etc", map[string]string{"memory.max": "100000000"}, 100_000_000},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700))
			must.OK(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
		}
		self := filepath.Join(root, "self")
		must.OK(t, os.WriteFile(self, []byte(c.groups), 0o600))
		check.Equal(t, name, cgroupMemory(root, self), c.want)
	}
}
