package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// answer is what a check says.
type answer struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	Version string `json:"version"`
	Outage  bool   `json:"outage"`
}

// decide asks about a client.
func decide(ctx context.Context, client *http.Client, base, ip string, fields ...string) (a answer, status int, err error) {
	body := fmt.Sprintf(`{"policy":"api","request":{"method":"GET","path":"/x","client_ip":%q}}`, ip)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/check", strings.NewReader(body))
	if err != nil {
		return a, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		return a, 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, 0, err
	}
	if response.StatusCode == http.StatusOK {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&a)
	}
	return a, response.StatusCode, err
}

// allows counts how many of n checks are allowed.
func (in *instance) allows(t *testing.T, ip string, n int) (allowed int) {
	t.Helper()
	for range n {
		a, status, err := decide(t.Context(), http.DefaultClient, "http://"+in.data, ip)
		if err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %v", status, err)
		}
		if a.Allowed {
			allowed++
		}
	}
	return allowed
}

// It serves on memory and on every kind of Redis; two instances on one Redis share their limits.
func TestCheckOnEveryStore(t *testing.T) {
	t.Parallel()
	in := start(t, nil)
	check.Equal(t, "memory: of 8 allowed", in.allows(t, "192.0.2.1", 8), 5)
	for name, args := range onRedis(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := start(t, nil, args...), start(t, nil, args...)
			check.Equal(t, "of 7 allowed", one.allows(t, "192.0.2.1", 3)+other.allows(t, "192.0.2.1", 4), 5)
			if n := one.allows(t, "192.0.2.2", 1); n != 1 {
				t.Error("another client is denied")
			}
		})
	}
}

// The version that decides is in the answer, and what was used stays used when the policy changes.
func TestTheVersionIsInTheAnswer(t *testing.T) {
	t.Parallel()
	in := start(t, nil)
	must.Equal(t, "allowed", in.allows(t, "192.0.2.1", 6), 5)
	rewrite(t, in.policy, onePolicy("2", 8))
	in.signal(t, syscall.SIGHUP)
	in.decides(t, "2")
	check.Equal(t, "more allowed", in.allows(t, "192.0.2.1", 6), 3)
	a, _, err := decide(t.Context(), http.DefaultClient, "http://"+in.data, "192.0.2.1")
	if err != nil || !strings.HasPrefix(a.Version, "2#") {
		t.Errorf("%+v %v", a, err)
	}
	wants(t, in.log.String(), "weblimit: request denied")
	if got := in.metric(t, `weblimit_decisions_total{decision="denied",limit="client",reason="limit_exceeded",route=""}`); got == "" {
		t.Error("no metric of the denials")
	}
	_, overview := in.get(t, "/limits/api/v1/overview")
	wants(t, overview, `"client"`)
}

// While Redis is away, each instance grants its share, and says so.
func TestChecksWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	in := start(t, nil, "--redis", "redis://"+server.Addr(), "--replicas", "2", "--policy", write(t, "limits.yaml", onePolicy("1", 10)))
	server.Kill()
	allowed := 0
	for range 10 {
		a, status, err := decide(t.Context(), http.DefaultClient, "http://"+in.data, "192.0.2.1")
		if err != nil || status != http.StatusOK || !a.Outage {
			t.Fatalf("%+v %d %v", a, status, err)
		}
		if a.Allowed {
			allowed++
		}
	}
	if allowed != 5 {
		t.Errorf("%d are allowed, want half of 10", allowed)
	}
}

// subrequest sends what a gateway sends.
func subrequest(t *testing.T, base, ip string, fields ...string) int {
	t.Helper()
	return status(t, http.DefaultClient, base+"/v1/auth/api", append([]string{
		"X-Forwarded-For", ip, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/x",
	}, fields...)...)
}

// A gateway's subrequests are decided, with the gateway's token in a header of its own; Authorization is
// the client's.
func TestGateway(t *testing.T) {
	t.Parallel()
	in := start(t, nil)
	got := ""
	for range 7 {
		got += fmt.Sprint(subrequest(t, "http://"+in.data, "192.0.2.1"), " ")
	}
	if got != "200 200 200 200 200 429 429 " {
		t.Error(got)
	}
	in = start(t, []string{"WEBLIMIT_TOKENS=0123456789abcdef"})
	base := "http://" + in.data
	for name, c := range map[string]struct {
		fields []string
		want   int
	}{
		"without a token":             {nil, 500},
		"the client has found it out": {[]string{"Authorization", "Bearer 0123456789abcdef"}, 500},
		"with the token":              {[]string{"Weblimit-Token", "0123456789abcdef", "Authorization", "Bearer of-the-client"}, 200},
	} {
		check.Equal(t, name, subrequest(t, base, "192.0.2.1", c.fields...), c.want)
	}
	// Another path is not cleaned: it is the client's.
	check.Equal(t, "a path of Envoy's client", status(t, http.DefaultClient, base+"/v1/ext_authz/api//a/../b", "Weblimit-Token", "0123456789abcdef", "X-Forwarded-For", "192.0.2.9"), 200)
}

