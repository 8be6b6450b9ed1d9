package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// A page, or somebody in its place, may answer anything. The terminal shows text, the process keeps its
// memory, and the operator hears that something is wrong.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	const evil = `\u001b]0;pwned\u0007\u202e\r\n\u001b[2J`
	for name, c := range map[string]struct {
		status  int
		kind    string
		body    string
		code    int
		message string
	}{
		"escapes in all texts": {200, "application/json", `{"at":"2026-01-02T03:04:05Z","partial":"` + evil + `","limits":[{"name":"` + evil + `","numbers":"` + evil + `"}],
			"denied":[{"key":"` + evil + `","label":"` + evil + `","limit":"` + evil + `","denial":{"why":"` + evil + `"}}],"near":[{"key":"` + evil + `","used":1e300}],
			"store":{"state":"` + evil + `","outage":{"class":"` + evil + `"}}}`, exitOK, ""},
		"an error with escapes": {500, "application/problem+json", `{"detail":"` + evil + `"}`, exitError, `\x1b]0;pwned`},
		"too much":              {200, "application/json", `"` + strings.Repeat("x", maxAnswer) + `"`, exitError, "more than 32 MB"},
		"no JSON":               {200, "application/json", "\x1b[2J", exitError, "not what weblimit expects"},
		"other types":           {200, "application/json", `{"limits":{"a":1}}`, exitError, "not what weblimit expects"},
		"an array":              {200, "application/json", `[]`, exitError, "not what weblimit expects"},
		"null":                  {200, "application/json", `null`, exitOK, ""},
		"numbers out of range":  {200, "application/json", `{"limits":[{"per_second":{"allowed":1e308,"denied":-5}}],"denied":[{"minute":{"denied":-9223372036854775808}}]}`, exitOK, ""},
		"another site":          {200, "text/html", "<html>", exitError, "not come from a page of weblimit"},
		"nothing":               {404, "text/plain", "", exitError, "404"},
		"no password wanted":    {401, "text/plain", "", exitError, "--user"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		for _, args := range [][]string{{"top", "--timeout", "1m"}, {"top", "--timeout", "1m", "--json"}} {
			r := call{env: map[string]string{"WEBLIMIT_URL": server.URL}, tty: false}.run(t, args...)
			if len(args) == 3 && r.code != c.code {
				t.Errorf("%s: exit code %d, want %d: %s", name, r.code, c.code, r.err)
			}
			if len(args) == 3 {
				wants(t, r.err, c.message)
			}
			if i := strings.IndexFunc(r.out+r.err, func(r rune) bool { return r != '\n' && r < ' ' || r == 0x7f || r == '\u202e' }); i >= 0 {
				t.Errorf("%s: %s writes %q", name, args, (r.out + r.err)[i:min(i+40, len(r.out+r.err))])
			}
		}
		server.Close()
	}
}

// The password goes to the address that the operator has named, and nowhere else.
func TestPasswordsGoNowhereElse(t *testing.T) {
	t.Parallel()
	var asked, with atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			with.Add(1)
		}
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL+"/\u202e")
			w.WriteHeader(status)
		}))
		c := call{env: map[string]string{"WEBLIMIT_URL": page.URL, "WEBLIMIT_USER": "ops", "WEBLIMIT_PASSWORD": password}}
		wants(t, c.fails(t, exitError, "top"), "redirects to "+elsewhere.URL+`/\u202e`, "not followed")
		wants(t, c.fails(t, exitError, "reset", "user:1"), "not followed")
		page.Close()
	}
	if asked.Load() != 0 || with.Load() != 0 {
		t.Errorf("%d redirects were followed, %d with the password", asked.Load(), with.Load())
	}
	c := call{env: map[string]string{"WEBLIMIT_USER": "ops", "WEBLIMIT_PASSWORD": password}}
	for _, host := range []string{"192.0.2.1", "app.example.com", "localhost.example.com", "foo.localhost", "127.0.0.1.example.com", "[2001:db8::1]", "0.0.0.0"} {
		wants(t, c.fails(t, exitUsage, "top", "--url", "http://"+host+"/"), "--insecure-http")
	}
	for _, host := range []string{"localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1"} {
		wants(t, c.fails(t, exitError, "top", "--url", "http://"+host+"/"), "http://"+host)
	}
}

