package xds

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/policy"
)

const (
	resourceType = "ratelimit.config.ratelimit.v3.RateLimitConfig"
	typeURL      = "type.googleapis.com/" + resourceType

	maxResources = 10_000   // of an answer; a folder may have as many files
	maxVersion   = 64 << 10 // bytes of a version and of a nonce, which are sent back
)

// answer is what the control plane has sent once: a DiscoveryResponse.
type answer struct {
	version, nonce string
	sum            sum           // of the resources: they were judged before if the sum is that of before
	files          []policy.File // what the resources say, in the order of their names
	err            error         // why there are no files, or nil

	judged chan error // gets what became of the files; it has room for that

	// Guarded by Source.mu.
	decided bool  // whether the files were judged
	verdict error // what is wrong with them, or nil
}

// sum is the hash of resources in any order: a control plane that keeps them in a map sends them in another one each time.
type sum [sha256.Size]byte

var errNoAnswer = errors.New("the control plane has sent what is no answer")

// read reads an answer. An error means that the control plane can't be told what is wrong with it; what is wrong with its
// resources is in answer.err.
func read(wire []byte) (*answer, error) {
	a := &answer{judged: make(chan error, 1)}
	kind, resources, most := "", [][]byte(nil), 0
	err := each(wire, func(number protowire.Number, value []byte) {
		switch number {
		case 1:
			a.version = string(value)
		case 2:
			if most++; most <= maxResources { // each takes two bytes of an answer, and a hundred and more of memory
				resources = append(resources, value)
			}
		case 4:
			kind = string(value)
		case 5:
			a.nonce = string(value)
		}
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	case kind != typeURL:
		return nil, fmt.Errorf("the control plane was asked for %s and has sent %s", typeURL, spelling.Quote(kind))
	case max(len(a.version), len(a.nonce)) > maxVersion || !utf8.ValidString(a.version) || !utf8.ValidString(a.nonce):
		return nil, fmt.Errorf("%w: its version or nonce is no text, or has more than %d bytes", errNoAnswer, maxVersion)
	}
	a.sum = sumOf(resources, most)
	if most > maxResources {
		a.err = fmt.Errorf("weblimit: envoy: the control plane has sent %d resources, the most is %d", most, maxResources)
	} else {
		a.files, a.err = filesOf(resources)
	}
	return a, nil
}

// each calls use for each field of a message that is a text, bytes or a message.
func each(wire []byte, use func(number protowire.Number, value []byte)) error {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
		if n = protowire.ConsumeFieldValue(number, kind, wire); n < 0 {
			return protowire.ParseError(n)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(wire[:n])
			use(number, value)
		}
		wire = wire[n:]
	}
	return nil
}

// sumOf returns the hash of resources, of which there are all in all so many.
func sumOf(resources [][]byte, all int) sum {
	sums := make([]sum, len(resources))
	for i, r := range resources {
		sums[i] = sha256.Sum256(r)
	}
	slices.SortFunc(sums, func(a, b sum) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	for _, s := range sums {
		h.Write(s[:])
	}
	fmt.Fprint(h, all)
	return sum(h.Sum(nil))
}
