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

	"github.com/weblimit/weblimit/internal/test/redistest"
)

// answer is what a check says.
type answer struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	Version string `json:"version"`
	Outage  bool   `json:"outage"`
}

// check asks about a client.
func check(ctx context.Context, client *http.Client, base, ip string, fields ...string) (a answer, status int, err error) {
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
		a, status, err := check(t.Context(), http.DefaultClient, "http://"+in.data, ip)
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
	if n := in.allows(t, "192.0.2.1", 8); n != 5 {
		t.Errorf("memory: %d of 8 are allowed", n)
	}
	for name, args := range onRedis(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := start(t, nil, args...), start(t, nil, args...)
			if n := one.allows(t, "192.0.2.1", 3) + other.allows(t, "192.0.2.1", 4); n != 5 {
				t.Errorf("%d of 7 are allowed", n)
			}
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
	if n := in.allows(t, "192.0.2.1", 6); n != 5 {
		t.Fatalf("%d are allowed", n)
	}
	rewrite(t, in.policy, onePolicy("2", 8))
	in.signal(t, syscall.SIGHUP)
	in.decides(t, "2")
	if n := in.allows(t, "192.0.2.1", 6); n != 3 {
		t.Errorf("%d more are allowed, want 3", n)
	}
	a, _, err := check(t.Context(), http.DefaultClient, "http://"+in.data, "192.0.2.1")
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
		a, status, err := check(t.Context(), http.DefaultClient, "http://"+in.data, "192.0.2.1")
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
		if got := subrequest(t, base, "192.0.2.1", c.fields...); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	// Another path is not cleaned: it is the client's.
	if got := status(t, http.DefaultClient, base+"/v1/ext_authz/api//a/../b", "Weblimit-Token", "0123456789abcdef", "X-Forwarded-For", "192.0.2.9"); got != 200 {
		t.Errorf("a path of Envoy's client: %d", got)
	}
}

// Beyond max-in-flight, requests are refused at once, and those at work are finished.
func TestOverload(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	in := start(t, nil, "--redis", "redis://"+server.Addr(), "--max-in-flight", "4")
	if n := in.allows(t, "192.0.2.1", 1); n != 1 {
		t.Fatal("denied")
	}
	server.Freeze(t) // the policy gives it five seconds
	var codes sync.Map
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			began := time.Now()
			_, status, err := check(context.Background(), http.DefaultClient, "http://"+in.data, fmt.Sprint("192.0.2.", i))
			if err != nil {
				t.Error(err)
			}
			if status == http.StatusServiceUnavailable && time.Since(began) > 2*time.Second {
				t.Errorf("a refusal takes %v", time.Since(began))
			}
			n, _ := codes.LoadOrStore(status, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		})
	}
	await(t, 5*time.Second, "others are refused", func() bool {
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
	if got := in.metric(t, `weblimitd_requests_shed_total{listener="data"}`); got != "16" {
		t.Errorf("shed: %s", got)
	}
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
		time.Sleep(50 * time.Millisecond)
	}
}

