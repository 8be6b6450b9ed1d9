package policy_test

import (
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
)

// A file says how limits count over regions, and is right wherever it is read. What a store can't do is an error when a
// limiter is made, and not before: whoever checks a file has no store.
func TestRegions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]store.Regions{
		"regions: leased":               {},
		"regions: each":                 {Mode: core.InEachRegion},
		"regions: home":                 {Mode: core.AtHome},
		"overdraft: 5":                  {Overdraft: 5},
		"regions: leased, overdraft: 3": {Overdraft: 3},
	} {
		set := must.Get(policy.Parse("test.yaml", []byte(one("limit: 5/hour, by: everyone, "+text)), policy.Options{}))(t)
		s := inRegion(core.NewMemory())
		must.Get(set.Limiter(core.Config{Store: s}, "p"))(t)
		d, _ := s.Registry().Declared("a")
		check.Equal(t, text, d.Regions, want)
		_, err := set.Limiter(core.Config{Store: core.NewMemory()}, "p")
		if want == (store.Regions{}) {
			check.OK(t, err)
		} else {
			check.Fails(t, text+", without regions", err, "are for a store of several regions")
		}
	}
	for text, want := range map[string]string{
		"regions: everywhere":         "leased, each or home",
		"overdraft: -1":               "overdraft",
		"overdraft: 6":                "the overdraft must be from 0 to the quota of 5, got 6",
		"regions: home, overdraft: 1": `Overdraft belongs to a leased limit: with the mode "home"`,
	} {
		_, err := policy.Parse("test.yaml", []byte(one("limit: 5/hour, by: everyone, "+text)), policy.Options{})
		check.Fails(t, text, err, want)
	}
	_, err := policy.Parse("test.yaml", []byte("policies: {a: {limits: {x: {limit: 5/hour, by: everyone}}}, b: {limits: {x: {limit: 5/hour, by: everyone, regions: home}}}}"), policy.Options{})
	check.Fails(t, "one name, two modes", err, "which counts otherwise over regions")
	_, err = policy.Parse("test.yaml", []byte("policies: {a: {fallback: {z: {limit: 5/hour, by: everyone, regions: home}}, limits: {x: {limit: 5/hour, by: everyone}}}}"), policy.Options{})
	check.Fails(t, "limits for outages, which this process decides", err, "here this process decides")
}
