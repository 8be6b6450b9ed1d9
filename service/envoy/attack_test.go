package envoy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/service/envoy"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// entries is a descriptor of keys and values in turn, with any characters.
func entries(keysAndValues ...string) *ratelimit.RateLimitDescriptor {
	d := new(ratelimit.RateLimitDescriptor)
	for i := 0; i < len(keysAndValues); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: keysAndValues[i], Value: keysAndValues[i+1]})
	}
	return d
}

// Whatever a value is, it is a bucket of its own.
func TestNoValueMeetsAnother(t *testing.T) {
	t.Parallel()
	const text = `
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - key: path
        rate_limit: {unit: minute, requests_per_unit: 1}
      - key: path_a
        rate_limit: {unit: minute, requests_per_unit: 1}
      - key: path
        value: shared*
        share_threshold: true
        rate_limit: {unit: minute, requests_per_unit: 1}
  - key: user_a
    rate_limit: {unit: minute, requests_per_unit: 1}
`
	s := direct{newServer(t, envoy.Config{}, text)}
	long := strings.Repeat("x", 1<<20)
	seen := map[string]bool{}
	for _, d := range []*ratelimit.RateLimitDescriptor{
		entries("user", "a"), entries("user", "A"), entries("user", "a "), entries("user", " a"), entries("user", ""),
		entries("user", "a|path=b"), entries("user", "a", "path", "b"), entries("user", "a", "path", ""),
		entries("user", "a_path_b"), entries("user_a", "path_b"), entries("user", "a", "path_a", "b"), entries("user", "a", "path", "a_b"),
		entries("user", "a\x00"), entries("user", "\x00"), entries("user", "a\r\nb"), entries("user", "{a}"), entries("user", "}"),
		entries("user", "é"), entries("user", "\xe9"), entries("user", "\xff"), entries("user", "\ufffd"), entries("user", "%61"),
		entries("user", long), entries("user", long+"x"), entries("user", long+"\xff"), entries("user", "#"), entries("user", "key#a"),
		entries("user", "a", "path", "~shared*"), entries("user", "a", "path", "=shared"), entries("user", "a", "path", "shared1"),
		entries("user", "b", "path", "shared1"), entries("user", "missing\x00"), entries("user", "edge"),
		// A hash of a value as a value
		entries("user", "#"+strings.Repeat("A", 22)), entries("user", "!minute"),
	} {
		request := &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{d}}
		name := fmt.Sprintf("%.60q", d.GetEntries())
		for i, want := range []string{"OK, OK 0", "OVER, OVER 0"} {
			check.Equal(t, fmt.Sprintf("%s, request %d, whose bucket is its own", name, i+1), said(ask(t, s, request)), want)
		}
		seen[name] = true
	}
	if len(seen) < 30 {
		t.Errorf("%d values", len(seen))
	}
	shared := &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{entries("user", "a", "path", "shared2")}}
	wantAnswers(t, s, shared, "OVER, OVER 0")
}

// In envoyproxy/ratelimit, key user with value a_b is the rule of key user_a with value b.
func TestAValueChoosesNoOtherKey(t *testing.T) {
	t.Parallel()
	s := direct{newServer(t, envoy.Config{}, `
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: user_admin, value: "1", rate_limit: {unlimited: true}}
`)}
	wantAnswers(t, s, request("edge", "user=admin_1"), "OK, OK 0", "OVER, OVER 0")
}

// rawCodec sends bytes as they are, as a client does that does not check for UTF-8.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(raw)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// A header that is no UTF-8 is no way around the limit: an error would let it pass where Envoy has
// failure_mode_deny: false.
func TestValuesThatAreNoUTF8(t *testing.T) {
	t.Parallel()
	s := newServer(t, envoy.Config{DynamicMetadata: true}, two)
	conn := connect(t, s)
	wire := func(value string) []byte {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "banned")
		entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), value)
		d := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
		r := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "edge")
		return protowire.AppendBytes(protowire.AppendTag(r, 2, protowire.BytesType), d)
	}
	for _, value := range []string{"a", "\xff", "\xc3\x28 \xed\xa0\x80"} {
		response := new(rls.RateLimitResponse)
		err := conn.Invoke(t.Context(), rls.RateLimitService_ShouldRateLimit_FullMethodName, wire(value), response,
			grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}))
		if err != nil || response.GetOverallCode() != over {
			t.Errorf("%q: %v, %v", value, response, err)
		}
	}
	for _, broken := range [][]byte{{0xff}, wire("a")[:10], {0x12, 0x05, 0x0a}} {
		err := conn.Invoke(t.Context(), rls.RateLimitService_ShouldRateLimit_FullMethodName, broken, new(rls.RateLimitResponse),
			grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}))
		if err == nil {
			t.Errorf("%x is taken for a request", broken)
		}
	}
}

