package main_test

import (
	"encoding/base64"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

const (
	act  = "ops:0123456789abcdef:act"
	read = "viewer:fedcba9876543210:read"
)

// decides waits until a version of the policy decides.
func (in *instance) decides(t *testing.T, version string) {
	t.Helper()
	wait.Until(t, "version "+version+" decides", func() bool {
		_, status := in.get(t, "/status")
		return strings.Contains(status, `"version": "`+version+`#`)
	})
}

// The policy changes by SIGHUP, by its file alone and by the admin listener; a wrong one changes nothing.
func TestPolicyReload(t *testing.T) {
	t.Parallel()
	in := start(t, nil)
	in.decides(t, "1")
	rewrite(t, in.policy, onePolicy("2", 6))
	in.signal(t, syscall.SIGHUP)
	in.decides(t, "2")
	rewrite(t, in.policy, onePolicy("3", 7))
	in.decides(t, "3") // by looking at the file
	rewrite(t, in.policy, onePolicy("4", 8))
	passes(t, "policy 4#")(run(t, nil, "reload", in.admin))
	in.decides(t, "4")

	rewrite(t, in.policy, "policies: {api: {limits: {client: {limit: 5/minuet, by: ip}}}}")
	code, out := run(t, nil, "reload", in.admin)
	if code == 0 {
		t.Error("a wrong policy is no error")
	}
	wants(t, out, `did you mean "minute"?`)
	in.decides(t, "4")
	check.Equal(t, "weblimitd_policy_error", in.metric(t, "weblimitd_policy_error"), "1")
	if _, ready := in.get(t, "/readyz"); !strings.Contains(ready, "ready") {
		t.Errorf("a wrong policy makes it %s", ready)
	}
	wants(t, in.log.String(), "policy refused, the version before still decides", "weblimitd: reloaded")
}

// One command goes back to the policy before, and the version is in log, metrics and status.
func TestRollback(t *testing.T) {
	t.Parallel()
	in := start(t, nil)
	fails(t, "no version before")(run(t, nil, "rollback", in.admin))
	rewrite(t, in.policy, onePolicy("2", 6))
	in.decides(t, "2")
	passes(t, "policy 1#")(run(t, nil, "rollback", in.admin))
	in.decides(t, "1")
	time.Sleep(2500 * time.Millisecond) // the file still has version 2, and was looked at again
	in.decides(t, "1")
	line := in.line(t, "weblimitd: policy rolled back")
	version, _ := line["version"].(string)
	if line["actor"] != "unix socket" || !strings.HasPrefix(version, "1#") {
		t.Errorf("the log says %v", line)
	}
	if got := in.metric(t, `weblimitd_policy_info{version="`+version+`"}`); got != "1" {
		t.Errorf("no metric of version %s", version)
	}
	_, status := run(t, nil, "status", in.admin)
	wants(t, status, version, `"kind": "memory"`, `"address": "`+in.data+`"`)
}

// Operators need a password where others could reach the listener, and the right to act.
func TestOperators(t *testing.T) {
	t.Parallel()
	users := write(t, "users", "# operators\n"+read+"\n")
	in := start(t, []string{"WEBLIMIT_ADMIN_USERS=" + act}, "--admin-listen", "127.0.0.1:0", "--admin-users-file", users, "--pprof")
	basic := func(user string) []string {
		r, _ := http.NewRequest(http.MethodGet, "http://x", nil)
		name, password, _ := strings.Cut(user, ":")
		r.SetBasicAuth(name, password[:strings.LastIndexByte(password, ':')])
		return []string{"Authorization", r.Header.Get("Authorization")}
	}
	header := []string{"Weblimit-Inspect", "1"}
	for _, c := range []struct {
		method, path string
		fields       []string
		want         int
	}{
		{"GET", "/healthz", nil, 200},
		{"GET", "/readyz", nil, 200},
		{"GET", "/metrics", nil, 200},
		{"GET", "/status", nil, 401},
		{"GET", "/limits/", nil, 401},
		{"POST", "/reload", header, 401},
		{"POST", "/rollback", header, 401},
		{"GET", "/debug/pprof/", nil, 401},
		{"GET", "/status", basic("ops:wrong-wrong-wrong:act"), 401},
		{"GET", "/status", basic(read), 200},
		{"GET", "/limits/", basic(read), 200},
		{"GET", "/limits/api/v1/overview", basic(read), 200},
		{"POST", "/reload", append(basic(read), header...), 403},
		{"GET", "/debug/pprof/", basic(read), 403},
		{"GET", "/debug/pprof/", basic(act), 200},
		{"POST", "/reload", append(basic(act), header...), 200},
		{"POST", "/reload", basic(act), 403}, // without the header that pages of others can't set
		{"POST", "/reload", append(append(basic(act), header...), "Origin", "https://evil.example"), 403},
		{"POST", "/reload", append(append(basic(act), header...), "Sec-Fetch-Site", "cross-site"), 403},
		{"GET", "/reload", basic(act), 405},
		{"GET", "/nothing", basic(act), 404},
	} {
		if status, body := in.do(t, c.method, c.path, c.fields...); status != c.want {
			t.Errorf("%s %s %v: %d, want %d: %.300s", c.method, c.path, c.fields, status, c.want, body)
		}
	}
	// A name of somebody else that resolves to this machine.
	r := must.Get(http.NewRequest(http.MethodGet, in.adminURL+"/status", nil))(t)
	r.Host = "evil.example"
	r.Header.Set("Authorization", basic(act)[1])
	if status, _, err := ask(in.client, r); status != http.StatusMisdirectedRequest || err != nil {
		t.Errorf("another host: %d %v", status, err)
	}
	// The commands find users by the settings.
	passes(t, "")(run(t, []string{"WEBLIMIT_ADMIN_USERS=" + act}, "reload", in.adminURL))
	fails(t, "log in")(run(t, nil, "reload", in.adminURL, "--admin-users-file", users))
	// Users change while it serves.
	rewrite(t, users, "viewer:another-password-of-hers:read\n")
	in.signal(t, syscall.SIGHUP)
	wait.Until(t, "the old password is refused", func() bool {
		status, _ := in.do(t, "GET", "/status", basic(read)...)
		return status == 401
	})
	wants(t, in.log.String(), `"actor":"ops"`)
}

// Without users, an admin listener on TCP shows health and metrics and nothing else.
func TestNobodyIsAnOperatorByDefault(t *testing.T) {
	t.Parallel()
	in := start(t, nil, "--admin-listen", "127.0.0.1:0")
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/status": 401, "/limits/": 401, "/debug/pprof/": 404} {
		if status, body := in.get(t, path); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	fails(t, "--admin-users-file")(run(t, nil, "rollback", in.adminURL))
	// On the network, passwords need TLS.
	open := start(t, []string{"WEBLIMIT_ADMIN_USERS=" + act}, "--admin-listen", "0.0.0.0:0")
	url := "http://127.0.0.1:" + open.admin[strings.LastIndexByte(open.admin, ':')+1:]
	fails(t, "over TLS")(run(t, []string{"WEBLIMIT_ADMIN_USERS=" + act}, "status", url))
	passes(t, "")(run(t, nil, "healthcheck", url))
}

// The page, metrics, log, status and help hold no secret.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	secrets := []string{"token-token-token-1", "0123456789abcdef", "log-secret-log-secret", "s3cret-of-redis", "s3cret-of-sentinel"}
	in := start(t, []string{
		"WEBLIMIT_TOKENS=token-token-token-1", "WEBLIMIT_ADMIN_USERS=" + act, "WEBLIMIT_LOG_SECRET=log-secret-log-secret",
		"WEBLIMIT_REDIS=redis://app:s3cret-of-redis@127.0.0.1:1/0", "WEBLIMIT_REDIS_SENTINEL_PASSWORD=s3cret-of-sentinel",
	}, "--log-level", "debug", "--redis-sentinel-master", "main")
	shown := in.log.String()
	for _, path := range []string{"/status", "/metrics", "/readyz", "/limits/api/v1/health", "/limits/api/v1/overview"} {
		_, body := in.get(t, path)
		shown += body
	}
	r, _ := http.NewRequest(http.MethodPost, "http://"+in.data+"/v1/check", nil)
	r.Header.Set("Authorization", "Bearer token-token-token-X")
	_, body, err := ask(http.DefaultClient, r)
	if err != nil {
		t.Fatal(err)
	}
	in.stop(t)
	shown += body + in.log.String()
	wants(t, shown, "redis://app:xxxxx@127.0.0.1:1/0", "(secret)")
	for _, secret := range append(secrets, "token-token-token-X") {
		if strings.Contains(shown, secret) {
			at := strings.Index(shown, secret)
			t.Errorf("%s is shown: …%s…", secret, shown[max(0, at-200):at])
		}
	}
}

