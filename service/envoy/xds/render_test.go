package xds

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	rlsconf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"
)

// fileOf returns the file of a resource.
func fileOf(t testing.TB, config *rlsconf.RateLimitConfig) (policy.File, error) {
	t.Helper()
	files, err := filesOf([][]byte{must.Get(proto.Marshal(must.Get(anypb.New(config))(t)))(t)})
	if err != nil {
		return policy.File{}, err
	}
	return files[0], nil
}

// fill sets each field of a message that a description has, and notes them.
func fill(m protoreflect.Message, level int, all map[protoreflect.FullName]bool) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		all[field.FullName()] = true
		var value protoreflect.Value
		switch field.Kind() {
		case protoreflect.StringKind:
			value = protoreflect.ValueOfString(fmt.Sprint("text of ", field.Name(), " ", level))
		case protoreflect.BoolKind:
			value = protoreflect.ValueOfBool(true)
		case protoreflect.Uint32Kind:
			value = protoreflect.ValueOfUint32(7)
		case protoreflect.EnumKind:
			value = protoreflect.ValueOfEnum(field.Enum().Values().Get(3).Number())
		case protoreflect.MessageKind:
			if level > 2 && field.Message() == m.Descriptor() {
				continue
			}
			inner := m.NewField(field)
			if field.IsList() {
				fill(inner.List().AppendMutable().Message(), level+1, all)
			} else if metadata, ok := inner.Message().Interface().(*structpb.Struct); ok {
				metadata.Fields = map[string]*structpb.Value{"team": structpb.NewStringValue("a")}
			} else {
				fill(inner.Message(), level+1, all)
			}
			value = inner
		default:
			panic(field.FullName() + " is of a kind that this test does not know")
		}
		m.Set(field, value)
	}
}

// Every field of the messages, those of newer versions too, is in the file under its own name, where the reader of files takes it.
// A field that comes and that the reader does not know fails this test: it would be refused at every start.
func TestEveryFieldArrives(t *testing.T) {
	t.Parallel()
	config, all := new(rlsconf.RateLimitConfig), map[protoreflect.FullName]bool{}
	fill(config.ProtoReflect(), 0, all)
	if len(all) < 17 {
		t.Errorf("the messages have %d fields: %v", len(all), all)
	}
	text := string(must.Get(fileOf(t, config))(t).Text)
	for name := range all {
		if name == resourceType+".name" { // is that of the file
			continue
		}
		check.Contains(t, string(name), text, fmt.Sprintf("%q: ", name.Name()))
	}
	check.Equal(t, "lines: the first, and one of each descriptor", strings.Count(text, "\n"), 1+3)

	// One that is unlimited has no unit, and all else is as good as in a file.
	for _, d := range []*rlsconf.RateLimitDescriptor{config.GetDescriptors()[0], config.GetDescriptors()[0].GetDescriptors()[0]} {
		d.RateLimit.Unlimited = false
	}
	last := config.GetDescriptors()[0].GetDescriptors()[0].GetDescriptors()[0]
	last.RateLimit.Unit = 0
	file := must.Get(fileOf(t, config))(t)
	check.Equal(t, "the name of the file", file.Name, "text of name 0")
	check.OK(t, envoy.Config{}.Validate(file))
	// A limit of 0 requests is one that denies everything.
	last.RateLimit = &rlsconf.RateLimitPolicy{Unit: rlsconf.RateLimitUnit_WEEK}
	file = must.Get(fileOf(t, config))(t)
	check.Contains(t, "a limit of none", string(file.Text), `"rate_limit": {"unit": "week", "requests_per_unit": 0}`)
	check.OK(t, envoy.Config{}.Validate(file))
	// A limit without anything is none.
	last.RateLimit = new(rlsconf.RateLimitPolicy)
	check.Fails(t, "no unit", envoy.Config{}.Validate(must.Get(fileOf(t, config))(t)), "rate_limit needs a unit")
}

// The units of both are the same, but for the one that is none.
func TestUnits(t *testing.T) {
	t.Parallel()
	for number, name := range rlsconf.RateLimitUnit_name {
		config := &rlsconf.RateLimitConfig{Name: "a", Domain: "a", Descriptors: []*rlsconf.RateLimitDescriptor{{
			Key: "a", RateLimit: &rlsconf.RateLimitPolicy{Unit: rlsconf.RateLimitUnit(number), RequestsPerUnit: 1},
		}}}
		err := envoy.Config{}.Validate(must.Get(fileOf(t, config))(t))
		check.Equal(t, name+" is a unit", err == nil, number != 0)
	}
}

