package xds

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rlsconf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/yamlfile"
)

const (
	maxAll   = 64 << 20 // bytes of all resources as files, as of all files of a folder
	maxLabel = 128      // bytes of the name of a resource in errors
)

// resource is one resource of an answer.
type resource struct {
	name  string // as the control plane calls it
	label string // as errors call it
	wire  []byte // the RateLimitConfig
}

// filesOf returns the files that say what resources do, in the order of their names, or an error with all that is wrong with
// the resources. The rules in them are judged by the reader of files.
func filesOf(wires [][]byte) ([]policy.File, error) {
	var problems yamlfile.Problems
	found := make([]resource, 0, len(wires))
	there := make(map[string]bool, len(wires)) // names
	for i, wire := range wires {
		r, err := unpack(i, wire)
		if err == nil && there[r.name] {
			err = fmt.Errorf("two resources have the name %s", spelling.Quote(r.name))
		}
		if err != nil {
			problems.Add(yamlfile.Problem{File: r.label, Message: err.Error()})
			continue
		}
		there[r.name] = true
		found = append(found, r)
	}
	// Names are in an order of their own: rules of a domain that is in several resources are looked at in that of the files.
	slices.SortFunc(found, func(a, b resource) int { return cmp.Compare(a.name, b.name) })
	look, left := scanner{maxValues}, maxAll
	files := make([]policy.File, 0, len(found))
	for _, r := range found {
		text, err := r.render(&look)
		if err == nil && len(text) > left {
			err = fmt.Errorf("the resources up to this one have more than %d bytes as files", maxAll)
		}
		if err != nil {
			problems.Add(yamlfile.Problem{File: r.label, Message: err.Error()})
			continue
		}
		left -= len(text)
		files = append(files, policy.File{Name: r.label, Text: text})
	}
	if err := problems.Err("envoy"); err != nil {
		return nil, err
	}
	return files, nil
}

var errNoName = errors.New("a resource needs a name")

// unpack takes a resource out of its wrapping, an Any. With an error, it has a label nevertheless.
func unpack(i int, wire []byte) (resource, error) {
	r := resource{label: fmt.Sprintf("resource %d", i+1)}
	kind := ""
	err := each(wire, func(number protowire.Number, value []byte) {
		switch number {
		case 1:
			kind = string(value)
		case 2:
			r.wire = value
		}
	})
	switch {
	case err != nil:
		return r, err
	case kind != typeURL:
		return r, fmt.Errorf("it is of the type %s, and not of %s", spelling.Quote(kind), typeURL)
	}
	err = each(r.wire, func(number protowire.Number, value []byte) {
		if number == 1 {
			r.name = string(value)
		}
	})
	switch {
	case err != nil:
		return r, err
	case r.name == "":
		return r, errNoName
	}
	r.label = labelOf(r.name)
	return r, nil
}

// labelOf returns the name of a resource as it can be shown.
func labelOf(name string) string {
	if len(name) > maxLabel || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return spelling.Quote(name)
	}
	return name
}

// render returns a resource as a file.
func (r resource) render(look *scanner) ([]byte, error) {
	config := new(rlsconf.RateLimitConfig)
	if err := look.scan(config.ProtoReflect().Descriptor(), r.wire, 1); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(r.wire, config); err != nil {
		return nil, fmt.Errorf("it is no RateLimitConfig: %w", err)
	}
	var to renderer
	err := to.message(config.ProtoReflect())
	if err == nil && len(to.b) > maxText {
		err = errLong
	}
	return append(to.b, '\n'), err
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
