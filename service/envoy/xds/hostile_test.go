package xds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/service/envoy/xds"
)

func messages[M proto.Message](all []M) (some []proto.Message) {
	for _, m := range all {
		some = append(some, m)
	}
	return some
}

// raw is an answer with bytes after its fields, which need not be what its description says.
func raw(t *testing.T, version string, wire ...byte) *discovery.DiscoveryResponse {
	t.Helper()
	answer := answerOf(t, version)
	answer.ProtoReflect().SetUnknown(wire)
	return answer
}

// unknown is a resource with bytes after its fields.
func unknown(wire []byte) *rlsconf.RateLimitConfig {
	r := perUser("edge", 5)
	r.ProtoReflect().SetUnknown(wire)
	return r
}

func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// Whatever a control plane sends, what decided goes on, and it hears why. The next answer can be a good one.
func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	s, st := following(t, p, xds.Config{MaxMessage: 32 << 20}, 3)
	deep := perUser("edge", 5)
	for range 400 {
		deep.Descriptors = []*rlsconf.RateLimitDescriptor{{Key: "a", Descriptors: deep.GetDescriptors()}}
	}
	noValue := perUser("edge", 5)
	noValue.Descriptors[0].Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"a": {}}}
	nameless := perUser("edge", 5)
	nameless.Name = ""
	odd := perUser("edge", 5)
	odd.Name, odd.Descriptors[0].Key = "a\x1b[31m\nb", ""
	for _, tt := range []struct {
		what   string
		answer *discovery.DiscoveryResponse
		why    string
	}{
		{"many resources", raw(t, "a", make20000()...), "has sent 20000 resources, the most is 10000"},
		{"two of a name", answerOf(t, "b", perUser("edge", 1), perUser("edge", 2)), `edge: two resources have the name "edge"`},
		{"another type", answerOf(t, "c", perUser("edge", 1), structpb.NewBoolValue(true)), `resource 2: it is of the type "type.googleapis.com/google.protobuf.Value"`},
		{"no name", answerOf(t, "d", nameless), "resource 1: a resource needs a name"},
		{"an odd name", answerOf(t, "e", odd), `"a\x1b[31m\nb":2:1: descriptors[0]: a descriptor needs a key`},
		{"a field that is not known", answerOf(t, "f", unknown(field(15, []byte("x")))), "edge: RateLimitConfig has a field of number 15, which this version does not know"},
		{"one within", answerOf(t, "g", unknown(field(3, field(99, nil)))), "RateLimitDescriptor has a field of number 99"},
		{"a number in place of a text", answerOf(t, "h", unknown([]byte{2 << 3, 1})), "the field domain of RateLimitConfig is of another type here"},
		{"a group", answerOf(t, "i", unknown([]byte{3<<3 | 3, 3<<3 | 4})), "the field descriptors of RateLimitConfig is of another type here"},
		{"what is no UTF-8", answerOf(t, "j", unknown(field(2, []byte("\xff")))), "it is no RateLimitConfig"},
		{"what is cut off", answerOf(t, "k", unknown([]byte{2<<3 | 2, 9})), "unexpected EOF"},
		{"depth", answerOf(t, "m", deep), "nested more than"},
		{"a value that is none", answerOf(t, "n", noValue), "metadata has a value that is nothing"},
	} {
		st.send(t, tt.answer)
		said := st.request(t)
		refuses(t, "1", said, tt.why)
		check.Equal(t, "what decides after "+tt.what, s.left(t, tt.what), 2)
		wait.For(t, "the status says what is wrong", func() error {
			if err := s.Status().Err; err == nil || !strings.Contains(err.Error(), tt.why) {
				return fmt.Errorf("%s: %v", tt.what, err) //nolint:errorlint // it may be nil
			}
			return nil
		})
		accepts(t, "1", st.serve(t, "1", perUser("edge", 3))) // or the next refusal would come late
	}
}