// A reader of YAML finds each text as it was, whatever characters it has.
func TestTexts(t *testing.T) {
	t.Parallel()
	texts := []string{"", "yes", "50", "null", "~", "<<", "*a", "&a", "# weblimit: sliding_window", "a\n# weblimit: sliding_window\n", "a: b", "- a", "\"", `\`, `\u0041`, "\t", "\u2028\u2029\u0085\ufeff\ufffe\x7f\x00", "日本", "😀", "...", "---\n"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b strings.Builder
		for range r.IntN(8) {
			if c := rune(r.IntN([]int{0x80, 0x300, 0x10000, 0x110000}[r.IntN(4)])); utf8.ValidRune(c) {
				b.WriteRune(c)
			}
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		var to renderer
		to.text(text)
		var read any
		must.OK(t, yaml.Unmarshal(to.b, &read))
		if read != text {
			t.Errorf("%q is read as %q", text, read)
		}
	}
	// As keys and values of metadata, too, and no text makes a comment that says how limits count.
	for _, text := range texts[1:200] {
		config := &rlsconf.RateLimitConfig{Name: "a", Domain: text, Descriptors: []*rlsconf.RateLimitDescriptor{{
			Key: text, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{text: structpb.NewStringValue(text)}},
		}}}
		if text != "" {
			check.OK(t, envoy.Config{}.Validate(must.Get(fileOf(t, config))(t)))
		}
	}
}

// Metadata is what it was, and what a file can't say is refused.
func TestMetadata(t *testing.T) {
	t.Parallel()
	values := must.Get(structpb.NewStruct(map[string]any{
		"null": nil, "true": true, "": "", "number": 1.5, "large": 1e300, "small": -1e-300, "count": 12345678901, "list": []any{1, "a", []any{}, map[string]any{}},
		"<<": map[string]any{"a": "b"}, "map": map[string]any{"a": map[string]any{"b": []any{true, nil}}},
	}))(t)
	config := &rlsconf.RateLimitConfig{Name: "a", Domain: "a", Descriptors: []*rlsconf.RateLimitDescriptor{{Key: "a", Metadata: values}}}
	file := must.Get(fileOf(t, config))(t)
	check.OK(t, envoy.Config{}.Validate(file))
	var read struct {
		Descriptors []struct{ Metadata map[string]any }
	}
	must.OK(t, yaml.Unmarshal(file.Text, &read))
	again := must.Get(structpb.NewStruct(read.Descriptors[0].Metadata))(t)
	if !proto.Equal(again, values) {
		t.Errorf("%v is read as %v", values, again)
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		config.Descriptors[0].Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewNumberValue(f)}}
		check.Fails(t, fmt.Sprint(f), envoy.Config{}.Validate(must.Get(fileOf(t, config))(t)), "is no number that metadata can have")
	}
	nested := structpb.NewNullValue()
	for range 90 {
		nested = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": nested}})
	}
	config.Descriptors[0].Metadata = nested.GetStructValue()
	check.OK(t, envoy.Config{}.Validate(must.Get(fileOf(t, config))(t)))
	for range 20 {
		nested = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": nested}})
	}
	config.Descriptors[0].Metadata = nested.GetStructValue()
	file, err := fileOf(t, config)
	if err == nil {
		err = envoy.Config{}.Validate(file)
	}
	check.Fails(t, "depth", err, "nested more than")
}

// Whatever arrives, reading it ends, and either says what is wrong or has a file for each resource.
func FuzzRead(f *testing.F) {
	config := new(rlsconf.RateLimitConfig)
	fill(config.ProtoReflect(), 0, map[protoreflect.FullName]bool{})
	packed := must.Get(proto.Marshal(must.Get(anypb.New(config))(f)))(f)
	wire := append([]byte{2<<3 | 2}, appendLength(nil, packed)...)
	wire = append(append(wire, 4<<3|2), appendLength(nil, []byte(typeURL))...)
	f.Add(wire)
	f.Add(append(wire, wire...))
	f.Add(wire[:len(wire)/2])
	f.Fuzz(func(t *testing.T, wire []byte) {
		a, err := read(wire)
		if err != nil {
			return
		}
		if (a.err == nil) != (a.files != nil) {
			t.Errorf("files %v, error %v", a.files, a.err)
		}
		for _, file := range a.files {
			_ = envoy.Config{}.Validate(file) // which must not panic
			var fields map[string]any
			if err := yaml.Unmarshal(file.Text, &fields); err != nil {
				t.Errorf("a file that is no YAML: %v\n%s", err, file.Text)
			}
		}
	})
}

func appendLength(to, value []byte) []byte {
	to = append(to, byte(len(value)|0x80), byte(len(value)>>7))
	return append(to, value...)
}