// Beyond max-in-flight, requests are refused at once, and those at work are finished.
func TestOverload(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	in := start(t, nil, "--redis", "redis://"+server.Addr(), "--max-in-flight", "4")
	if n := in.allows(t, "192.0.2.1", 1); n != 1 {
		t.Fatal("denied")
	}
	server.Freeze(t) // the policy gives it a minute
	var codes sync.Map
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			began := time.Now()
			_, status, err := decide(context.Background(), http.DefaultClient, "http://"+in.data, fmt.Sprint("192.0.2.", i))
			if err != nil {
				t.Error(err)
			}
			if status == http.StatusServiceUnavailable && time.Since(began) > 30*time.Second {
				t.Errorf("a refusal takes %v", time.Since(began))
			}
			n, _ := codes.LoadOrStore(status, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		})
	}
	wait.Until(t, "others are refused", func() bool {
		n, ok := codes.Load(503)
		return ok && n.(*atomic.Int64).Load() == 16
	})
	if status, _ := in.get(t, "/metrics"); status != 200 { // the admin listener has room
		t.Errorf("metrics: %d", status)
	}
	server.Thaw(t)
	all.Wait()
	if n, ok := codes.Load(200); !ok || n.(*atomic.Int64).Load() != 4 {
		t.Error("those at work are not finished")
	}
	check.Equal(t, "requests shed", in.metric(t, `weblimitd_requests_shed_total{listener="data"}`), "16")
}

// fleet asks one of several instances that are ready, as a load balancer does.
type fleet struct {
	mu    sync.Mutex
	ready []string // Guarded by mu.
	next  int      // Guarded by mu.
}

func (f *fleet) pick() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	return f.ready[f.next%len(f.ready)]
}

// look asks all instances whether they are ready, as often as a load balancer.
func (f *fleet) look(ctx context.Context, all []string) {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		var ready []string
		for _, base := range all {
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
			if code, _, err := ask(client, r); err == nil && code == http.StatusOK {
				ready = append(ready, base)
			}
		}
		if len(ready) > 0 && ctx.Err() == nil {
			f.mu.Lock()
			f.ready = ready
			f.mu.Unlock()
		}
		time.Sleep(50 * time.Millisecond) // as balancers do
	}
}

// load is callers that ask in a loop, until one of them loses a request.
type load struct {
	served  atomic.Int64
	lost    atomic.Pointer[error] // the first one
	stop    context.CancelFunc
	callers sync.WaitGroup
}

// startLoad starts n callers, who ask what pick returns.
func startLoad(t *testing.T, n int, keepAlive bool, pick func() string) *load {
	t.Helper()
	l := new(load)
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	for i := range n {
		l.callers.Go(func() {
			client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 4, DisableKeepAlives: !keepAlive}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond) // more than some thousand a second finds nothing more
				_, status, err := decide(context.WithoutCancel(ctx), client, pick(), fmt.Sprint("192.0.2.", i))
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("status %d", status)
				}
				if err != nil {
					l.lost.CompareAndSwap(nil, &err)
					return
				}
				l.served.Add(1)
			}
		})
	}
	return l
}

// goesOn waits until some more requests are served, or one is lost.
func (l *load) goesOn(t *testing.T) {
	t.Helper()
	before := l.served.Load()
	wait.Until(t, "it serves", func() bool { return l.served.Load() > before+20 || l.lost.Load() != nil })
}

// end stops the callers, and returns whether they have lost a request.
func (l *load) end() error {
	l.stop()
	l.callers.Wait()
	if err := l.lost.Load(); err != nil {
		return fmt.Errorf("of %d requests one was lost: %w", l.served.Load(), *err)
	}
	return nil
}

// once fails the test unless an attempt succeeds. On a busy machine, a caller or a balancer can stand still
// for longer than a drain takes, and so lose a request by itself; hardly so each time.
func once(t *testing.T, attempts []time.Duration, attempt func(delay time.Duration) error) {
	t.Helper()
	var failed []error
	for _, delay := range attempts {
		err := attempt(delay)
		if err == nil {
			return
		}
		failed = append(failed, fmt.Errorf("with a delay of %v: %w", delay, err))
		t.Log(err)
	}
	t.Error(errors.Join(failed...))
}