// What takes long is refused, too.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	long, many, all := perUser("edge", 5), perUser("edge", 5), []proto.Message{}
	long.Descriptors[0].Key = strings.Repeat("\u00e9", 3<<20)
	many.Descriptors = fewRules(90_000)
	for i := range 9 {
		part := perUser(fmt.Sprint("edge", i), 5)
		part.Descriptors[0].Value = strings.Repeat(`"`, 3900<<10)
		all = append(all, part)
	}
	for why, resources := range map[string][]proto.Message{
		"edge: the resources have more than 1000000 fields":                          {unknown(bytesOf(1_000_001))},
		"edge: as a file it has more than 8388608 bytes":                             {long},
		"edge: the file has more than":                                               {many},
		"edge8: the resources up to this one have more than 67108864 bytes as files": all,
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			p := startPlane(t, "")
			s, st := following(t, p, xds.Config{MaxMessage: 64 << 20}, 3)
			st.send(t, answerOf(t, "2", resources...))
			refuses(t, "1", st.request(t), why)
			check.Equal(t, "what decides", s.left(t, "a"), 2)
		})
	}
}

// make20000 are 20,000 resources of two bytes.
func make20000() (wire []byte) {
	for range 20_000 {
		wire = append(wire, 2<<3|2, 0)
	}
	return wire
}

// bytesOf are so many descriptors of two bytes.
func bytesOf(n int) (wire []byte) {
	for range n {
		wire = append(wire, 3<<3|2, 0)
	}
	return wire
}

// What can't be answered ends the stream, and the source comes back.
func TestAnswersThatEndTheStream(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	s, st := following(t, p, xds.Config{MaxMessage: 1 << 20}, 3)
	other := answerOf(t, "2", perUser("edge", 9))
	other.TypeUrl = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	huge := perUser("edge", 9)
	huge.Descriptors[0].Value = strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		what   string
		answer *discovery.DiscoveryResponse
		why    string
	}{
		{"of another type", other, "was asked for"},
		{"a version that is no text", raw(t, "2", field(1, []byte("\xff"))...), "no text"},
		{"a long version", answerOf(t, strings.Repeat("v", 70_000), perUser("edge", 9)), "no text"},
		{"no message", raw(t, "2", 0xff), "no answer"},
		{"a huge message", answerOf(t, "2", huge), "the answer is too large: the most is 1048576 bytes"},
	} {
		st.send(t, tt.answer)
		receive(t, "the end of the stream", st.gone)
		wait.Until(t, "it says why", func() bool {
			err := s.source.Status().Err
			return err == nil || strings.Contains(err.Error(), tt.why)
		})
		check.Equal(t, "what decides after "+tt.what, s.left(t, tt.what), 2)
		if tt.what == "a huge message" {
			wait.Until(t, "the server says why", func() bool { return strings.Contains(fmt.Sprint(s.Status().Err), tt.why) })
		}
		st, _ = p.next(t)
		accepts(t, "1", st.serve(t, "1", perUser("edge", 3)))
		check.OK(t, s.Status().Err)
	}
}

// A control plane that sends without end is read at a pace at which requests are answered meanwhile.
func TestAnswersWithoutEnd(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	s, st := following(t, p, xds.Config{}, 3)
	began := time.Now()
	const n = 20
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if err := st.Send(answerOf(t, fmt.Sprint(i), perUser("edge", 3+uint32(i%2)))); err != nil { // it does not wait to be acknowledged
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range n {
		accepts(t, fmt.Sprint(i), st.request(t))
	}
	must.OK(t, receive(t, "the end", sent))
	if took := time.Since(began); took < (n-1)*100*time.Millisecond {
		t.Errorf("%d answers were read in %v", n, took)
	}
	check.Equal(t, "the last one decides", s.left(t, "a"), 3)
}

// An answer that comes slowly holds up nothing.
func TestASlowStream(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	s, st := following(t, p, xds.Config{}, 3)
	big := perUser("edge", 5)
	big.Descriptors = append(big.Descriptors, fewRules(3_000)...) // more than fits into the window of a stream
	whole := must.Get(anypb.New(big))(t)
	sending := make(chan error, 1)
	go func() {
		sending <- st.Send(&discovery.DiscoveryResponse{VersionInfo: "2", Nonce: "nonce of 2", TypeUrl: typeURL, Resources: []*anypb.Any{whole}})
	}()
	check.Equal(t, "meanwhile", s.left(t, "a") >= 0, true)
	accepts(t, "2", st.request(t))
	must.OK(t, receive(t, "the end", sending))
	s.decides(t, 5)
}
