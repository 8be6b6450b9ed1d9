package policy_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
)

var update = flag.Bool("update", false, "write files instead of comparing them")

// The published schema is that of the loader.
func TestTheSchemaIsPublished(t *testing.T) {
	t.Parallel()
	const name = "../docs/policy.schema.json"
	if *update {
		write(t, name, string(policy.Schema()))
	}
	published := must.Get(os.ReadFile(name))(t)
	if !bytes.Equal(published, policy.Schema()) {
		t.Errorf("%s is not policy.Schema(); if the change is meant, run go test ./policy -run Schema -update", name)
	}
}
