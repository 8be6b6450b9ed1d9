// Package lent lends servers to the processes of one test run. `make test` serves; a test process asks for
// what it needs, and the first who asks has it started. The server ends with the run. A test process
// that nobody lends anything to, as in a plain go test, starts a server of its own.
package lent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Variable is the environment variable with the path of the socket. Without it, nothing is lent. It does not
// begin with WEBLIMIT_, since weblimitd refuses variables of that kind that it does not know.
const Variable = "LENT_SERVERS"

// answer is what is sent for a name.
type answer struct {
	Server json.RawMessage // how to reach it, as its package says
	Error  string
}

// Servers are the servers that can be lent, by name. Each function starts one, and returns how to reach it, which
// is encoded as JSON.
type Servers map[string]func() (any, error)

// Serve lends servers to this process's children until stop is called. It starts each at most once.
func Serve(all ...Servers) (stop func(), err error) {
	dir, err := os.MkdirTemp("/tmp", "lent")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	once := make(map[string]func() answer)
	for _, servers := range all {
		for name, start := range servers {
			once[name] = sync.OnceValue(func() answer { return started(start) })
		}
	}
	if err := os.Setenv(Variable, path); err != nil {
		return nil, errors.Join(err, listener.Close(), os.RemoveAll(dir))
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go lend(c, once)
		}
	}()
	return func() {
		_ = os.Unsetenv(Variable)
		_ = listener.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

func started(start func() (any, error)) answer {
	server, err := start()
	if err != nil {
		return answer{Error: err.Error()}
	}
	text, err := json.Marshal(server)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Server: text}
}

// lend answers the one question of a connection.
func lend(c net.Conn, once map[string]func() answer) {
	defer func() { _ = c.Close() }()
	name, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return
	}
	name = strings.TrimSpace(name)
	a := answer{Error: fmt.Sprintf("no server is called %q", name)}
	if start := once[name]; start != nil {
		a = start()
	}
	_ = json.NewEncoder(c).Encode(a)
}

// Ask reads how to reach a server into a value of the type that was sent. It reports false if nobody lends
// servers to this process.
func Ask(name string, into any) (lent bool, err error) {
	path := os.Getenv(Variable)
	if path == "" {
		return false, nil
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		return true, fmt.Errorf("lent: %w", err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintln(c, name); err != nil {
		return true, fmt.Errorf("lent: %w", err)
	}
	var a answer
	if err := json.NewDecoder(c).Decode(&a); err != nil {
		return true, fmt.Errorf("lent: %w", err)
	}
	if a.Error != "" {
		return true, fmt.Errorf("lent: %s: %s", name, a.Error)
	}
	return true, json.Unmarshal(a.Server, into)
}