// The memory limit follows the setting, and the number of threads the runtime.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	in := start(t, nil, "--memory-limit", "512MiB")
	check.Equal(t, "the limit", in.metric(t, "go_gc_gomemlimit_bytes"), "5.36870912e+08")
	in = start(t, []string{"GOMEMLIMIT=300MiB"}, "--memory-limit", "512MiB")
	check.Equal(t, "the limit with GOMEMLIMIT", in.metric(t, "go_gc_gomemlimit_bytes"), "3.145728e+08")
	text := must.Get(os.ReadFile("go.mod"))(t)
	// From this version on, GOMAXPROCS follows the CPU quota of the control group.
	if !regexp.MustCompile(`(?m)^go 1\.(2[5-9]|[3-9]\d)`).Match(text) {
		t.Error("go.mod names a version whose runtime does not know CPU quotas")
	}
}

// A file of operators that has nobody in it, as while it is being written, locks nobody out, and one that is none or too
// large is not read.
func TestOperatorsStayWhileTheirFileCantBeUsed(t *testing.T) {
	t.Parallel()
	users := write(t, "users", act+"\n")
	in := start(t, nil, "--admin-listen", "127.0.0.1:0", "--admin-users-file", users)
	_, password, _ := strings.Cut(strings.TrimSuffix(act, ":act"), ":")
	reload := func() (int, string) {
		return in.do(t, http.MethodPost, "/reload", "Weblimit-Inspect", "1", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("ops:"+password)))
	}
	for what, c := range map[string]struct{ text, want string }{
		"empty":         {"", "has no user"},
		"comments only": {"# nobody\n", "has no user"},
		"too large":     {strings.Repeat("#", 2<<20), "the most is"},
	} {
		rewrite(t, users, c.text)
		status, body := reload()
		check.Equal(t, what, status, http.StatusUnprocessableEntity)
		wants(t, body, c.want)
	}
	rewrite(t, users, act+"\n# the same\n")
	if status, body := reload(); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}
