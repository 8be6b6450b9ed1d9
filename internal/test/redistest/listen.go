package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// listener returns where a server listens, given its directory: as net.Dial wants it, and as
// arguments of redis-server.
type listener func(dir string) (network, addr string, args []string, err error)

// unixSocket listens on a socket in the server's directory, and on no port.
func unixSocket(dir string) (network, addr string, args []string, err error) {
	addr = filepath.Join(dir, socketName)
	return "unix", addr, []string{"--port", "0", "--unixsocket", addr, "--unixsocketperm", "700"}, nil
}

// tcpPort listens on a free port of the loopback interface.
func tcpPort(string) (network, addr string, args []string, err error) {
	port, err := freePort()
	if err != nil {
		return "", "", nil, err
	}
	p := strconv.Itoa(port)
	return "tcp", net.JoinHostPort(loopback, p), []string{"--bind", loopback, "--port", p}, nil
}

const (
	loopback   = "127.0.0.1"
	socketName = "s"
	// maxSocketPath is below the shortest sun_path: 104 bytes on the BSDs and macOS, 108 on
	// Linux, each with its terminating zero.
	maxSocketPath = 100
	// busOffset is the distance from a cluster node's port to its bus port.
	busOffset = 10_000
)

// tempDir makes a directory whose path is short enough for a socket: in the system's
// directory for temporary files, or in /tmp if that path is too long.
func tempDir() (string, error) {
	dir, err := os.MkdirTemp("", "redis")
	if err != nil || len(filepath.Join(dir, socketName)) <= maxSocketPath {
		return dir, err
	}
	_ = os.Remove(dir)
	return os.MkdirTemp("/tmp", "redis")
}

// taken holds the ports that freePort has returned, and those of their buses. A server that was killed
// comes back to its own port, and servers that start at the same time must not choose the same.
var taken sync.Map

// take takes a port for this process, for as long as it lives, and reports whether nobody else has it. On
// Linux other processes hear of that, by the name of a socket: a server that is dead for a while listens nowhere.
func take(port int) bool {
	if _, again := taken.LoadOrStore(port, true); again {
		return false
	}
	if runtime.GOOS != "linux" {
		return true
	}
	l, err := net.Listen("unix", "@redistest-port-"+strconv.Itoa(port))
	if err == nil {
		taken.Store(port, l) // never closed
	}
	return !errors.Is(err, syscall.EADDRINUSE)
}

// freePort returns a port p such that p and its bus port are free now. Both are below 32768,
// where the range for outgoing connections begins: one of those could take a port before
// Redis does.
func freePort() (int, error) {
	const lowest, highest = 12_000, 32_767 - busOffset
	var errs []error
	for range 20 {
		p := lowest + rand.IntN(highest-lowest+1)
		if err := errors.Join(tryListen(p), tryListen(p+busOffset)); err != nil {
			errs = append(errs, err)
			continue
		}
		if !take(p) || !take(p+busOffset) {
			errs = append(errs, fmt.Errorf("port %d or %d is taken by a test", p, p+busOffset))
			continue
		}
		return p, nil
	}
	return 0, fmt.Errorf("no free port: %w", errors.Join(errs...))
}

func tryListen(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
