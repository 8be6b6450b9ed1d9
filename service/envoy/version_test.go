package envoy_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"
)

// swapped is a source of one file, which the test swaps.
type swapped struct{ text string }

func (s *swapped) Load(context.Context) ([]policy.File, error) {
	return []policy.File{{Name: "d.yaml", Text: []byte(s.text)}}, nil
}

func (*swapped) Watch(context.Context, func()) {}

// Two files whose versions, twelve digits of a hash, are the same are two files.
func TestFilesOfOneVersionAreTold(t *testing.T) {
	t.Parallel()
	text := func(perDay, found int) string {
		return fmt.Sprintf("domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: %d}}]\n# %d\n", perDay, found)
	}
	source := &swapped{text(1, 15194185)}
	s := newServer(t, envoy.Config{Source: source})
	before := s.Status().Version
	wantAnswers(t, direct{s}, request("d", "k=a"), "OK, OK 0")
	source.text = text(9, 4709356)
	must.OK(t, s.Reload(t.Context()))
	check.Equal(t, "the version, or this tests nothing", s.Status().Version, before)
	wantAnswers(t, direct{s}, request("d", "k=b"), "OK, OK 8")
}

// An algorithm for a domain that no file has does nothing, which is said whenever files are taken.
func TestAnAlgorithmOfADomainThatNoFileHas(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	source := &swapped{"domain: edge\n"}
	s := newServer(t, envoy.Config{
		Source: source, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Algorithms: map[string]envoy.Algorithm{"edge": envoy.SlidingWindow, "egde": envoy.SlidingWindow},
	})
	const line = `Config.Algorithms has a domain that no file has; did you mean \"edge\"?" domain=egde`
	check.Contains(t, "the log", log.String(), line)
	check.Equal(t, "lines", bytes.Count(log.Bytes(), []byte("\n")), 1)
	log.Reset()
	source.text = "domain: egde\n"
	must.OK(t, s.Reload(t.Context()))
	check.Contains(t, "the log", log.String(), "that no file has; did you mean \\\"egde\\\"?\" domain=edge")
}