// An instance that drains under load loses no request, and exits 0.
func TestDrainLosesNoRequest(t *testing.T) {
	t.Parallel()
	once(t, []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second}, func(delay time.Duration) error {
		one, other := start(t, nil, "--drain-delay", delay.String()), start(t, nil)
		all := []string{"http://" + one.data, "http://" + other.data}
		balancer := &fleet{ready: all}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go balancer.look(ctx, all)
		callers := startLoad(t, 8, true, balancer.pick)
		callers.goesOn(t)
		one.signal(t, syscall.SIGTERM)
		check.Equal(t, "exit code", one.exit(t), 0)
		callers.goesOn(t)
		if line := one.line(t, "weblimitd: stopped"); line["complete"] != true {
			t.Errorf("%v", line)
		}
		return callers.end()
	})
}

// With the socket in systemd's hands, one instance restarts under load and loses no request.
func TestRestartBehindASocket(t *testing.T) {
	t.Parallel()
	once(t, make([]time.Duration, 5), func(time.Duration) error {
		f, addr := listenFile(t)
		args := []string{"--listen", "systemd:data", "--drain-delay", "0s"}
		in := activated(t, []*os.File{f}, "data", nil, args...)
		callers := startLoad(t, 4, false, func() string { return "http://" + addr })
		for range 3 {
			callers.goesOn(t)
			check.Equal(t, "exit code", in.stop(t), 0)
			in = activated(t, []*os.File{f}, "data", nil, args...)
		}
		callers.goesOn(t)
		return callers.end()
	})
}

// While it drains it is not ready and still serves; what runs is finished, a second signal ends it.
func TestDrainInSteps(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	for _, delay := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
		if drainsInSteps(t, server, delay) {
			break
		} // else a busy machine has taken longer than the delay for what happens in it
	}

	in := start(t, nil, "--drain-delay", "5m")
	in.signal(t, syscall.SIGTERM)
	in.signal(t, syscall.SIGTERM) // at once: one signal that was sent twice
	wait.Until(t, "it drains", func() bool { return strings.Contains(in.log.String(), "weblimitd: draining") })
	time.Sleep(700 * time.Millisecond) // nothing tells that it goes on
	select {
	case <-in.ended:
		t.Fatal("one signal that was sent twice ends it at once")
	default:
	}
	in.signal(t, syscall.SIGTERM)
	if code := in.exit(t); code == 0 {
		t.Error("it was ended, and says that it has drained")
	}
}

