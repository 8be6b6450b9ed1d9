package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// apply sets the memory at which the garbage collector works harder, and returns it, 0 for none. The
// number of threads needs nothing of the kind: the runtime follows the container's CPU quota itself.
func (m memoryLimit) apply() int64 {
	if os.Getenv("GOMEMLIMIT") != "" { // the operator's own wins
		return debug.SetMemoryLimit(-1)
	}
	limit := m.bytes
	if m.auto {
		// A tenth is left for what the collector does not count: the kernel kills at the limit itself.
		limit = cgroupMemory("/sys/fs/cgroup", "/proc/self/cgroup") / 10 * 9
	}
	if limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	return limit
}

// cgroupMemory returns the least memory limit of the process's control group and those above it, or 0.
// It knows versions 1 and 2.
func cgroupMemory(root, self string) int64 {
	least := int64(0)
	note := func(file string) {
		text, err := os.ReadFile(file) //nolint:gosec // of the kernel
		if err != nil {
			return
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 && n < 1<<50 && (least == 0 || n < least) { // version 1 has a huge number for none
			least = n
		}
	}
	for _, version := range []struct{ line, file string }{{"0::", "memory.max"}, {":memory:", "memory/memory.limit_in_bytes"}} {
		folder, file := path.Split(version.file)
		for dir := ownGroup(self, version.line); ; dir = path.Dir(dir) {
			note(filepath.Join(root, folder, dir, file))
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// ownGroup returns the path of the process's group: what stands behind a mark in the list of groups.
func ownGroup(self, mark string) string {
	f, err := os.Open(self) //nolint:gosec // of the kernel
	if err != nil {
		return "/"
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if _, dir, ok := strings.Cut(lines.Text(), mark); ok {
			return path.Clean("/" + dir)
		}
	}
	return "/"
}

// memoryLimit is the text of the setting memory-limit.
type memoryLimit struct {
	auto  bool
	bytes int64 // 0 for none
}

// Set implements settings.Value.
func (m *memoryLimit) Set(text string) error {
	*m = memoryLimit{}
	switch text {
	case "auto":
		m.auto = true
		return nil
	case "off":
		return nil
	}
	number, unit := text, int64(1)
	for _, u := range []struct {
		name string
		is   int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = n, u.is
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit || n*unit < 16<<20 {
		return fmt.Errorf("%q must be auto, off, or a size of at least 16MiB, such as 512MiB", text)
	}
	m.bytes = n * unit
	return nil
}