// A password in an argument is refused, and no message repeats one.
func TestPasswordsAreNotSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{nil, []string{"--url", "https://ops:s3cret@example.com/"}, "list of processes"},
		{nil, []string{"--redis", "redis://:s3cret@example.com/"}, "list of processes"},
		{nil, []string{"--redis", "redis://:s3cret@[::1"}, "no URL"},
		{nil, []string{"--url", "https://ops:s3cret%zz@example.com/"}, "no URL"},
		{map[string]string{"WEBLIMIT_REDIS": "redis://:s3cret@127.0.0.1:1"}, nil, "connection refused"},
		{map[string]string{"WEBLIMIT_REDIS": "redis://:s3cret@127.0.0.1:1/0/1"}, nil, "--redis"},
		{map[string]string{"WEBLIMIT_REDIS": "redis://:s3cret@127.0.0.1:1?bogus=1"}, nil, "--redis"},
		{map[string]string{"WEBLIMIT_URL": "http://ops:s3cret@127.0.0.1:1/"}, nil, "http://127.0.0.1:1/"},
		{map[string]string{"WEBLIMIT_URL": "gopher://ops:s3cret@127.0.0.1:1/"}, nil, "must begin with"},
	} {
		r := call{env: c.env}.run(t, append([]string{"top"}, c.args...)...)
		if r.code == exitOK || strings.Contains(r.err+r.out, "s3cret") {
			t.Errorf("%v %v: exit code %d, %s", c.env, c.args, r.code, r.err)
		}
		wants(t, r.err, c.want)
	}
}

func TestPasswordSources(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	page := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		got.Store(user + ":" + pass)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
	}))
	defer page.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ca := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: page.Certificate().Raw})))
	file := write("password", "from file\n")
	for _, c := range []struct {
		env   map[string]string
		input string
		args  []string
		want  string
	}{
		{map[string]string{"WEBLIMIT_PASSWORD": "from env"}, "", []string{"--user", "ops"}, "ops:from env"},
		{map[string]string{"WEBLIMIT_PASSWORD": "from env", "WEBLIMIT_USER": "env"}, "", []string{"--password-file", file}, "env:from file"},
		{map[string]string{"WEBLIMIT_PASSWORD_FILE": file, "WEBLIMIT_USER": "env"}, "", nil, "env:from file"},
		{map[string]string{"WEBLIMIT_USER": "env"}, "from input\r\n", []string{"--password-file", "-"}, "env:from input"},
		{nil, "", nil, ":"},
	} {
		c.env = with(c.env, "WEBLIMIT_URL", page.URL, "WEBLIMIT_CACERT", ca)
		call{env: c.env, input: c.input}.ok(t, append([]string{"top"}, c.args...)...)
		if got.Load() != c.want {
			t.Errorf("%v %v: sent %q, want %q", c.env, c.args, got.Load(), c.want)
		}
	}
	url := with(nil, "WEBLIMIT_URL", page.URL)
	wants(t, call{env: url}.fails(t, exitError, "top"), "certificate")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--user", "ops"}, "no password"},
		{[]string{"--password-file", file}, "no user"},
		{[]string{"--user", "ops", "--password-file", write("empty", "\n")}, "one line"},
		{[]string{"--user", "ops", "--password-file", write("two", "a\nb\n")}, "one line"},
		{[]string{"--user", "ops", "--password-file", write("large", strings.Repeat("x", 5000))}, "one line"},
		{[]string{"--user", "ops", "--password-file", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"--cacert", file}, "no certificate"},
		{[]string{"--cert", file}, "belong together"},
		{[]string{"--cert", file, "--key", file}, "--cert"},
	} {
		r := call{env: url}.run(t, append([]string{"top"}, c.args...)...)
		if r.code == exitOK {
			t.Errorf("%v is accepted", c.args)
		}
		wants(t, r.err, c.want)
	}
}

// with returns an environment with further variables.
func with(env map[string]string, pairs ...string) map[string]string {
	all := make(map[string]string)
	for name, value := range env {
		all[name] = value
	}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}
