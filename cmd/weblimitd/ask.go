package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/inspect"
)

// question is what a command asks the instance here.
type question struct {
	method, path string
	may          inspect.Permission // None if it takes no password
	print        func(out io.Writer, answer []byte) error
}

var questions = map[string]question{
	"healthcheck": {http.MethodGet, "/readyz", inspect.None, nil},
	"status":      {http.MethodGet, "/status", inspect.Read, printAll},
	"reload":      {http.MethodPost, "/reload", inspect.Act, printPolicy},
	"rollback":    {http.MethodPost, "/rollback", inspect.Act, printPolicy},
}

// askTimeout is longer than reloadTimeout, so that the answer to a reload says what became of it.
const askTimeout = 25 * time.Second

func printAll(out io.Writer, answer []byte) error {
	_, err := out.Write(answer)
	return err
}

func printPolicy(out io.Writer, answer []byte) error {
	var s statusJSON
	if err := json.Unmarshal(answer, &s); err != nil || s.Policy == nil {
		return printAll(out, answer)
	}
	_, err := fmt.Fprintf(out, "policy %s\n", s.Policy.Version)
	return err
}

// ask asks the instance that these settings belong to, or the one at an address.
func (o *options) ask(q question, where string, out io.Writer) error {
	base, client, err := o.adminClient(where)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, q.method, base+q.path, nil)
	if err != nil {
		return err
	}
	request.Header.Set(actionHeader, "1")
	if q.may != inspect.None {
		if name, password, ok := o.credentials(q.may); ok {
			request.SetBasicAuth(name, password)
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the instance does not answer: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var problem struct{ Detail, Status any }
		_ = json.Unmarshal(answer, &problem)
		if detail, ok := problem.Detail.(string); ok {
			return errors.New(detail)
		}
		return fmt.Errorf("%s: %v", response.Status, problem.Status)
	}
	if q.print == nil {
		return nil
	}
	return q.print(out, answer)
}

// adminClient returns how to reach the admin listener of these settings, or the one at http://host:port,
// https://host:port or unix:/path. It follows no redirection: the password is for this instance alone.
func (o *options) adminClient(where string) (base string, client *http.Client, err error) {
	transport := &http.Transport{DisableKeepAlives: true}
	client = &http.Client{
		Transport: transport, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	path := o.adminListen.Path()
	if given, ok := strings.CutPrefix(where, "unix:"); ok {
		path, where = given, ""
	}
	switch {
	case strings.HasPrefix(where, "http://") || strings.HasPrefix(where, "https://"):
		base = strings.TrimRight(where, "/")
	case where != "":
		return "", nil, fmt.Errorf("%q must be http://host:port, https://host:port or unix:/path", where)
	case path != "":
		base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	default:
		host, port, err := net.SplitHostPort(o.adminListen.Text)
		if err != nil || port == "0" {
			return "", nil, fmt.Errorf("where the instance is can't be told from --admin-listen %s: name it, such as http://127.0.0.1:9181 or unix:/run/weblimitd/admin.sock", o.adminListen.Text)
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		base = "http://" + net.JoinHostPort(host, port)
	}
	if o.adminTLSCert == "" {
		return base, client, nil
	}
	base = strings.Replace(base, "http://", "https://", 1)
	pair, err := tls.LoadX509KeyPair(string(o.adminTLSCert), string(o.adminTLSKey))
	if err != nil {
		return "", nil, fmt.Errorf("--admin-tls-cert: %w", err)
	}
	transport.TLSClientConfig = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair}, // where operators need one, the instance's own may do
		// The certificate may be for any name; it is this one that the instance must have.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares it
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !state.PeerCertificates[0].Equal(pair.Leaf) {
				return errors.New("it has another certificate than --admin-tls-cert")
			}
			return nil
		},
	}
	return base, client, nil
}

// credentials returns the first user who may do this.
func (o *options) credentials(may inspect.Permission) (name, password string, ok bool) {
	lines := strings.Split(string(o.adminUsers), ",")
	if o.adminUsersFile != "" {
		if inFile, err := secure.ReadLines(string(o.adminUsersFile)); err == nil {
			for _, line := range inFile {
				lines = append(lines, line.Text)
			}
		}
	}
	for _, line := range lines {
		u, password, err := readOperator(line)
		if err == nil && u.may >= may && !strings.HasPrefix(line, "#") {
			return u.name, password, true
		}
	}
	return "", "", false
}