// Requests on the wire are read as the protobuf library reads them.
func TestWire(t *testing.T) {
	t.Parallel()
	var got *rls.RateLimitRequest
	s := newServer(t, envoy.Config{}, two)
	conn := connect(t, s, grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		got = proto.CloneOf(request.(*rls.RateLimitRequest))
		return handle(ctx, request)
	}))
	c := rls.NewRateLimitServiceClient(conn)
	r := rand.New(rand.NewPCG(1, 2))
	for range long.Rounds(300, 100_000) {
		want := randomRequest(r)
		if r.IntN(3) == 0 {
			want.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: r.Uint32(), Unit: 1}
		}
		if _, err := c.ShouldRateLimit(t.Context(), want); err != nil || !proto.Equal(got, want) {
			t.Fatalf("%v became %v: %v", want, got, err)
		}
	}
}

// A million values take bounded memory, and statistics a bounded number of names.
//
// It is not parallel: what others use would count.
func TestCardinality(t *testing.T) {
	const text = `
domain: edge
descriptors:
  - {key: user, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}
`
	s := newServer(t, envoy.Config{MaxSeries: 100, Store: core.NewMemory()}, text)
	n := 200_000
	if testing.Short() || race.Enabled { // which takes ten times as long
		n = 20_000
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		must.Get(s.ShouldRateLimit(t.Context(), request("edge", fmt.Sprintf("user=%d", i))))(t)
		if i%10 == 0 { // domains that callers make up
			_, _ = s.ShouldRateLimit(t.Context(), request(fmt.Sprint("domain", i), "user=1"))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > int64(n)<<10 {
		t.Errorf("%d values take %d KB", n, grown>>10)
	}
	w := httptest.NewRecorder()
	s.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if lines := strings.Count(w.Body.String(), "\n"); lines > 700 {
		t.Errorf("metrics have %d lines", lines)
	}
}

// A long value is not copied for each wildcard that has a star in its key.
//
// It is not parallel: what others use would count.
func TestALongValueAmongManyWildcards(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: edge\ndescriptors:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  - {key: \"us*\", value: \"%d\", rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
	}
	s := newServer(t, envoy.Config{}, text.String())
	r := &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{entries("user", strings.Repeat("x", 60<<10))}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	wantAnswers(t, direct{s}, r, "OK, OK 0")
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
		t.Errorf("it takes %d KB", taken>>10)
	}
}

// What is more than a request may have is not built before it is refused: a message of a megabyte has half a
// million descriptors that are empty, or entries, or copies of an override.
//
// It is not parallel: what others use would count.
func TestWhatIsTooMuchIsNotBuilt(t *testing.T) {
	s := newServer(t, envoy.Config{}, two)
	conn := connect(t, s)
	bytes := func(number protowire.Number, text []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), text)
	}
	domain, empty := bytes(1, []byte("edge")), bytes(2, nil)
	n := 1_000_000 / len(empty)
	for name, wire := range map[string][]byte{
		"descriptors":        append(slices.Clone(domain), slices.Repeat(empty, n)...),
		"entries":            append(slices.Clone(domain), bytes(2, slices.Repeat(bytes(1, nil), n))...),
		"entries altogether": append(slices.Clone(domain), slices.Repeat(bytes(2, slices.Repeat(bytes(1, nil), 100)), n/100)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := conn.Invoke(t.Context(), rls.RateLimitService_ShouldRateLimit_FullMethodName, wire, new(rls.RateLimitResponse), grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}))
		runtime.ReadMemStats(&after)
		check.Equal(t, name, status.Code(err), codes.InvalidArgument)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 8<<20 && !race.Enabled { // of which the message is the most
			t.Errorf("%d %s take %d KB", n, name, taken>>10)
		}
	}
	for name, body := range map[string]string{
		"descriptors": `{"domain":"edge","descriptors":[` + strings.Repeat("{},", 300_000) + `{}]}`,
		"entries":     `{"domain":"edge","descriptors":[{"entries":[` + strings.Repeat("{},", 300_000) + `{}]}]}`,
	} {
		var before, after runtime.MemStats
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body))
		runtime.ReadMemStats(&before)
		s.JSON().ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		check.Equal(t, name, w.Code, http.StatusBadRequest)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 12<<20 && !race.Enabled {
			t.Errorf("%s in JSON take %d KB", name, taken>>10)
		}
	}
}

// A page in a browser on the machine needs no permission to send text to loopback.
func TestPagesDoNotUseUpLimits(t *testing.T) {
	t.Parallel()
	s := newServer(t, envoy.Config{}, two)
	for name, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/json", strings.NewReader(`{"domain":"edge","descriptors":[{"entries":[{"key":"path","value":"/"}]}]}`))
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set(name, value)
		w := httptest.NewRecorder()
		s.JSON().ServeHTTP(w, r)
		check.Equal(t, name, w.Code, http.StatusForbidden)
	}
}
