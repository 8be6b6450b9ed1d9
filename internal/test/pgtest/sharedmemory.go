package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// freeMemory removes the few bytes of System V shared memory by which another server on the same data would find out that
// processes of this one still run. A killed server leaves them, the kernel has room for some 4,000 of such segments, and
// without the data nobody removes them. s.mu is held.
func (s *Server) freeMemory() {
	if id := s.memoryID(); id != "" {
		_ = exec.Command("ipcrm", "-m", id).Run() // a system without it goes on as before
	}
}

// memoryID returns the segment's id, the second number of line 7 of the server's lock file, or "" if there is none.
func (s *Server) memoryID() string {
	b, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		return ""
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 7 {
		return ""
	}
	numbers := strings.Fields(lines[6])
	if len(numbers) != 2 {
		return ""
	}
	return numbers[1]
}
