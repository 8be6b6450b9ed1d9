package redistest

import (
	"maps"
	"slices"
	"sync"
)

// running holds the servers that run, so that Main can stop those that their test did not.
var running = struct {
	sync.Mutex
	servers map[*Server]struct{} // Guarded by Mutex.
}{servers: map[*Server]struct{}{}}

func remember(s *Server) {
	running.Lock()
	defer running.Unlock()
	running.servers[s] = struct{}{}
}

func forget(s *Server) {
	running.Lock()
	defer running.Unlock()
	delete(running.servers, s)
}

// StopAll stops the servers that still run, and removes their directories.
func StopAll() {
	running.Lock()
	servers := slices.Collect(maps.Keys(running.servers))
	running.Unlock() // Stop takes it again
	for _, s := range servers {
		s.Stop()
	}
}
