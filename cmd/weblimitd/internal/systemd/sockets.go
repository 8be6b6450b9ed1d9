// Package systemd speaks the two small protocols of a service manager: sockets that it passes, and
// messages to it. See sd_listen_fds(3) and sd_notify(3).
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// firstFD is the number of the first file that is passed.
const firstFD = 3

// maxFDs bounds LISTEN_FDS.
const maxFDs = 64

// Sockets are those that the service manager has passed.
type Sockets struct {
	mu    sync.Mutex
	files map[string][]*os.File // by name, in order. Guarded by mu.
}

// Passed returns the sockets that were passed to this process. It removes the variables, so that no
// child takes them for its own.
func Passed() (*Sockets, error) {
	s := &Sockets{files: map[string][]*os.File{}}
	pid, number, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, variable := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(variable)
	}
	if number == "" || pid != strconv.Itoa(os.Getpid()) {
		return s, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > maxFDs {
		return nil, fmt.Errorf("LISTEN_FDS is %q: expected a number up to %d", number, maxFDs)
	}
	called := strings.Split(names, ":")
	for i := range n {
		name := "unknown" // as sd_listen_fds_with_names(3) has it
		if names != "" && i < len(called) && called[i] != "" {
			name = called[i]
		}
		fd := firstFD + i
		closeOnExec(fd)
		s.files[name] = append(s.files[name], os.NewFile(uintptr(fd), name))
	}
	return s, nil
}

// Take returns the listener of a name.
func (s *Sockets) Take(name string) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := s.files[name]
	switch len(files) {
	case 0:
		if len(s.files) == 0 {
			return nil, fmt.Errorf("systemd has passed no socket: is it started by a socket unit with FileDescriptorName=%s?", name)
		}
		return nil, fmt.Errorf("systemd has passed no socket %q, but %s", name, s.names())
	case 1:
	default:
		return nil, fmt.Errorf("systemd has passed %d sockets %q: give each a FileDescriptorName= of its own", len(files), name)
	}
	delete(s.files, name)
	l, err := net.FileListener(files[0])
	_ = files[0].Close() // l has a copy
	if err != nil {
		return nil, fmt.Errorf("the socket %q of systemd does not listen for streams: %w", name, err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // it belongs to systemd
	}
	return l, nil
}

// Unused returns an error if a socket was not taken: its callers would wait for ever.
func (s *Sockets) Unused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) == 0 {
		return nil
	}
	return errors.New("systemd has passed sockets that no listener uses: " + s.names())
}

func (s *Sockets) names() string {
	var names []string
	for name := range s.files {
		names = append(names, strconv.Quote(name))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