// drainsInSteps returns false if it can't say, since it took longer than the delay.
func drainsInSteps(t *testing.T, server *redistest.Server, delay time.Duration) bool {
	t.Helper()
	in := start(t, nil, "--redis", "redis://"+server.Addr(), "--drain-delay", delay.String(), "--drain-timeout", "5m")
	base := "http://" + in.data
	if n := in.allows(t, "192.0.2.1", 1); n != 1 {
		t.Fatal("denied")
	}
	began := time.Now()
	late := func() bool { return time.Since(began) > delay }
	in.signal(t, syscall.SIGTERM)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	readiness := func() (int, error) {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/readyz", nil))(t)
		code, _, err := ask(client, r)
		return code, err
	}
	code, err := readiness()
	for ; err == nil && code == http.StatusOK && !late(); code, err = readiness() {
		time.Sleep(10 * time.Millisecond)
	}
	if !late() && (err != nil || code != http.StatusServiceUnavailable) {
		t.Errorf("readiness while it drains: %d, %v", code, err)
	}
	if code, body, err := in.try(http.MethodGet, "/readyz"); !late() && (err != nil || code != 503 || !strings.Contains(body, "draining")) {
		t.Errorf("%d %s, %v", code, body, err)
	}
	if a, code, err := decide(t.Context(), client, base, fmt.Sprint("192.0.2.", delay.Seconds())); !late() && (err != nil || code != http.StatusOK || !a.Allowed) {
		t.Errorf("it does not serve during the delay: %+v %d, %v", a, code, err)
	}
	server.Freeze(t)
	defer server.Thaw(t)
	slow := make(chan error, 1)
	go func() {
		_, status, err := decide(context.Background(), client, base, "192.0.2.3")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		slow <- err
	}()
	atWork := false // then it does not end before that request
	wait.Until(t, "a request is at work, or the delay is over", func() bool {
		if _, metrics, err := in.try(http.MethodGet, "/metrics"); err == nil {
			atWork = strings.Contains(metrics, "\nweblimitd_requests_in_flight 1\n")
		}
		return atWork || late()
	})
	if !atWork || late() {
		return false
	}
	wait.Until(t, "it takes no more connections", func() bool {
		c, err := net.DialTimeout("tcp", in.data, time.Minute)
		if err == nil {
			c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if status, _ := in.get(t, "/healthz"); status != 200 { // the admin listener ends last
		t.Errorf("liveness while it drains: %d", status)
	}
	server.Thaw(t)
	if err := <-slow; err != nil {
		t.Errorf("a request that was under way: %v", err)
	}
	check.Equal(t, "exit code", in.exit(t), 0)
	return true
}

// What takes longer than drain-timeout is cut off, and said.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	in := start(t, nil, "--redis", "redis://"+server.Addr(), "--drain-timeout", "300ms")
	if n := in.allows(t, "192.0.2.1", 1); n != 1 {
		t.Fatal("denied")
	}
	server.Freeze(t)
	slow := make(chan struct{})
	go func() {
		_, _, _ = decide(context.Background(), http.DefaultClient, "http://"+in.data, "192.0.2.1")
		close(slow)
	}()
	wait.Until(t, "a request is at work", func() bool { return in.metric(t, "weblimitd_requests_in_flight") == "1" })
	check.Equal(t, "exit code", in.stop(t), 1)
	wants(t, in.log.String(), "cut off after --drain-timeout")
	<-slow
}

// Reservations that one instance has made are settled by another that has the same secret.
func TestReservationSecrets(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	args := []string{"--redis", "redis://" + server.Addr()}
	env := []string{"WEBLIMIT_RESERVATION_SECRETS=0123456789abcdef0123456789abcdef"}
	post := func(in *instance, path, body string) (int, string) {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+in.data+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		code, text, err := ask(http.DefaultClient, r)
		if err != nil {
			t.Fatal(err)
		}
		return code, text
	}
	reserve := func(in *instance) string {
		t.Helper()
		code, text := post(in, "/v1/reserve", `{"policy":"api","request":{"client_ip":"192.0.2.1"}}`)
		var got struct{ Reservation string }
		if err := json.Unmarshal([]byte(text), &got); code != 200 || err != nil || got.Reservation == "" {
			t.Fatalf("%d %s", code, text)
		}
		return got.Reservation
	}
	one, other, stranger := start(t, env, args...), start(t, env, args...), start(t, nil, args...)
	token := reserve(one)
	if code, text := post(stranger, "/v1/refund", fmt.Sprintf(`{"reservation":%q}`, token)); code == 200 {
		t.Errorf("an instance without the secret: %s", text)
	}
	if code, text := post(other, "/v1/refund", fmt.Sprintf(`{"reservation":%q}`, token)); code != 200 {
		t.Errorf("another instance: %d %s", code, text)
	}

	// The file of secrets changes while the instance serves.
	file := write(t, "secrets", "# of November\nfedcba9876543210fedcba9876543210\n")
	rotating := start(t, nil, append(args, "--reservation-secrets-file", file)...)
	token = reserve(rotating)
	rewrite(t, file, "0123456789abcdef0123456789abcdef\nfedcba9876543210fedcba9876543210\n")
	rotating.signal(t, syscall.SIGHUP)
	wait.Until(t, "the secrets are read again", func() bool {
		n := rotating.metric(t, `weblimitd_reloads_total{result="ok",what="secrets"}`)
		return n != "" && n != "0"
	})
	if code, text := post(other, "/v1/refund", fmt.Sprintf(`{"reservation":%q}`, reserve(rotating))); code != 200 {
		t.Errorf("it seals as the others do: %d %s", code, text)
	}
	if code, text := post(rotating, "/v1/refund", fmt.Sprintf(`{"reservation":%q}`, token)); code != 200 {
		t.Errorf("a reservation from before: %d %s", code, text)
	}
}

// collector takes traces, and has all that was sent.
func collector(t *testing.T) (endpoint string, got *child.Output) {
	t.Helper()
	got = new(child.Output)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(got, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + l.Addr().String(), got
}

// Spans of calls go to a collector, under the trace of the caller.
func TestTraces(t *testing.T) {
	t.Parallel()
	endpoint, got := collector(t)
	in := start(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint})
	_, _, err := decide(t.Context(), http.DefaultClient, "http://"+in.data, "192.0.2.1", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "what the gateway gets", subrequest(t, "http://"+in.data, "192.0.2.1", "Traceparent", "00-11111111111111111111111111111111-2222222222222222-01"), 200)
	in.stop(t) // sends what is left
	spans := got.String()
	if strings.Contains(spans, strings.Repeat("\x11", 16)) {
		t.Error("a gateway's client has its request recorded in its trace")
	}
	for _, want := range []string{"\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", "weblimitd", "weblimit.decision", "gateway"} {
		if !strings.Contains(spans, want) {
			t.Errorf("%q is not in the spans", want)
		}
	}
	cmd := exec.Command(daemon, "--check", "--policy", in.policy)
	cmd.Env = []string{program.Races, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "http/protobuf") {
		t.Errorf("%v %s", err, out)
	}
}
