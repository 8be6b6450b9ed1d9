package envoy

import (
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata returns the dynamic metadata of a response: the request, and what the files say of the limits
// that it passed. If several have a field, the first counts; maps are merged.
func metadata(request *rls.RateLimitRequest, passed []*rule) *structpb.Struct {
	descriptors := make([]*structpb.Value, 0, len(request.GetDescriptors()))
	for _, d := range request.GetDescriptors() {
		descriptors = append(descriptors, structpb.NewStructValue(described(d)))
	}
	all := map[string]*structpb.Value{
		"domain":      text(request.GetDomain()),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
	}
	if hits := request.GetHitsAddend(); hits != 0 {
		all["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	merged := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for _, r := range passed {
		merge(merged, r.metadata)
	}
	if len(merged.GetFields()) > 0 {
		all["metadata"] = structpb.NewStructValue(merged)
	}
	return &structpb.Struct{Fields: all}
}

func described(d *ratelimit.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, 0, len(d.GetEntries()))
	for _, entry := range d.GetEntries() {
		entries = append(entries, text(entry.GetKey()+"="+entry.GetValue()))
	}
	all := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if d.GetLimit() != nil {
		all["limit"] = text(d.GetLimit().String())
	}
	if hits := d.GetHitsAddend(); hits != nil {
		all["hitsAddend"] = structpb.NewNumberValue(float64(hits.GetValue()))
	}
	return &structpb.Struct{Fields: all}
}

// merge adds fields to others, which it must not share with a rule: they are copied.
func merge(to, from *structpb.Struct) {
	for name, v := range from.GetFields() {
		have := to.GetFields()[name]
		switch {
		case have == nil:
			to.Fields[name] = proto.CloneOf(v)
		case have.GetStructValue() != nil && v.GetStructValue() != nil:
			merge(have.GetStructValue(), v.GetStructValue())
		}
	}
}

// text returns a text, which must be UTF-8 to be sent.
func text(s string) *structpb.Value { return structpb.NewStringValue(strings.ToValidUTF8(s, "\ufffd")) }
