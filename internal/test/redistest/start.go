package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// startTimeout bounds the wait for the first PONG of a server; it takes about 20 ms on an
// idle machine.
const startTimeout = time.Minute

// commandLine returns the arguments of a process, given its directory and the arguments
// that say where it listens.
type commandLine func(dir string, listenArgs []string) ([]string, error)

// dataServer is the command line of a redis-server that keeps nothing on disk. args win over
// the defaults.
func dataServer(args []string) commandLine {
	return func(dir string, listenArgs []string) ([]string, error) {
		defaults := []string{"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", dir}
		return slices.Concat(defaults, listenArgs, args), nil
	}
}

// start starts a server where listen says, and returns once it answers.
func start(listen listener, args []string) (*Server, error) {
	return startProcess(listen, dataServer(args))
}

func startProcess(listen listener, line commandLine) (*Server, error) {
	var err error
	// Another process can take a port between choosing and binding it: then choose again.
	for range 3 {
		var s *Server
		if s, err = startOnce(listen, line); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// startSeveral starts n processes of one kind at once, and returns those that run.
func startSeveral(n int, line commandLine) (servers []*Server, err error) {
	all, errs := make([]*Server, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { all[i], errs[i] = startProcess(tcpPort, line) })
	}
	wg.Wait()
	for _, s := range all {
		if s != nil {
			servers = append(servers, s)
		}
	}
	return servers, errors.Join(errs...)
}

func startOnce(listen listener, line commandLine) (*Server, error) {
	dir, err := tempDir()
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	network, addr, listenArgs, err := listen(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("redistest: %w", err)
	}
	args, err := line(dir, listenArgs)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("redistest: %w", err)
	}
	s := &Server{network: network, addr: addr, dir: dir, args: args}
	remember(s)
	if err := s.run(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// run starts the process and waits until it answers. s.mu is held, or s not shared yet.
func (s *Server) run() error {
	if err := s.spawn(); err != nil {
		return err
	}
	return s.awaitPong()
}

// awaitPong asks PING until the server answers, exits or takes too long. s.mu is held, or s
// not shared yet.
func (s *Server) awaitPong() error {
	return s.awaitAnswer(func(answer string) bool {
		// A server that asks for a password is up, too.
		return strings.HasPrefix(answer, "+PONG") || strings.HasPrefix(answer, "-NOAUTH")
	})
}

// awaitAnswer asks PING until the answer is wanted; see awaitPong.
func (s *Server) awaitAnswer(wanted func(answer string) bool) error {
	deadline := time.Now().Add(startTimeout)
	for {
		answer, err := s.ping()
		if err == nil && wanted(answer) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("PING answered %q", answer)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redistest: waited %v for %s: %w\n%s", startTimeout, s.addr, err, s.logTail())
		}
		select {
		case <-s.done:
			return fmt.Errorf("redistest: %s %q exited at start-up\n%s", Program(), s.args, s.logTail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// errOther says that another process answers at the address: the new one found the port
// taken and is about to exit.
var errOther = errors.New("another process answers there")

// ping makes one attempt, on a connection of its own, since a client's pool backs off after
// the first refusals.
func (s *Server) ping() (answer string, err error) {
	conn, err := net.DialTimeout(s.network, s.addr, time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("PING\r\nINFO server\r\n")); err != nil {
		return "", err
	}
	replies := bufio.NewReader(conn)
	if answer, err = replies.ReadString('\n'); err != nil {
		return "", err
	}
	length, err := replies.ReadString('\n')
	if err != nil {
		return "", err
	}
	size, isBulk := strings.CutPrefix(strings.TrimSpace(length), "$")
	if !isBulk {
		return answer, nil // NOAUTH: INFO is not permitted
	}
	n, err := strconv.Atoi(size)
	if err != nil {
		return "", fmt.Errorf("INFO answered %q", length)
	}
	info := make([]byte, n)
	if _, err := io.ReadFull(replies, info); err != nil {
		return "", err
	}
	if !strings.Contains(string(info), fmt.Sprintf("\r\nprocess_id:%d\r\n", s.cmd.Process.Pid)) {
		return "", errOther
	}
	return answer, nil
}
