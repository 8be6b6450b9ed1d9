package pgtest

import (
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// running holds the servers that run, so that Main can stop those that their test did not.
var running = struct {
	sync.Mutex
	servers map[*Server]struct{} // Guarded by Mutex.
}{servers: map[*Server]struct{}{}}

// templates is the directory of the template, a string, once there is one.
var templates atomic.Value

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

// StopAll stops the servers that still run, and removes what they have in common.
func StopAll() {
	running.Lock()
	servers := slices.Collect(maps.Keys(running.servers))
	running.Unlock() // Stop takes it again
	for _, s := range servers {
		s.Stop()
	}
	if dir, ok := templates.Load().(string); ok {
		_ = os.RemoveAll(dir)
	}
}
