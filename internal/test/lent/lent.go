// Package lent lends servers and programs to the processes of one test run. `make test` serves; a test process asks for
// what it needs, and the first who asks has it started or built. A server ends with the run. A test process
// that nobody lends anything to, as in a plain go test, starts a server and builds a program of its own.
package lent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// Servers are what can be lent, by name, which has no space. Each function starts or builds one, and returns how to reach it, which
// is encoded as JSON. It is given what was asked for behind the name and a space, "" if nothing was.
type Servers map[string]func(what string) (any, error)

// Serve lends to this process's children until stop is called. It calls a function at most once for the same question.
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
	o := offer{servers: make(Servers), once: make(map[string]func() answer)}
	for _, servers := range all {
		maps.Copy(o.servers, servers)
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
			go o.lend(c)
		}
	}()
	return func() {
		_ = os.Unsetenv(Variable)
		_ = listener.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// offer is what one process lends.
type offer struct {
	servers Servers
	mu      sync.Mutex
	once    map[string]func() answer // by question. Guarded by mu.
}

// answer answers a question, as it did before.
func (o *offer) answer(question string) answer {
	name, what, _ := strings.Cut(question, " ")
	start := o.servers[name]
	if start == nil {
		return answer{Error: fmt.Sprintf("no server is called %q", name)}
	}
	o.mu.Lock()
	once := o.once[question]
	if once == nil {
		once = sync.OnceValue(func() answer { return started(start, what) })
		o.once[question] = once
	}
	o.mu.Unlock()
	return once()
}

func started(start func(string) (any, error), what string) answer {
	server, err := start(what)
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
func (o *offer) lend(c net.Conn) {
	defer func() { _ = c.Close() }()
	question, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return
	}
	_ = json.NewEncoder(c).Encode(o.answer(strings.TrimSpace(question)))
}

// Ask reads the answer to a question, such as a server's name, into a value of the type that was sent. It reports false if
// nobody lends anything to this process.
func Ask(question string, into any) (lent bool, err error) {
	path := os.Getenv(Variable)
	if path == "" {
		return false, nil
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		return true, fmt.Errorf("lent: %w", err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintln(c, question); err != nil {
		return true, fmt.Errorf("lent: %w", err)
	}
	var a answer
	if err := json.NewDecoder(c).Decode(&a); err != nil {
		return true, fmt.Errorf("lent: %w", err)
	}
	if a.Error != "" {
		return true, fmt.Errorf("lent: %s: %s", question, a.Error)
	}
	return true, json.Unmarshal(a.Server, into)
}