// An instance that drains under load loses no request, and exits 0.
func TestDrainLosesNoRequest(t *testing.T) {
	t.Parallel()
	one, other := start(t, nil, "--drain-delay", "1s"), start(t, nil)
	all := []string{"http://" + one.data, "http://" + other.data}
	balancer := &fleet{ready: all}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go balancer.look(ctx, all)
	var served, lost atomic.Int64
	var load sync.WaitGroup
	for i := range 8 {
		load.Go(func() {
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
			for ctx.Err() == nil {
				_, status, err := check(context.WithoutCancel(ctx), client, balancer.pick(), fmt.Sprint("192.0.2.", i))
				if err != nil || status != http.StatusOK {
					lost.Add(1)
					t.Errorf("status %d, %v", status, err)
					return
				}
				served.Add(1)
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	before := served.Load()
	one.signal(t, syscall.SIGTERM)
	if code := one.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	time.Sleep(300 * time.Millisecond)
	stop()
	load.Wait()
	if lost.Load() > 0 || served.Load() <= before || before == 0 {
		t.Errorf("%d served, %d of them before; %d lost", served.Load(), before, lost.Load())
	}
	if line := one.line(t, "weblimitd: stopped"); line["complete"] != true {
		t.Errorf("%v", line)
	}
}

// With the socket in systemd's hands, one instance restarts under load and loses no request.
func TestRestartBehindASocket(t *testing.T) {
	t.Parallel()
	f, addr := listenFile(t)
	args := []string{"--listen", "systemd:data", "--drain-delay", "0s"}
	in := activated(t, []*os.File{f}, "data", nil, args...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var served atomic.Int64
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			for ctx.Err() == nil {
				_, status, err := check(context.WithoutCancel(ctx), client, "http://"+addr, fmt.Sprint("192.0.2.", i))
				if err != nil || status != http.StatusOK {
					t.Errorf("status %d, %v", status, err)
					return
				}
				served.Add(1)
			}
		})
	}
	for range 3 {
		time.Sleep(200 * time.Millisecond)
		if code := in.stop(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
		in = activated(t, []*os.File{f}, "data", nil, args...)
	}
	before := served.Load()
	await(t, 10*time.Second, "it serves on", func() bool { return served.Load() > before+10 })
	stop()
	load.Wait()
}

// While it drains it is not ready and still serves; what runs is finished, a second signal ends it.
func TestDrainInSteps(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	in := start(t, nil, "--redis", "redis://"+server.Addr(), "--drain-delay", "1s", "--drain-timeout", "10s")
	base := "http://" + in.data
	if n := in.allows(t, "192.0.2.1", 1); n != 1 {
		t.Fatal("denied")
	}
	in.signal(t, syscall.SIGTERM)
	await(t, 5*time.Second, "it is not ready", func() bool {
		return status(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, base+"/readyz") == http.StatusServiceUnavailable
	})
	if code, body := in.get(t, "/readyz"); code != 503 || !strings.Contains(body, "draining") {
		t.Errorf("%d %s", code, body)
	}
	if n := in.allows(t, "192.0.2.2", 1); n != 1 {
		t.Error("it does not serve during the delay")
	}
	server.Freeze(t)
	slow := make(chan error, 1)
	go func() {
		_, status, err := check(context.Background(), http.DefaultClient, base, "192.0.2.3")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		slow <- err
	}()
	await(t, 10*time.Second, "it takes no more connections", func() bool {
		c, err := net.DialTimeout("tcp", in.data, time.Second)
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
	if code := in.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}

	in = start(t, nil, "--drain-delay", "5m")
	in.signal(t, syscall.SIGTERM)
	in.signal(t, syscall.SIGTERM) // at once: one signal that was sent twice
	time.Sleep(700 * time.Millisecond)
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
		_, _, _ = check(context.Background(), http.DefaultClient, "http://"+in.data, "192.0.2.1")
		close(slow)
	}()
	await(t, 5*time.Second, "a request is at work", func() bool { return in.metric(t, "weblimitd_requests_in_flight") == "1" })
	if code := in.stop(t); code != 1 {
		t.Errorf("exit code %d", code)
	}
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
}

// Spans of calls go to a collector, under the trace of the caller.
func TestTraces(t *testing.T) {
	t.Parallel()
	got := make(chan []byte, 16)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	collector := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case got <- body:
		default:
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	go func() { _ = collector.Serve(l) }()
	defer collector.Close()
	in := start(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + l.Addr().String()})
	_, _, err = check(t.Context(), http.DefaultClient, "http://"+in.data, "192.0.2.1", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err != nil {
		t.Fatal(err)
	}
	if code := subrequest(t, "http://"+in.data, "192.0.2.1", "Traceparent", "00-11111111111111111111111111111111-2222222222222222-01"); code != 200 {
		t.Errorf("the gateway: %d", code)
	}
	in.stop(t) // sends what is left
	select {
	case spans := <-got:
		if bytes.Contains(spans, bytes.Repeat([]byte{0x11}, 16)) {
			t.Error("a gateway's client has its request recorded in its trace")
		}
		for _, want := range []string{"\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", "weblimitd", "weblimit.decision", "gateway"} {
			if !bytes.Contains(spans, []byte(want)) {
				t.Errorf("%q is not in the spans", want)
			}
		}
	case <-time.After(10 * time.Second):
		t.Error("no spans")
	}
	cmd := exec.Command(program, "--check", "--policy", in.policy)
	cmd.Env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "http/protobuf") {
		t.Errorf("%v %s", err, out)
	}
}
